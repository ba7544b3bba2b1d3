"""Makes the small splits of this folder, predictions for them and golden.json: what their files say
and the scores.

    pip install numpy opencv-python-headless scikit-image pillow
    python tests/data/datasets/make_golden.py

The rules are written down again here, from the data sets' pages and evaluators, so that the reader
is held against more than itself: davis2017-evaluation for DAVIS, meta.json for YouTube-VOS, first
appearances for MOSE and LVOS.
"""

import json
import pathlib
import shutil
import sys

import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "metrics"))
from reference import mean_scores, official_frame, official_sequence, predecessor_sequence  # noqa: E402

WIDTH, HEIGHT = 48, 32
VOID = 255


def palette():
    """PASCAL VOC's colours, which DAVIS uses."""
    colours = np.zeros((256, 3), np.uint8)
    for index in range(256):
        for bit in range(8):
            for channel in range(3):
                colours[index, channel] |= ((index >> (3 * bit + channel)) & 1) << (7 - bit)
    return colours.flatten().tolist()


def save_ids(path, ids):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(ids)
    image.putpalette(palette()[: 3 * (int(ids.max()) + 1)])
    image.save(path, optimize=True)


def picture(boxes):
    """Objects as boxes: {id: (left, top, right, bottom)}, the smallest id on top."""
    ids = np.zeros((HEIGHT, WIDTH), np.uint8)
    for key in sorted(boxes, reverse=True):
        left, top, right, bottom = boxes[key]
        ids[top:bottom, left:right] = key
    return ids


def moving(start, step, size, frame):
    left, top = start[0] + step[0] * frame, start[1] + step[1] * frame
    return left, top, left + size[0], top + size[1]


def write_video(root, folders, video, stems, masks, number):
    """Frames, masks by stem, and predictions: the masks shifted, a stripe lost."""
    for at, stem in enumerate(stems):
        frame = root / folders[0] / video / f"{stem}.jpg"
        frame.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (WIDTH, HEIGHT), (90, 60 + 5 * at, 40 + 9 * number)).save(frame, quality=30)
    for stem, ids in masks.items():
        save_ids(root / folders[1] / video / f"{stem}.png", ids)
        predicted = np.roll(ids, (1, 2), (0, 1))
        predicted[predicted == VOID] = 1
        predicted[::7] = 0
        save_ids(root / "predictions" / video / f"{stem}.png", predicted)


def objects_of(name, stems, masks, listed):
    """Object → indices of its ground truth, by the rules of the data set."""
    index = {stem: at for at, stem in enumerate(stems)}
    shown = {index[stem]: set(np.unique(ids).tolist()) - {0, VOID} for stem, ids in masks.items()}
    if name == "davis_2017":
        return {key: sorted(shown) for key in sorted(shown[min(shown)])}
    truth = {}
    for key in sorted(listed or set().union(*shown.values())):
        visible = {index[stem] for stem in listed[key]["frames"]} if listed else set()
        first = min(at for at in shown if key in shown[at])
        truth[key] = [at for at in sorted(shown) if at >= first and (key in shown[at] or at not in visible)]
    return truth


def scores(root, video, stems, masks, key, indices):
    frames = []
    for at in indices:
        predicted = np.array(Image.open(root / "predictions" / video / f"{stems[at]}.png"))
        frames.append((masks[stems[at]] == key, predicted == key))
    return {"official": official_sequence(frames), "predecessor": predecessor_sequence(frames)}, frames


def dataset(name, folders, videos, extra=None, meta=None):
    root = HERE / name
    shutil.rmtree(root, ignore_errors=True)
    golden, official = {}, []
    for number, (video, (stems, masks)) in enumerate(videos.items()):
        write_video(root, folders, video, stems, masks, number)
        listed = meta and {int(key): value for key, value in meta["videos"][video]["objects"].items()}
        objects = {}
        for key, indices in objects_of(name, stems, masks, listed).items():
            found, frames = scores(root, video, stems, masks, key, indices)
            objects[str(key)] = {"masks": indices} | found
            official += [found["official"]] if found["official"] else []
            if name == "davis_2017":
                # Its evaluator counts every frame but the first and the last.
                assert found["official"] == mean_scores([official_frame(*pair) for pair in frames[1:-1]])
        golden[video] = {"frames": [f"{stem}.jpg" for stem in stems], "objects": objects}
    for path, text in (extra or {}).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    if meta:
        (root / "meta.json").write_text(json.dumps(meta))
    mean = {key: float(np.mean([found[key] for found in official])) for key in ("j", "f")}
    return {"videos": golden, "mean": mean}


def main():
    one = lambda at: moving((4, 6), (2, 1), (14, 10), at)  # noqa: E731
    two = lambda at: moving((30, 14), (-2, 0), (11, 12), at)  # noqa: E731
    golden = {}

    stems = [f"{at:05}" for at in range(5)]
    masks = {stem: picture({1: one(at), 2: two(at)}) for at, stem in enumerate(stems)}
    for at, stem in enumerate(stems):
        masks[stem][24:28, 2 + at:9 + at] = VOID
    masks["00003"][1:4, 40:46] = 3  # not in the first mask, so DAVIS does not count it
    golden["davis_2017"] = dataset("davis_2017", ("JPEGImages/480p", "Annotations/480p"),
                                   {"pair": (stems, masks)}, {"ImageSets/2017/val.txt": "pair\n"})

    stems = [f"{5 * at:05}" for at in range(5)]
    train = {stem: picture(({1: one(at)} if at != 2 else {}) | ({2: two(at)} if at > 0 else {}))
             for at, stem in enumerate(stems)}
    valid = {"00000": picture({1: one(0)}), "00010": picture({4: two(2)})}
    meta = {"videos": {
        "003234408d": {"objects": {
            "1": {"category": "cat", "frames": [stems[at] for at in (0, 1, 3, 4)]},
            "2": {"category": "person", "frames": stems[1:]}}},
        "0062f687f1": {"objects": {
            "1": {"category": "dog", "frames": stems},
            "4": {"category": "dog", "frames": stems[2:]}}}}}
    golden["youtube_vos"] = dataset("youtube_vos", ("JPEGImages", "Annotations"),
                                    {"003234408d": (stems, train), "0062f687f1": (stems, valid)}, meta=meta)

    stems = [f"{at:05}" for at in range(5)]
    masks = {stem: picture({1: one(at)} | ({7: two(at)} if at > 0 else {})) for at, stem in enumerate(stems)}
    masks["00002"][0:3] = VOID
    golden["mose"] = dataset("mose", ("JPEGImages", "Annotations"), {"0a1b2c3d": (stems, masks)})

    stems = [f"{5 * at + 1:08}" for at in range(9)]
    masks = {
        stems[at]: picture({2: one(at)} | ({3: two(at)} if at in (2, 4, 8) else {}))
        for at in range(0, 9, 2)
    }
    golden["lvos"] = dataset("lvos", ("JPEGImages", "Annotations"), {"9kS5rT": (stems, masks)})

    (HERE / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
