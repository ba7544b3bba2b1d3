"""Teaches SAM 2.1 tiny's memory to follow objects that it never saw; image encoder, prompt encoder
and mask decoder are Meta's.

    python lab/train/learn_unseen.py frames --videos DIR --out frames
    python lab/train/learn_unseen.py given --overlay TINY.safetensors --out given
python lab/train/learn_unseen.py learn --given given --frames frames --split DIR --seconds 400 --out
learnt [--resume learnt]
    python lab/train/learn_unseen.py join --given given --learnt learnt --out sam2.1_tiny.safetensors

There are no labels: the decoder's own masks for grids of clicks on frames of videos are cut out and
moved over other frames (`segtrain/cutouts.py`, `collage.py`). `--split` is only judged, never
learnt: J&F from one click in the first frame, before learning and after. What is learnt lies in
pieces of 15 MB, from which `--resume` goes on.
"""

import argparse
import math
import subprocess
import sys
import time
from pathlib import Path

import torch

import segtrain  # puts the exporter, segexport, on Python's path
from segexport import ExportError
from segtrain import pieces

SIDE, LABEL_SIDE = 512, 1024
WARM_UP = 80  # steps
MASK_PROMPTS = 0.4  # share of the steps that are prompted with masks; the others click
# IoU of the clicked frame below which the decoder chose another object, so that the clip teaches
# nothing.
MISSED = 0.6
# Until which share of the time: frames of a clip, and the part of `--clips` that fits.
LENGTHS = "0.2:4:1.5,0.75:8:1,1:12:0.65"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    steps = parser.add_subparsers(dest="step", required=True)
    frames = steps.add_parser("frames", help="decodes videos to small JPEGs")
    frames.add_argument("--videos", required=True, type=Path)
    frames.add_argument("--rate", type=float, default=4, help="frames of a second")
    frames.add_argument("--height", type=int, default=360)
    frames.add_argument("--quality", type=int, default=8, help="ffmpeg's scale: 2 is best, 31 worst")
    given = steps.add_parser("given", help="packs Meta's tensors into pieces")
    given.add_argument("--overlay", required=True, type=Path)
    join = steps.add_parser("join", help="writes a whole checkpoint")
    join.add_argument("--learnt", required=True, type=Path)
    learn = steps.add_parser("learn")
    learn.add_argument("--frames", required=True, type=Path)
    learn.add_argument("--split", required=True, type=Path, help="is judged, not learnt")
    learn.add_argument("--resume", type=Path, help="folder that an earlier run wrote")
    learn.add_argument("--seconds", type=float, default=400, help="time of learning, judging in between "
                                                                  "included")
    learn.add_argument("--imgsz", type=int, default=SIDE)
    learn.add_argument("--label-imgsz", type=int, default=LABEL_SIDE, help="image side at which masks are "
                                                                           "found")
    learn.add_argument("--bank", type=Path, metavar="FILE.pt", help="keeps the found masks for another run")
    learn.add_argument("--lengths",
                       default=LENGTHS,
                       metavar="SHARE:FRAMES:PART,...",
                       help="until which share of the time: a clip's frames, part of --clips")
    learn.add_argument("--judge-untrained", action="store_true", help="judge the start weights too before "
                                                                      "resuming")
    learn.add_argument("--clips", type=int, default=16, help="of a step; two targets in each")
    learn.add_argument("--rate", type=float, default=4e-4, help="highest learning rate")
    learn.add_argument("--decoder", type=float, default=0.0, help="part of the rate at which the mask "
                                                                  "decoder learns too")
    learn.add_argument("--ema", type=float, default=0.998)
    learn.add_argument("--every", type=int, default=1, help="take every N-th frame of the videos")
    learn.add_argument("--grid", type=int, default=10, help="clicks along a frame's side to find masks")
    learn.add_argument("--limit", type=int, help="judge the first N frames of each clip (for trials)")
    learn.add_argument("--judge-seconds", type=float, default=150)
    learn.add_argument("--save-seconds", type=float, default=60)
    learn.add_argument("--log-every", type=int, default=20)
    learn.add_argument("--seed", type=int, default=0)
    learn.add_argument("--device", default="cuda")
    for step in (given, join, learn):
        step.add_argument("--out", required=True, type=Path)
    for step in (join, learn):
        step.add_argument("--given", required=True, type=Path)
    frames.add_argument("--out", required=True, type=Path)
    return parser.parse_args()


def decode(args):
    for path in sorted(args.videos.glob("*.mp4")):
        folder = args.out / path.stem
        folder.mkdir(parents=True, exist_ok=True)
        how = ["-vf", f"fps={args.rate},scale=-2:{args.height}:flags=area", "-q:v", str(args.quality)]
        subprocess.run(["ffmpeg", "-v", "error", "-threads", "1", "-i", path, *how, folder / "%05d.jpg"],
                       check=True)
    found = list(args.out.glob("*/*.jpg"))
    print(f"{len(found)} frames, {sum(p.stat().st_size for p in found) / 1e6:.1f} MB")


def pack(args):
    """The table of positions is for one image side: as the parameters that it came from it serves
    every side, and is small."""
    from learn_tracking import positions_as_parameters
    from safetensors.torch import load_file
    from segexport.models import build

    tensors = load_file(args.overlay)
    table = tensors.pop("image_encoder.trunk.pos_embed_baked", None)
    if table is not None:
        model, _ = build("sam2.1_tiny", LABEL_SIDE)
        trunk = model.image_encoder.trunk
        table = table.float().permute(0, 2, 3, 1).contiguous()
        trunk._get_pos_embed = lambda size: table
        positions_as_parameters(trunk)
        for name in ("pos_embed", "pos_embed_window"):
            tensors[f"image_encoder.trunk.{name}"] = getattr(trunk, name).detach().clone()
    tensors = {name: t.half() if t.numel() > 100_000 else t for name, t in tensors.items()}
    pieces.write(tensors, args.out, "given")
    print(f"{len(tensors)} tensors, {sum(p.stat().st_size for p in args.out.glob('given.??')) / 1e6:.1f} MB")


def network(args, side):
    """The predictor with Meta's tensors; what is learnt is PyTorch's initialisation."""
    from segexport.models import build
    from segtrain import real

    torch.manual_seed(0)
    model, _ = build("sam2.1_tiny", side)
    with torch.no_grad():
        real.load_given(model, pieces.read(args.given, "given"))
    return model


def join(args):
    from safetensors.torch import save_file

    model = network(args, SIDE)
    kept = pieces.read(args.learnt, "learnt")
    own = model.state_dict()
    for name, value in kept["average"].items():
        own[name].copy_(value.float())
    save_file({name: value.float().contiguous()
               for name, value in own.items()},
              args.out,
              metadata={"seen": str(kept["step"])})


class Learner:
    """The network, its average, and the optimizer; everything that a later run needs."""

    def __init__(self, args):
        from segtrain import real
        from segtrain.draw import Draw

        self.args, self.device = args, args.device
        self.draw = Draw(args.seed * 7919 + 1, args.device)
        began = time.monotonic()
        self.bank = self.find(args)
        count, frames = len(self.bank.masks), len(self.bank.frames)
        print(f"{count} masks, {int(self.bank.whole.sum())} of them whole, in {frames} frames, "
              f"{time.monotonic() - began:.0f} s", flush=True)
        self.model = real.freeze(network(args, args.imgsz).to(args.device), args.decoder > 0)
        shown = self.bank.frames[:: max(1, len(self.bank.frames) // 32)][:32]
        real.prepare(self.model, real.normalised(shown.float()))
        self.loop = real.Loop(self.model)
        taught = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        tuned = lambda n: not real.is_learnt(n)
        groups = []
        for part, mine in ((1.0, lambda n: not tuned(n)), (args.decoder, tuned)):
            for decay, kind in ((0.02, lambda p: p.dim() >= 2), (0.0, lambda p: p.dim() < 2)):
                names = [n for n, p in taught.items() if mine(n) and kind(p)]
                if names:
                    groups.append({
                        "params": [taught[n] for n in names], "names": names, "weight_decay": decay, "part":
                        part
                    })
        self.optimizer = torch.optim.AdamW(groups,
                                           lr=args.rate,
                                           betas=(0.9, 0.98),
                                           fused=args.device == "cuda")
        self.taught, self.step = taught, 0
        self.average = {n: p.detach().clone() for n, p in taught.items()}
        self.lengths = [(float(s), int(f), float(p))
                        for s, f, p in (each.split(":") for each in args.lengths.split(","))]

    def find(self, args):
        from segtrain import cutouts

        if args.bank and args.bank.exists():
            found = torch.load(args.bank, weights_only=True)
        else:
            model = network(args, args.label_imgsz).to(args.device).eval()
            found = cutouts.find_all(model, args.frames, args.label_imgsz, args.device, args.every, args.grid)
            if args.bank:
                torch.save(found, args.bank)
        return cutouts.make_bank(found, args.frames, args.imgsz, args.device, args.every)

    def save(self):
        """The averaged weights in 16 bits and the optimizer's moments: what goes on begins at the
        average."""
        state = self.optimizer.state
        kept = {
            "step": self.step,
            "average": {n: a.half().cpu()
                        for n, a in self.average.items()},
            "first":
            {n: state[p]["exp_avg"].bfloat16().cpu()
             for n, p in self.taught.items()
             if p in state},
            "second": {
                n: state[p]["exp_avg_sq"].sqrt().bfloat16().cpu()
                for n, p in self.taught.items()
                if p in state
            },
        }
        pieces.write(kept, self.args.out, "learnt")

    @torch.no_grad()
    def resume(self, folder):
        kept = pieces.read(folder, "learnt", self.device)
        self.step = kept["step"]
        for name, value in kept["average"].items():
            if name in self.taught:
                self.taught[name].copy_(value)
                self.average[name].copy_(value)
        for name, first in kept["first"].items():
            if name in self.taught:
                second = kept["second"][name].float().square()
                count = torch.tensor(float(self.step), device=self.device if self.device == "cuda" else "cpu")
                self.optimizer.state[self.taught[name]] = {
                    "step": count, "exp_avg": first.float(), "exp_avg_sq": second
                }
        self.draw.generator.manual_seed(self.args.seed * 7919 + 1 + self.step)
        print(f"resumed at step {self.step}", flush=True)

    def learn(self, share):
        """One optimizer step at `share` of the time; losses as device tensors."""
        from segtrain import real
        from segtrain.collage import clicks, collage

        args = self.args
        frames, part = next((f, p) for until, f, p in self.lengths if share < until or until == 1)
        made = collage(self.draw, self.bank, max(1, round(args.clips * part)), frames, args.imgsz)
        chooser = torch.Generator().manual_seed(args.seed + self.step)
        prompt = {"points": clicks(self.draw, made.first)}
        if torch.rand(1, generator=chooser).item() < MASK_PROMPTS:
            prompt = {"mask": (made.first[:, None] > 0.5).float()}
        sums, right, usable = {}, [], made.usable
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device != "cpu"):
            maps, positions = self.loop.features(made.images.flatten(0, 1))
            answers = list(self.loop.clip(maps, positions, frames, made.scene, **prompt))
        for t, answer in enumerate(answers):
            losses, iou = real.frame_loss(answer, made.masks[:, t])
            if t == 0:
                if "points" in prompt:
                    usable = usable * (iou > MISSED)
                    sums["clicked"] = (iou * made.usable).sum() / made.usable.sum().clamp(min=1)
                continue
            weight = usable / usable.sum().clamp(min=1) / (frames - 1)
            for name, loss in losses.items():
                sums[name] = sums.get(name, 0.0) + (loss * weight).sum()
            right.append((iou * weight).sum().detach())
            sums["predicted"] = sums.get("predicted", 0.0) + (answer.ious.amax(dim=1).detach() * weight).sum()
        total = sums["mask"] + sums["iou"] + sums["score"]
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.taught.values(), 1.0)
        warm = min(1, (self.step + 1) / WARM_UP)
        for group in self.optimizer.param_groups:
            group["lr"] = group["part"] * args.rate * warm * (
                0.01 + 0.99 * (0.5 + 0.5 * math.cos(math.pi * min(share, 1))))
        self.optimizer.step()
        decay = min(args.ema, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.values()), [p.detach() for p in self.taught.values()],
                                 1 - decay)
        self.step += 1
        told = {n: s.detach() for n, s in sums.items()}
        return told | {"norm": norm, "iou of tracked": torch.stack(right).sum(), "usable": usable.mean()}

    @torch.no_grad()
    def judge(self, split, when):
        """J&F of the average."""
        from segtrain.davis import judge

        mine = {n: p.detach().clone() for n, p in self.taught.items()}
        for name, parameter in self.taught.items():
            parameter.copy_(self.average[name])
        began = time.monotonic()
        lines, jf = judge(self.loop, split, self.args.imgsz, self.device)
        for name, parameter in self.taught.items():
            parameter.copy_(mine[name])
        print(f"{when} ({time.monotonic() - began:.0f} s):\n  " + "\n  ".join(lines), flush=True)
        return jf


def learn(args):
    from segtrain.davis import read_split
    from segtrain.show import sheet

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    args.out.mkdir(parents=True, exist_ok=True)
    split = read_split(args.split, args.imgsz, args.limit)
    learner = Learner(args)
    count = sum(p.numel() for p in learner.taught.values())
    print(f"{count} parameters are taught, torch {torch.__version__} on {args.device}", flush=True)
    sheet(learner.draw, learner.bank, args.imgsz).save(args.out / "collage.jpg", quality=80)
    if args.judge_untrained or not args.resume:
        learner.judge(split, "untrained memory")
    if args.resume:
        learner.resume(args.resume)
        learner.judge(split, f"before learning, at step {learner.step}")
    begin = saved = judged = time.monotonic()
    sums, since, mark = {}, {}, (begin, learner.step)
    while (now := time.monotonic()) - begin < args.seconds:
        for name, value in learner.learn((now - begin) / args.seconds).items():
            sums[name], since[name] = sums.get(name, 0.0) + value, since.get(name, 0) + 1
        if learner.step % args.log_every == 0:
            told = {name: float(total) / since[name] for name, total in sums.items()}
            if not all(math.isfinite(v) for v in told.values()):
                raise ExportError(f"step {learner.step}: the loss is not finite; lower --rate, which was "
                                  f"{args.rate:g}")
            now = time.monotonic()
            rate = (learner.step - mark[1]) / (now - mark[0])
            text = "  ".join(f"{n} {v:.3f}" for n, v in told.items())
            memory = f"  {torch.cuda.max_memory_allocated() / 2**30:.0f} GiB" if args.device == "cuda" else ""
            print(f"step {learner.step}  {now - begin:.0f} s  {text}  {rate:.2f} steps/s{memory}", flush=True)
            sums, since, mark = {}, {}, (now, learner.step)
        if time.monotonic() - judged > args.judge_seconds:
            learner.judge(split, f"at step {learner.step}")
            judged = time.monotonic()
        if time.monotonic() - saved > args.save_seconds:
            learner.save()
            saved = time.monotonic()
    learner.save()
    learner.judge(split, f"after learning, at step {learner.step}")


if __name__ == "__main__":
    given = parse()
    try:
        {"frames": decode, "given": pack, "learn": learn, "join": join}[given.step](given)
    except ExportError as error:
        sys.exit(f"error: {error}")
