"""Draws a sheet of held-out clips: click, true outline (white) and predicted mask (green) of frames
side by side.

python lab/train/draw_mini.py --checkpoint edgetam_mini.safetensors --out sheet.png [--alike]
[--split DIR]

One row for each target. `--split` takes the clips of `segtrt synth` instead, frames as segtrt
resizes them.
"""

import argparse
import sys
from pathlib import Path

import torch
from PIL import Image
from torch.nn import functional as F

import segtrain  # puts the exporter, segexport, on Python's path
from segexport import ExportError
from segexport.commandline import build_model
from segtrain import prompts
from segtrain.clips import Clips
from segtrain.evaluate import HeldOut
from segtrain.photos import load
from segtrain.scene import MEAN, STD
from segtrain.unroll import Unroll


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.png")
    parser.add_argument("--alike", action="store_true", help="clips of two objects that look alike")
    parser.add_argument("--split", type=Path, help="folder that `segtrt synth` wrote")
    parser.add_argument("--clips", type=int, default=6)
    parser.add_argument("--worst", type=int, metavar="N", help="draw only the N targets with the lowest IoU")
    parser.add_argument("--every", type=int, default=4, help="frames from one picture to the next")
    parser.add_argument("--box", action="store_true", help="prompt with boxes instead of clicks")
    parser.add_argument("--imgsz", type=int, default=256)
    parser.add_argument("--device", default="cpu", choices=("cuda", "cpu"))
    parser.add_argument("--edgetam-src", type=Path)
    args = parser.parse_args()
    args.model, args.random_weights, args.weights_overlay = "edgetam_mini", None, None
    model = build_model(args)[0].to(args.device)
    if args.split:
        held_out = HeldOut(of_split(args.split, args.clips, args.imgsz, args.device), args.imgsz, False)
    else:
        held_out = HeldOut.make(args.device, args.clips, args.imgsz, args.alike)
    seen = held_out.masks(Unroll(model, args.imgsz), "box" if args.box else "point")
    iou = held_out.ious(seen)
    for row, target in enumerate(iou):
        curve = " ".join(f"{value:.2f}" for value in target[:: args.every])
        print(f"row {row}, clip {int(held_out.clips.scene[row])}: IoU {target.mean():.3f}, by frame {curve}")
    mean = iou.mean(dim=1)
    told = " ".join(f"{t}:{iou[:, t].mean():.3f}" for t in range(0, iou.shape[1], 4))
    print(f"mean IoU {mean.mean():.4f} +- {mean.std() / len(mean) ** 0.5:.4f} of {len(mean)} targets, by "
          f"frame {told}")
    chosen = mean.argsort()[: args.worst].tolist() if args.worst else range(len(mean))
    if args.worst:
        print(f"drawn rows: {' '.join(map(str, chosen))}")
    sheet(held_out.clips, seen, args.every, chosen).save(args.out)


def of_split(split, count, side, device):
    """The first `count` clips of a split, up to the last frame of equally many; masks of frames
    between are not known."""
    images, masks, scene = [], [], []
    for number, folder in enumerate(sorted((split / "JPEGImages_24fps").iterdir())[:count]):
        frames = sorted(folder.glob("*.jpg"))
        images.append(torch.stack([load(path, side) for path in frames]))
        for target in sorted((split / "Annotations_6fps" / folder.name).iterdir()):
            known = {path.stem: path for path in target.glob("*.png")}
            shares, last = [], None
            for path in frames:
                if path.stem in known:
                    grey = Image.open(known[path.stem]).convert("L").resize((side, side), Image.BOX)
                    last = torch.frombuffer(bytearray(grey.tobytes()), dtype=torch.uint8).reshape(
                        side, side) / 255
                shares.append(last)
            masks.append(torch.stack(shares))
            scene.append(number)
    mean, std = (torch.tensor(v)[:, None, None] for v in (MEAN, STD))
    images = (torch.stack(images).float() / 255 - mean) / std
    scene = torch.tensor(scene, device=device)
    return Clips(images.to(device), scene, torch.stack(masks).to(device), torch.ones_like(scene).float())


def sheet(clips, seen, every, chosen):
    """One row for each of the `chosen` targets, one picture for every `every`-th frame."""
    from torchvision.utils import make_grid
    from torchvision.transforms.functional import to_pil_image

    device = seen.device
    mean, std = (torch.tensor(v, device=device)[:, None, None] for v in (MEAN, STD))
    green, white, red = (torch.tensor(c, device=device)[:, None, None]
                         for c in ((0.0, 1, 0), (1.0, 1, 1), (1.0, 0, 0)))
    rows = []
    scenes = clips.scene.tolist()
    for target in chosen:
        scene = scenes[target]
        picture = (clips.images[scene, ::every] * std + mean).clamp(0, 1)
        mask, real = seen[target, ::every, None], clips.masks[target, ::every, None] > 0.5
        edge = F.max_pool2d(real.float(), 3, 1, 1).bool() & ~real
        picture = torch.where(mask, 0.55 * picture + 0.45 * green, picture)
        picture = torch.where(edge, white, picture)
        x, y = prompts.centroids(real[:1, 0])[0][0, 0].long().tolist()
        picture[0, :, max(0, y - 3) : y + 4, max(0, x - 3) : x + 4] = red
        rows.append(picture)
    return to_pil_image(make_grid(torch.cat(rows).cpu(), nrow=len(rows[0])))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ExportError as error:
        sys.exit(f"error: {error}")
