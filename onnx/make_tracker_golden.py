"""Writes tests/data/tracker/*.json: what the tracker must do, from the original predictor.

python onnx/make_tracker_golden.py --checkpoint
onnx/bundles/edgetam_mini_256_fp32/edgetam_mini.safetensors

`edgetam_mini_20.json`: Meta's own video predictor class with the edgetam_mini modules
over 20 synthetic frames, one click on frame 0; per frame a summary of the low-resolution
logits and the memories and pointers that the frame saw (recorded from the predictor's
calls, not computed by `bank.py`). `bank_sam2.1.json`: the selection alone for clips of
5 and 40 frames with SAM 2.1's pointer times. `edgetam_mini_prompts.json`: 3 frames for each of
several prompts, positive and negative clicks, with and without a box, and a mask.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from segexport import bank, synthetic
from segexport.commandline import build_model
from segexport.reference_run import PromptInput, run_tensor

FRAMES, SAMPLES = 20, 64
PROMPT_FRAMES = 3
OUT = Path(__file__).resolve().parent.parent / "tests" / "data" / "tracker"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--edgetam-src", type=Path)
    parser.add_argument("--checkpoint", type=Path, help="default: the seeded random weights")
    args = parser.parse_args()
    args.model, args.imgsz, args.weights_overlay = "edgetam_mini", 256, None
    args.random_weights = None if args.checkpoint else 0
    OUT.mkdir(parents=True, exist_ok=True)
    write(OUT / "edgetam_mini_20.json", mini(args))
    write(OUT / "edgetam_mini_prompts.json", prompts(args))
    write(OUT / "bank_sam2.1.json", bank_only())


def prompts(args):
    """The golden logits of other prompts, a few frames each."""
    model, _, reference = build_model(args)
    side = args.imgsz
    x, y = synthetic.centre(side, 0)
    box = [x - 42, y - 42, x + 42, y + 42]
    disc = np.hypot(*np.mgrid[-y : side - y, -x : side - x]) <= side // 6
    near, off = [x + 20, y - 10], [x + 70, y]
    given = {
        "one click": PromptInput("points", points=[[x, y]]),
        "three clicks": PromptInput("points", points=[[x, y], near, off], labels=[1, 1, 0]),
        "eight clicks": PromptInput(
            "points",
            points=[[x, y], near, off, [x - 20, y], [x, y + 20], [5, 5], [250, 250], [x, y - 20]],
            labels=[1, 1, 0, 1, 1, 0, 0, 1],
        ),
        "box": PromptInput("bbox", box=box),
        "box and clicks": PromptInput("points", points=[[x, y], off], labels=[1, 0], box=box),
        "box and a click at the edge": PromptInput("points", points=[[255, 255]], labels=[0], box=box),
        "mask": PromptInput("mask", mask=disc),
    }
    clips = []
    for name, prompt in given.items():
        run = run_tensor(model, synthetic.images(side, PROMPT_FRAMES), side, side, prompt)
        at = sample_places(run.frames[0].low.size)
        frames = [
            {
                "logits": [round(float(v), 6) for v in f.low.reshape(-1)[at]],
                "area": int((f.low > 0).sum()),
                "iou": round(f.iou, 6),
                "score": round(f.score, 6),
            }
            for f in run.frames
        ]
        clips.append(
            {
                "name": name,
                "points": prompt.points or [],
                "labels": prompt.labels or [1] * len(prompt.points or []),
                "box": prompt.box,
                "disc": [x, y, side // 6] if prompt.kind == "mask" else None,
                "frames": frames,
            }
        )
    return {
        "about": "as edgetam_mini_20.json; all points and the box in one call of add_new_points_or_box",
        "reference": reference,
        "side": side,
        "sampled_logits": [int(i) for i in at],
        "clips": clips,
    }


def mini(args):
    """The golden run of the mini model."""
    model, weights, reference = build_model(args)
    side = args.imgsz
    seen = record_selection(model)
    click = list(synthetic.centre(side, 0))
    prompt = PromptInput("points", points=[click])
    run = run_tensor(model, synthetic.images(side, FRAMES), side, side, prompt)
    at = sample_places(run.frames[0].low.size)
    frames = []
    for t, f in enumerate(run.frames):
        low = f.low.reshape(-1).astype(np.float64)
        frames.append(
            {
                "frame": t,
                "logits": [round(float(v), 6) for v in low[at]],
                "mean": round(float(low.mean()), 6),
                "min": round(float(low.min()), 6),
                "max": round(float(low.max()), 6),
                "area": int((low > 0).sum()),
                "iou": round(f.iou, 6),
                "score": round(f.score, 6),
                "memories": seen.get(t, {}).get("memories", []),
                "pointers": seen.get(t, {}).get("pointers", []),
            }
        )
    return {
        "about": "Meta's SAM2VideoPredictor class (EdgeTAM's) with the modules of edgetam_mini; "
        "memories stored as bfloat16; hole filling off",
        "reference": reference,
        "weights": weights,
        "side": side,
        "frame_formula": synthetic.FORMULA,
        "normalisation": "(v / 255 - mean) / std in f32, mean [0.485,0.456,0.406], std [0.229,0.224,0.225]",
        "click": click,
        "sampled_logits": [int(i) for i in at],
        "memories": "[source frame, tidx]",
        "pointers": "[source frame, distance]",
        "frames": frames,
    }


def record_selection(model):
    """Notes which stored frames every tracked frame's memory attention is given."""
    seen = {}
    plain = model._prepare_memory_conditioned_features

    def recording(**kwargs):
        t, store = kwargs["frame_idx"], kwargs["output_dict"]
        if not kwargs["is_init_cond_frame"]:
            seen[t] = watch(model, plain, kwargs, store)
            return seen[t].pop("result")
        return plain(**kwargs)

    model._prepare_memory_conditioned_features = recording
    return seen


def watch(model, plain, kwargs, store):
    """Runs the original selection and identifies what it picked by the tensors' values."""
    caught = {}
    attention = model.memory_attention.forward

    def catch(**given):
        caught.update(given)
        return attention(**given)

    model.memory_attention.forward = catch
    result = plain(**kwargs)
    model.memory_attention.forward = attention
    held = {**store["cond_frame_outputs"], **store["non_cond_frame_outputs"]}
    memory, pos = caught["memory"][:, 0], caught["memory_pos"][:, 0]
    split = model.hidden_dim // model.mem_dim
    tokens = held[min(held)]["maskmem_features"].shape[1]
    count = caught["num_spatial_mem"]
    memories = []
    for i in range(count):
        part = memory[i * tokens : (i + 1) * tokens]
        source = [t for t, o in held.items() if bool((o["maskmem_features"][0].float() == part).all())]
        # The first latent has no spatial position, so its encoding is the temporal row itself.
        rows = (model.maskmem_tpos_enc[:, 0, 0] - pos[i * tokens]).abs().sum(dim=1)
        memories.append([only(source), int(rows.argmin())])
    pointers = []
    for chunk in memory[count * tokens :].reshape(-1, split * model.mem_dim):
        source = [t for t, o in held.items() if bool((o["obj_ptr"][0] == chunk).all())]
        pointers.append([only(source), kwargs["frame_idx"] - only(source)])
    return {"memories": memories, "pointers": pointers, "result": result}


def only(found):
    """The single element; two equal memories would make the record ambiguous."""
    if len(found) != 1:
        raise SystemExit(f"error: a stored tensor matches {len(found)} frames instead of one")
    return found[0]


def sample_places(size):
    """Fixed flat indices spread over the logits: (i * 7919 + 13) mod size."""
    return np.array([(i * 7919 + 13) % size for i in range(SAMPLES)])


def bank_only():
    """Selections with pointer times, one conditioning frame at 0."""
    clips = []
    for length in (5, 40):
        frames = []
        for t in range(1, length):
            s = bank.select(t, [0], length)
            frames.append(
                {
                    "frame": t,
                    "memories": [list(m) for m in s.memories],
                    "pointers": [f for f, _ in s.pointers],
                    "ptr_t": [round(v, 7) for v in s.pointer_times()],
                }
            )
        clips.append({"num_frames": length, "frames": frames})
    return {
        "about": "memories [source frame, tidx]; ptr_t = distance / (M - 1), M = min(num_frames, 16)",
        "clips": clips,
    }


def write(path, data):
    path.write_text(json.dumps(data, separators=(",", ":")) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
