"""Tries whether a training step can be recorded as a CUDA graph: same losses and gradients, and how
fast.

    python lab/train/try_graphs.py --init edgetam_mini.safetensors --frames 16 --quiet 2 --scenes 48 --bf16

Exits with 0 if the recorded step agrees with the usual one, with 3 if it was refused or differs.
Beside both speeds it prints where a step's time goes.
"""

import argparse
import sys
import time
import traceback
from pathlib import Path

import segtrain  # puts the exporter, segexport, on Python's path
from segexport import ExportError

LOSSES, NORMS = 0.05, 0.2  # largest relative differences that pass, or three times those of two usual runs
LEAST = 0.05  # what smaller losses are compared with


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--init", type=Path, required=True, metavar="FILE.safetensors")
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--quiet", type=int, default=2)
    parser.add_argument("--scenes", type=int, default=48)
    parser.add_argument("--imgsz", type=int, default=256)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--mix", default="hard")
    parser.add_argument("--seconds", type=float, default=12, help="time of each of the two measurements")
    parser.add_argument("--device",
                        default="cuda",
                        choices=("cuda", "cpu"),
                        help="cpu only rehearses this script")
    parser.add_argument("--edgetam-src", type=Path)
    options = parser.parse_args()
    import torch

    from segexport.models import build
    from segtrain import state
    from segtrain.draw import Draw
    from segtrain.graphs import Steps
    from segtrain.step import draw_batch
    from segtrain.unroll import Unroll

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    model, _ = build("edgetam_mini", options.imgsz, options.edgetam_src)
    state.read_weights(model, options.init)
    import sam2.modeling.sam.transformer as transformer

    transformer.ALLOW_ALL_KERNELS = True
    model.to(options.device).eval().image_encoder.trunk.train()
    draw = Draw(5, options.device)
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    make = lambda: draw_batch(draw, options.scenes, options.frames, options.imgsz, options.mix)
    batches = [make() for _ in range(3)]
    eager = Steps(Unroll(model, options.imgsz), options.bf16, eager=True)
    again = measure(eager, batches, options, wait, timed=False)
    usual = measure(eager, batches, options, wait)
    noise = differences(usual, again)
    print(f"two usual runs differ: losses {noise[0]:.1e}, gradient norms {noise[1]:.1e}", flush=True)
    if options.device == "cuda":
        print(f"most memory of the usual step: {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB",
              flush=True)
    steps = Steps(Unroll(model, options.imgsz), options.bf16)
    recorded = measure(steps, batches, options, wait)
    if options.device == "cuda" and not steps.records:
        print("refused", flush=True)
        return 3
    worst = differences(usual, recorded)
    print(f"largest relative difference: losses {worst[0]:.1e}, gradient norms {worst[1]:.1e}", flush=True)
    began = time.perf_counter()
    for _ in range(5):
        make()
    wait()
    print(f"drawing a batch: {(time.perf_counter() - began) / 5:.3f} s", flush=True)
    return 0 if all(w <= max(limit, 3 * n) for w, n, limit in zip(worst, noise, (LOSSES, NORMS))) else 3


def differences(one, two):
    """Largest relative differences of losses and of gradient norms."""
    return [max(abs(a - b) / max(abs(a), LEAST) for a, b in zip(*pair)) for pair in zip(one, two)]


def measure(steps, batches, options, wait, timed=True):
    """Losses and gradient norms of the batches, then the speed of forward and backward passes."""
    import torch

    losses, norms = [], []
    weights = [p for p in steps.unroll.model.parameters() if p.requires_grad]
    kept = {name: b.clone() for name, b in steps.unroll.model.named_buffers()}
    began = time.perf_counter()
    for batch in batches:
        values = steps.run(batch, "trial", options.quiet)
        losses += [float(v) for v in values.values()]
        grads = [w.grad for w in weights if w.grad is not None]
        norms.append(float(torch.stack([g.norm() for g in grads]).norm()))
    print(f"first {len(batches)} steps {time.perf_counter() - began:.1f} s, losses "
          f"{' '.join(f'{v:.4f}' for v in losses)}", flush=True)
    count, began = 0, time.perf_counter()
    while timed and (count < 2 or time.perf_counter() - began < options.seconds):
        steps.run(batches[count % len(batches)], "trial", options.quiet)
        wait()
        count += 1
    spent = time.perf_counter() - began
    name = "recorded" if steps.records else "usual"
    if timed:
        print(
            f"{name}: {count / spent:.2f} steps/s of forward and backward pass ({count} in {spent:.1f} s)",
            flush=True)
    for module_name, buffer in steps.unroll.model.named_buffers():
        buffer.copy_(kept[module_name])
    return losses, norms


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ExportError as error:
        sys.exit(f"error: {error}")
    except Exception:
        traceback.print_exc()
        sys.exit(3)
