#!/usr/bin/env python3
"""Compares what the programs of two machines wrote: masks, rows, and what the rows were judged.

    tests/aarch64/compare.py X86_64_FOLDER AARCH64_FOLDER
"""
import csv
import json
import pathlib
import sys

# Columns of a row that depend on the network and the clip alone. Speed, memory and dates do not.
RESULTS = ("video", "object", "model", "status", "frames", "J", "F", "JandF", "scored_frames")


def rows(path):
    with path.open(newline="") as file:
        found = list(csv.DictReader(file))
    if not found:
        sys.exit(f"FAILED: {path} has no rows")
    return found


def pixels(rle):
    """A COCO RLE with counts as a list or as text: the indices of the set pixels."""
    counts = rle["counts"] if isinstance(rle["counts"], list) else inflated(rle["counts"])
    found, at = set(), 0
    for run, count in enumerate(counts):
        if run % 2:
            found.update(range(at, at + count))
        at += count
    if at != rle["size"][0] * rle["size"][1]:
        sys.exit(f"FAILED: a mask of {rle['size']} has {at} pixels")
    return found


def inflated(text):
    """COCO's text: five bits a character, differences to the run before the last."""
    counts, at = [], 0
    while at < len(text):
        value, shift, more = 0, 0, True
        while more:
            code = ord(text[at]) - 48
            value |= (code & 0x1F) << shift
            at, shift, more = at + 1, shift + 5, bool(code & 0x20)
            if not more and code & 0x10:
                value |= -1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
    return counts


def masks(document):
    """Every RLE in a document of masks, in its order."""
    if isinstance(document, dict) and "counts" in document:
        yield document
    elif isinstance(document, (dict, list)):
        for value in document.values() if isinstance(document, dict) else document:
            yield from masks(value)


def main():
    x86, arm = map(pathlib.Path, sys.argv[1:])
    files = sorted(path.relative_to(x86) for path in (x86 / "run/masks").rglob("*.json"))
    if not files:
        sys.exit(f"FAILED: no masks in {x86 / 'run/masks'}")
    lowest, count, covered = 1.0, 0, 0
    for file in files:
        ours, theirs = (list(masks(json.loads((folder / file).read_text()))) for folder in (x86, arm))
        if len(ours) != len(theirs) or not ours:
            sys.exit(f"FAILED: {file} has {len(ours)} masks on x86-64, {len(theirs)} on aarch64")
        for left, right in zip(map(pixels, ours), map(pixels, theirs)):
            count, covered = count + 1, covered + bool(left)
            if left | right:
                lowest = min(lowest, len(left & right) / len(left | right))
    print(f"{count} masks in {len(files)} files, {covered} of them not empty: lowest IoU {lowest:.6f}")
    if lowest < 1 or 2 * covered < count:
        sys.exit("FAILED: expected IoU 1 of every mask, and most of them not empty")
    for name in ("run/sav_benchmark_summary.csv", "merged.csv"):
        for ours, theirs in zip(rows(x86 / name), rows(arm / name), strict=True):
            for column in RESULTS:
                if ours[column] != theirs[column]:
                    sys.exit(f"FAILED: {name}: {column} is {ours[column]} on x86-64, {theirs[column]} on "
                             f"aarch64")
            if theirs["verdict"] != "INVALID" or "SEGTRT_RUNNER" not in theirs["verdict_reason"]:
                sys.exit(f"FAILED: {name}: an emulated row is {theirs['verdict']}: "
                         f"{theirs['verdict_reason']}")
    if "edgetam_mini" not in (arm / "report.html").read_text():
        sys.exit("FAILED: report.html does not name the model")
    print("rows, masks and verdicts are as expected")


if __name__ == "__main__":
    main()
