"""The training loop: steps, clipping, averaging, reports, files, and stopping in time."""

import signal
import time
from pathlib import Path

import torch

from . import schedule, state
from .draw import Draw
from .evaluate import HeldOut
from .graphs import Steps
from .step import draw_batch
from .unroll import Unroll


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
        self.optimizer = torch.optim.AdamW(groups, lr=options.lr_single, fused=cuda)
        self.average = state.Average(self.model, options.ema)
        self.draw = Draw(options.seed * 7919 + 1, self.device)
        self.steps = Steps(Unroll(self.model, side), options.bf16, options.eager)
        self.step, self.spent, self.clips_from = 0, 0.0, None
        if options.resume:
            kept = state.read_resume(options.resume, self.model, self.average, self.optimizer, self.draw)
            self.step, self.spent, self.clips_from = kept["step"], kept["seconds"], kept["clips_from"]
            print(f"resumed at step {self.step} after {self.spent:.0f} s")
        count = options.held_out
        self.held_out = [HeldOut.make(self.device, count, side, alike) for alike in (False, True)]
        self.out = Path(options.out)
        self.plan = options.plan or self.spent + options.seconds
        self.iou = 0.0

    def run(self):
        """Until this run's seconds or the whole plan are used up or a signal comes; always saves.
        """
        stop = Stop()
        # What is spent on held-out clips and files is no training time.
        self.began = time.perf_counter() - self.spent
        end = self.spent + self.options.seconds
        sums, since, mark = {}, 0, self.seconds()
        saved = judged = self.seconds()
        try:
            while not stop.asked and self.seconds() < min(end, self.plan):
                for name, value in self.advance().items():
                    sums[name] = sums.get(name, 0.0) + value
                since += 1
                if self.step % self.options.log_every == 0:
                    self.report(sums, since, mark)
                    sums, since, mark = {}, 0, self.seconds()
                if self.seconds() - judged >= self.options.eval_seconds:
                    self.evaluate()
                    judged = self.seconds()
                if self.seconds() - saved >= self.options.save_seconds:
                    self.save()
                    saved = self.seconds()
        finally:
            self.save()
        self.evaluate(boxes=True)
        self.save()

    def seconds(self):
        """Training time, including that of the runs this one continues."""
        return time.perf_counter() - self.began

    def advance(self):
        """One optimizer step; returns its losses as device tensors."""
        options = self.options
        done = options.begin + (1 - options.begin) * self.seconds() / self.plan
        stages = schedule.FINISH if options.finish else schedule.STAGES
        stage = schedule.stage(done, stages)
        frames = schedule.clip_length(stage, self.step, options.seed)
        if frames > 1 and self.clips_from is None:
            self.clips_from = self.step
        rate = schedule.learning_rate(self.step, done, options.lr_single, options.lr, self.clips_from, stages)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        scenes = max(2, round(stage.scenes * options.batch))
        batch = draw_batch(self.draw, scenes, frames, self.side, options.mix)
        losses = self.steps.run(batch, stage, stage.quiet)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), options.clip)
        self.optimizer.step()
        self.average.update(self.model, self.step)
        self.step += 1
        return losses | {"norm": norm, "frames": torch.tensor(float(frames))}

    def report(self, sums, steps, mark):
        """Prints mean losses; the only place besides `evaluate` that waits for the device."""
        names = ("loss", "mask", "iou", "score", "norm", "frames")
        values = [float(sums[n]) / steps for n in names]
        if not all(v == v and abs(v) != float("inf") for v in values):
            raise FloatingPointError(f"step {self.step}: the loss is not finite; try a lower --lr")
        text = "  ".join(f"{n} {v:.4f}" for n, v in zip(names[:-1], values))
        rate = self.optimizer.param_groups[0]["lr"]
        memory = ""
        if self.device.type == "cuda":
            memory = f"  {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
        print(
            f"step {self.step:6d}  {100 * self.seconds() / self.plan:5.1f} %  {self.seconds():.0f} s  "
            f"{text}  "
            f"lr {rate:.2e}  {values[-1]:.1f} frames  {steps / (self.seconds() - mark):.2f} steps/s{memory}",
            flush=True,
        )

    def evaluate(self, boxes=False):
        """Prints the averaged model's IoU on the held-out clips; not counted as training time."""
        paused = time.perf_counter()
        unroll = Unroll(self.average.model, self.side)
        for held_out in self.held_out:
            for kind in ("point", "box") if boxes and not held_out.alike else ("point",):
                iou, text = held_out.line(unroll, kind)
                print(f"held-out at step {self.step}, {text}", flush=True)
                if not held_out.alike and kind == "point":
                    self.iou = iou
        self.began += time.perf_counter() - paused

    def save(self):
        """Writes the averaged weights and the file to resume from; not counted as training time."""
        paused = time.perf_counter()
        for tensor in self.model.state_dict().values():
            if tensor.dtype.is_floating_point and not bool(torch.isfinite(tensor).all()):
                print("not saved: the weights are not finite; the last files stay", flush=True)
                return
        about = {"step": self.step, "seed": self.options.seed, "held_out_iou": self.iou}
        state.write_weights(self.average.model, self.out, about)
        progress = {"step": self.step, "seconds": paused - self.began, "clips_from": self.clips_from}
        where = self.out.with_suffix(".resume.pt")
        state.write_resume(where, self.model, self.average, self.optimizer, self.draw, progress)
        self.began += time.perf_counter() - paused
