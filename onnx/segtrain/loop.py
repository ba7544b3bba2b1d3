"""The training loop: steps, clipping, averaging, reports, files, and stopping in time."""

import signal
import time
from pathlib import Path

import torch

from . import schedule, state
from .draw import Draw
from .evaluate import HeldOut
from .step import clip_loss
from .unroll import Unroll

# The perceiver attends in 64 windows of each clip; CUDA kernels take 65535 of them at most.
MOST_CLIPS = 512


def parameters(model, decay):
    """Optimizer groups: only matrices and kernels decay."""
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    tables = ("embed", "token", "latents", "tpos")
    heavy = [p for n, p in named if p.dim() >= 2 and not any(part in n for part in tables)]
    chosen = set(map(id, heavy))
    light = [p for _, p in named if id(p) not in chosen]
    return [{"params": heavy, "weight_decay": decay}, {"params": light, "weight_decay": 0.0}]


class Stop:
    """Turns the first SIGINT or SIGTERM into a flag; the second one interrupts."""

    def __init__(self):
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, number, _):
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        print(f"signal {number}: finishing this step and saving", flush=True)


class Training:
    """Trains `model` in place; `options` are the command's."""

    def __init__(self, model, side, options):
        self.options, self.side = options, side
        self.device = torch.device(options.device)
        self.model = model.to(self.device)
        # Only batch norms are in training mode: the rest has nothing but dropout to switch,
        # and a small network on endless data does not need it.
        self.model.eval().image_encoder.trunk.train()
        cuda = self.device.type == "cuda"
        groups = parameters(self.model, options.weight_decay)
        self.optimizer = torch.optim.AdamW(groups, lr=options.lr, fused=cuda)
        self.average = state.Average(self.model, options.ema)
        self.draw = Draw(options.seed * 7919 + 1, self.device)
        self.unroll = Unroll(self.model, side)
        self.step, self.spent = 0, 0.0
        if options.resume:
            kept = state.read_resume(options.resume, self.model, self.average, self.optimizer, self.draw)
            self.step, self.spent = kept["step"], kept["seconds"]
            print(f"resumed at step {self.step} after {self.spent:.0f} s")
        self.held_out = HeldOut.make(self.device, options.held_out, side)
        self.out = Path(options.out)

    def run(self):
        """Until the steps or minutes are used up or a signal comes; saves in every case."""
        stop = Stop()
        self.began = time.perf_counter() - self.spent
        self.evaluate()
        sums, since, mark = {}, 0, time.perf_counter()
        try:
            while not stop.asked and self.done() < 1.0:
                for name, value in self.advance().items():
                    sums[name] = sums.get(name, 0.0) + value
                since += 1
                if self.step % self.options.log_every == 0:
                    mark = self.report(sums, since, mark)
                    sums, since = {}, 0
                if self.step % self.options.eval_every == 0:
                    self.evaluate()
                    self.save()
                    mark = time.perf_counter()
        finally:
            self.save()
        self.evaluate()
        self.held_out.sheet(Unroll(self.average.model, self.side), self.out.with_suffix(".png"))

    def done(self):
        """Share of the training that is over, by steps or by minutes, whichever is more."""
        share = self.step / self.options.steps
        if self.options.minutes:
            share = max(share, self.seconds() / (60 * self.options.minutes))
        return share

    def seconds(self):
        """Training time, including that of the runs this one continues."""
        return time.perf_counter() - self.began

    def advance(self):
        """One optimizer step; returns its losses as device tensors."""
        options, done = self.options, self.done()
        rate = schedule.learning_rate(self.step, done, options.lr, options.warm_up)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        frames = schedule.clip_length(self.step, done, options.seed, options.longest)
        clips = max(1, min(MOST_CLIPS, options.frames_per_step // frames))
        seed = options.seed * 1_000_003 + self.step
        loss, parts = clip_loss(self.unroll, self.draw, clips, frames, seed)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), options.clip)
        self.optimizer.step()
        self.average.update(self.model, self.step)
        self.step += 1
        return parts | {"loss": loss.detach(), "norm": norm}

    def report(self, sums, steps, mark):
        """Prints mean losses; the only place besides `evaluate` that waits for the device."""
        names = ("loss", "mask", "iou", "score", "norm")
        values = torch.stack([sums[n] for n in names]).div(steps).tolist()
        if not all(v == v and abs(v) != float("inf") for v in values):
            raise FloatingPointError(f"step {self.step}: the loss is not finite; try a lower --lr")
        now = time.perf_counter()
        text = "  ".join(f"{n} {v:.4f}" for n, v in zip(names, values))
        rate = self.optimizer.param_groups[0]["lr"]
        memory = ""
        if self.device.type == "cuda":
            memory = f"  {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
        print(
            f"step {self.step:6d}  {100 * self.done():5.1f} %  {text}  lr {rate:.2e}  "
            f"{steps / (now - mark):.2f} steps/s{memory}",
            flush=True,
        )
        return now

    def evaluate(self):
        """Prints the averaged model's IoU on the held-out clips."""
        clicked, later, last = self.held_out.score(Unroll(self.average.model, self.side))
        print(
            f"held-out at step {self.step}: IoU {clicked:.4f} clicked frame, "
            f"{later:.4f} tracked frames, {last:.4f} frame 15  ({self.seconds():.0f} s)",
            flush=True,
        )
        self.iou = later

    def save(self):
        """Writes the averaged weights and the file to resume from."""
        for tensor in self.model.state_dict().values():
            if tensor.dtype.is_floating_point and not bool(torch.isfinite(tensor).all()):
                print("not saved: the weights are not finite; the last files stay", flush=True)
                return
        about = {"step": self.step, "seed": self.options.seed, "held_out_iou": self.iou}
        state.write_weights(self.average.model, self.out, about)
        progress = {"step": self.step, "seconds": self.seconds()}
        where = self.out.with_suffix(".resume.pt")
        state.write_resume(where, self.model, self.average, self.optimizer, self.draw, progress)
