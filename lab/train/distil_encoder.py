"""Gives a network without weights an image encoder whose features mean something: those of another
network, on given frames.

python lab/train/distil_encoder.py teach --model sam2.1_tiny --random-weights 0 --weights-overlay
TINY.safetensors --split DIR --out features.pt
python lab/train/distil_encoder.py learn --model edgetam --random-weights 0 --weights-overlay
TINY.safetensors --features features.pt \\
        --seconds 150 --out edgetam.safetensors

For judging arithmetic, not for tracking: masks of a random encoder are speckles, of which one pixel
is a tenth of the IoU, and tell nothing about an engine. The encoder learns a few clips by heart;
the mask decoder is the overlay's, and what is left (memory attention, memory encoder) stays random.
Writes a whole checkpoint, for `export.py --checkpoint` and `pytorch/run.py --checkpoint`. The two
steps are processes of their own, because SAM 2 and EdgeTAM share a package name.

A SAM 2.1 encoder need not begin at nothing: the overlay's hiera-tiny is spread over its width and
depth first (`segtrain/grown.py`), unless `--begin fresh` says otherwise. EdgeTAM's is of another
kind and always begins fresh.
"""

import argparse
import math
import time
from pathlib import Path

import torch
import segtrain  # puts the exporter, segexport, on Python's path
from segexport import ExportError
from segexport.commandline import add_weight_options, build_model
from segexport.models import build
from segtrain.grown import grow
from segtrain.photos import backbone, load

TEACHER = "sam2.1_tiny"  # what an overlay holds
WARM_UP = 20  # steps
WARM_UP_FRESH = 50


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    steps = parser.add_subparsers(dest="step", required=True)
    teach = steps.add_parser("teach", help="write frames and their features")
    teach.add_argument("--split", required=True, type=Path, help="folder with JPEGImages_24fps")
    learn = steps.add_parser("learn", help="fit another network's image encoder to them")
    learn.add_argument("--features", required=True, type=Path)
    learn.add_argument("--seconds", type=float, default=150, help="time to learn (default 150)")
    learn.add_argument("--batch", type=int, default=8)
    learn.add_argument("--rate", type=float, help="highest learning rate (default 2e-3 for EdgeTAM, 4e-4 "
                                                  "for SAM 2.1, 1.5e-4 for its largest)")
    learn.add_argument("--begin",
                       choices=("grown", "fresh"),
                       default="grown",
                       help="SAM 2.1: from the overlay's hiera-tiny, or from nothing")
    for step in (teach, learn):
        add_weight_options(step)
        step.add_argument("--out", required=True, type=Path)
        step.add_argument("--device", default="cuda")
    return parser.parse_args()


def teach(args):
    """Frames as bytes [n,3,S,S] and the three maps that the mask decoder reads, each [n,C,H,W] in
    half precision."""
    model = build_model(args)[0].to(args.device)
    trunk = model.image_encoder.trunk
    if "_get_pos_embed" in vars(trunk):
        table = trunk._get_pos_embed
        # A ready table stays where it was made.
        trunk._get_pos_embed = lambda size: table(size).to(args.device)
    paths = sorted((args.split / "JPEGImages_24fps").glob("*/*.jpg"))
    if not paths:
        raise ExportError(f"{args.split}/JPEGImages_24fps holds no CLIP/*.jpg")
    images, maps = [], []
    for path in paths:
        images.append(load(path, args.imgsz))
        with torch.no_grad():
            maps.append([m[0].half().cpu() for m in features(model, images[-1][None].to(args.device))])
    torch.save({"images": torch.stack(images), "maps": [torch.stack(m) for m in zip(*maps)]}, args.out)
    print(f"{len(images)} frames, maps {[list(m.shape) for m in maps[0]]}", flush=True)


def features(model, pixels):
    """Bytes [n,3,S,S] -> [fine, middle, coarse] as the mask decoder reads them."""
    return backbone(model, pixels)["backbone_fpn"]


def student(args):
    """The network to teach: its encoder as its authors initialise it, the rest as `export.py` makes
    it."""
    torch.manual_seed(args.random_weights or 0)
    fresh = build(args.model, args.imgsz, args.edgetam_src)[0].image_encoder.state_dict()
    model = build_model(args)[0]
    trunk = model.image_encoder.trunk
    if "_get_pos_embed" in vars(trunk):
        del trunk._get_pos_embed  # a ready table would be in no checkpoint
    neck = {k: v for k, v in model.image_encoder.state_dict().items() if k.startswith("neck.")}
    same_neck = args.model.startswith("sam2.1") and neck["neck.convs.3.conv.weight"].shape[1] == 96
    model.image_encoder.load_state_dict(fresh | (neck if same_neck else {}))
    if is_grown(args):
        small = build_model(argparse.Namespace(**(vars(args) | {"model": TEACHER})))[0].image_encoder
        grid = args.imgsz // 4
        grow(model.image_encoder, small,
             small.trunk._get_pos_embed((grid, grid))[0], args.random_weights or 0)
    return model


def is_grown(args):
    return args.begin == "grown" and args.weights_overlay is not None and args.model.startswith("sam2.1")


def learn(args):
    data = torch.load(args.features, map_location=args.device, weights_only=True)
    images, maps = data["images"], data["maps"]
    args.imgsz = images.shape[-1]
    model = student(args).to(args.device)
    encoder = model.image_encoder
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for parameter in encoder.parameters():
        parameter.requires_grad_(True)
    scales = [1 / m.float().var().item() for m in maps]
    rate = args.rate or {"edgetam": 2e-3, "sam2.1_large": 1.5e-4}.get(args.model, 4e-4)
    decayed = [p for p in encoder.parameters() if p.ndim > 1]
    plain = [p for p in encoder.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.02}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=args.device == "cuda")
    generator = torch.Generator().manual_seed(0)
    encoder.train()
    warm_up = WARM_UP if is_grown(args) else WARM_UP_FRESH
    begin, step = time.monotonic(), 0
    while (share := (time.monotonic() - begin) / args.seconds) < 1:
        if share > 0.8:
            # The running means of batch normalisation are what inference reads: the last fifth
            # learns with them.
            for module in encoder.modules():
                if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                    module.eval()
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / warm_up) * (0.5 + 0.5 * math.cos(math.pi * share))
        chosen = torch.randperm(len(images), generator=generator)[: args.batch].to(images.device)
        with torch.autocast(args.device, torch.bfloat16):
            given = features(model, images[chosen])
        losses = [s * (g.float() - m[chosen].float()).square().mean() for g, m, s in zip(given, maps, scales)]
        optimizer.zero_grad(set_to_none=True)
        sum(losses).backward()
        norm = torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        if not torch.isfinite(norm):
            raise ExportError(f"{args.model} diverged at step {step + 1}: lower --rate, which was {rate:g}")
        optimizer.step()
        step += 1
        if step % 50 == 1:
            told = " ".join(f"{loss.item():.3f}" for loss in losses)
            print(f"{time.monotonic() - begin:.0f} s, step {step}: share of the variance not explained "
                  f"{told}", flush=True)
    finish(args, model, images, maps, scales, step)


def finish(args, model, images, maps, scales, step):
    """Tells what was learnt, in fp32 as the graphs compute it, and writes the checkpoint."""
    from safetensors.torch import save_file

    model.eval()
    sums = [0.0] * len(maps)
    with torch.no_grad():
        for i in range(0, len(images), 10):
            given = features(model, images[i : i + 1])
            for k, (g, m) in enumerate(zip(given, maps)):
                sums[k] += scales[k] * (g - m[i : i + 1].float()).square().mean().item()
    count = len(range(0, len(images), 10))
    print(f"{step} steps; not explained (fine, middle, coarse): "
          f"{' '.join(f'{s / count:.4f}' for s in sums)}", flush=True)
    if not all(math.isfinite(s) for s in sums):
        raise ExportError(f"{args.model} did not learn: its features are not finite; lower --rate")
    state = {k: v.cpu().contiguous() for k, v in model.state_dict().items()}
    save_file(state, args.out)


if __name__ == "__main__":
    given = parse()
    try:
        {"teach": teach, "learn": learn}[given.step](given)
    except ExportError as error:
        raise SystemExit(f"error: {error}") from error
