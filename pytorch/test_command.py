"""Tests of run.py as others call it: its events, its files, its refusals (minutes on a CPU).

Where a built `segtrt` is found (SEGTRT_BIN, target/release, target/debug), its own run is compared
with ours, too.
"""

import csv
import json
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
# First: it finds the packages.
from support import HERE, ROOT, TAG, OnOneSplit, binaries, make_split, masks_in, original, skip

import numpy as np
import torch
from PIL import Image

import compare_masks


def run(*args, stdin="", env=None):
    """run.py as a child: (events, exit code, stderr)."""
    command = [sys.executable, str(HERE / "run.py"), *map(str, args)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | (env or {})
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment, timeout=900)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode, done.stderr


class Command(OnOneSplit):
    """run.py as others call it."""

    def arguments(self, out, split=None, **changes):
        flags = {
            "split-dir": split or self.split, "models": TAG, "bundle": ROOT / "onnx/bundles", "device":
            "cpu"
        }
        flags |= {"out-dir": self.root / out} | {k.replace("_", "-"): v for k, v in changes.items()}
        return [f"--{k}={v}" if v is not True else f"--{k}" for k, v in flags.items()]

    def test_rounds_wait_for_go_and_leave_run_folders(self):
        original()
        args = self.arguments("rounds", rounds=3, interactive=True, save_masks=True, max_clip_frames=6)
        events, code, log = self.converse(args, ["go 2", "what\ngo", "quit"])
        self.assertEqual(code, 0, log)
        self.assertGreaterEqual(events.count({"event": "progress"}), 2, "one behind each go")
        events = [e for e in events if e["event"] != "progress"]
        names = [(e["event"], e["round"]) for e in events]
        self.assertEqual(names, [("ready", 0), ("done", 0), ("ready", 1), ("done", 1), ("ready", 2)])
        self.assertIn("'what' is not understood", log)
        folder = Path(events[1]["folder"])
        self.assertEqual(folder, self.root / "rounds" / "round_0")
        self.assertGreater(events[1]["fps"], 0)
        ours, theirs = (masks_in(self.root / "rounds" / f"round_{k}") for k in (0, 1))
        for frame in range(6):
            np.testing.assert_array_equal(ours[frame], theirs[frame])
        self.check_folder(folder)

    def converse(self, args, answers):
        """Answers each `ready` as a caller would, only when it has been read."""
        with open(self.root / "stderr", "w+") as log:
            child = subprocess.Popen(
                [sys.executable, str(HERE / "run.py"), *args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            events = []
            for line in child.stdout:
                events.append(json.loads(line))
                if events[-1]["event"] == "ready":
                    self.assertFalse((self.root / "rounds" / f"round_{events[-1]['round']}").exists())
                    child.stdin.write(answers.pop(0) + "\n")
                    child.stdin.flush()
            code = child.wait(timeout=60)
            child.stdin.close()
            child.stdout.close()
            log.seek(0)
            return events, code, log.read()

    def check_folder(self, folder):
        with open(folder / "sav_benchmark_summary.csv", newline="") as file:
            (row,) = csv.DictReader(file)
        self.assertEqual((row["status"], row["frames"], row["model"], row["J"]), ("ok", "6", TAG, ""))
        self.assertEqual((row["infer_H"], row["input_W"], row["geometry"]), ("256", "160", "stretch"))
        sidecar = json.loads((folder / "sidecar.json").read_text())
        (passed,) = sidecar["passes"]
        times = passed["frame_times"]
        self.assertAlmostEqual(float(row["fps"]), 6e3 / sum(times["latency_ms"]), delta=0.01)
        for name in ("objectness", "chosen_mask", "iou_predictions", "encoder_ms", "decode_ms"):
            self.assertEqual(len(times[name]), 6, name)
        self.assertEqual(sidecar["configuration"]["models"][0]["weights"], "checkpoint "
                                                                           "edgetam_mini.safetensors")
        lines = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
        self.assertEqual(lines[0]["configuration_sha256"], sidecar["configuration_sha256"])
        self.assertEqual(lines[1]["frame_times"], [times])
        stats = json.loads((folder / "profile_stats.json").read_text())
        self.assertEqual(stats[TAG]["fps"]["median"], float(row["fps"]))

    def test_a_round_that_was_broken_off_is_set_aside_when_it_is_measured_again(self):
        """As `segtrt compare` does it that was killed in its first round: the same folder, another process."""
        original()
        tags = f"{TAG},edgetam_mini_bbox"
        args = self.arguments("rounds_again",
                              models=tags,
                              interactive=True,
                              save_masks=True,
                              save_logits=True,
                              warmup_runs=0)
        folder = self.root / "rounds_again" / "round_0"
        command = [sys.executable, str(HERE / "run.py"), *args]
        with subprocess.Popen(command,
                              stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as child:
            child.stdin.write(b"go\n")
            child.stdin.flush()
            rows = folder / "rows.jsonl"
            until = time.monotonic() + 300
            while child.poll() is None and not (rows.is_file() and rows.read_text().count("\n") > 1):
                self.assertLess(time.monotonic(), until, "no row was written")
                time.sleep(0.005)
            child.kill()
        broken = rows.read_text()
        self.assertGreater(broken.count("\n"), 1, "the first of two objects was measured")
        again = self.arguments("rounds_again",
                               models="edgetam_mini_bbox",
                               interactive=True,
                               save_masks=True,
                               warmup_runs=0,
                               max_clip_frames=4)
        events, code, log = run(*again, stdin="go\n")
        self.assertEqual((code, events[-1]["event"], events[-1]["folder"]), (0, "done", str(folder)), log)
        self.assertEqual(sum("held an earlier run" in line for line in log.splitlines()), 1, log)
        self.assertEqual((folder / "rows.previous.jsonl").read_text(), broken)
        file = f"a__obj000__{TAG}"
        self.assertTrue((folder / f"masks.previous/{file}.json").is_file())
        self.assertTrue((folder / f"logits.previous/{file}.npy").is_file())
        self.assertEqual([path.name for path in (folder / "masks").iterdir()],
                         ["a__obj000__edgetam_mini_bbox.json"])
        self.assertFalse((folder / "logits").exists())
        self.assertEqual(len(rows.read_text().splitlines()), 2, "the settings and one row")

    def test_a_broken_object_costs_its_row_alone(self):
        original()
        split = make_split(self.root / "broken", ("a", "b", "c"), 6)
        Image.fromarray(np.zeros((120, 160), np.uint8)).save(split / "Annotations_6fps/a/000/00000.png")
        (split / "JPEGImages_24fps/b/00003.jpg").write_bytes(b"no JPEG")
        (split / "sav_val.txt").write_text("a\nb\ngone\nc\n")
        events, code, log = run(*self.arguments("broken_out", split, warmup_runs=0, decode="inside"))
        self.assertEqual((code, events[-1]["failed"]), (1, 2), log)
        with open(self.root / "broken_out" / "profile_summary.csv", newline="") as file:
            rows = [(r["video"], r["status"], r["reason"].split(":")[0], r["fps"] != "")
                    for r in csv.DictReader(file)]
        self.assertEqual(
            rows,
            [
                ("a", "skipped", "empty_prompt_mask", False),
                ("b", "failed", "unreadable_frame", False),
                ("gone", "failed", "missing_video", False),
                ("c", "ok", "", True),
            ],
        )

    def test_a_run_teaches_another_one_of_the_same_work_only(self):
        original()
        same = {"warmup_runs": 0, "save_masks": True, "max_clip_frames": 8}
        for out, changes in (("teacher", {"save_logits":
                                          True}), ("taught", {"teacher": self.root / "teacher"})):
            events, code, log = run(*self.arguments(out, **same, **changes))
            self.assertEqual(code, 0, log)
        file = self.root / "teacher" / "logits" / f"a__obj000__{TAG}.npy"
        saved = np.load(file)
        self.assertEqual((saved.shape, saved.dtype.str), ((8, 64, 64), "<f2"))
        free, taught = (masks_in(self.root / out) for out in ("teacher", "taught"))
        for frame in range(8):
            self.assertLessEqual(int((free[frame] != taught[frame]).sum()), 1, frame)
        sidecars = [
            json.loads((self.root / out / "sidecar.json").read_text()) for out in ("teacher", "taught")
        ]
        for sidecar, code in zip(sidecars, ("logits_saved", "teacher_forced")):
            verdict = sidecar["passes"][0]["verdict"]
            self.assertEqual((verdict["judgement"], verdict["findings"][0]["code"]), ("invalid", code))
            self.assertIn("ot a measurement of speed", sidecar["timed_region"])
        settings = sidecars[1]["configuration"]["teacher"]
        self.assertEqual(settings, {"configuration_sha256": sidecars[0]["configuration_sha256"]})
        self.assertIn(f"teacher/{file.name}", sidecars[1]["inputs"])
        # What is not the same work is refused before anything runs.
        for changes, teacher, says in (
            ({"max_clip_frames": 6}, "teacher", "the frames: found 8 frames, 0 to 7, expected 6 frames, 0 "
                                                "to 5"),
            ({"models": "edgetam_mini_bbox"}, "teacher", "model and prompt: found"),
            ({}, "taught", "it was teacher-forced itself"),
        ):
            events, code, log = run(*self.arguments("no", **same | changes, teacher=self.root / teacher))
            self.assertEqual((events[-1]["event"], code), ("error", 2), log)
            self.assertIn(says, events[-1]["what"])
            self.assertIn("--save-logits", events[-1]["advice"])

    def test_wrong_command_lines_are_told_in_one_sentence(self):
        for changes, says, code in (
            ({"models": "edgetam_mini_clicks"}, "unknown model tag", 2),
            ({"split_dir": "/nowhere"}, "does not exist", 2),
            ({"split_dir": HERE}, "neither a SA-V split", 2),
            ({"rounds": "0"}, "not a whole number", 2),
            ({"kept_compiled": "kept.bin"}, "belongs to modes that compile", 2),
            ({"compile_mode": "default"}, "belongs to --mode compile", 2),
            ({"teacher": "/nowhere"}, "--teacher /nowhere/sidecar.json: cannot be read", 2),
            ({"save_logits": True, "implementation": "transformers"}, "is not there for transformers", 2),
            ({"teacher": "/nowhere", "save_logits": True}, "not allowed with", 2),
            ({"bundle": HERE}, "no bundle of edgetam_mini", 2),
            ({"teacher": self.root / "wrong"}, "would be written into the same folder", 2),
            ({"mode": "compile"}, "needs a C++ compiler", 1),
            *([] if torch.cuda.is_available() else [({"device": "cuda"}, "no CUDA device", 1)]),
        ):
            with self.subTest(says):
                if "mode" in changes:
                    original()
                env = {"PATH": "/nowhere", "CXX": "", "CC": ""} if "mode" in changes else None
                events, found, log = run(*self.arguments("wrong", **changes), env=env)
                self.assertEqual((events[-1]["event"], found), ("error", code), log)
                self.assertIn(says, events[-1]["what"])
                self.assertTrue(events[-1]["advice"])
                self.assertNotIn("Traceback", log)

    def test_segtrt_s_own_run_agrees(self):
        original()
        segtrt = next((p for p in binaries() if p and Path(p).is_file()), None)
        if segtrt is None:
            skip("no segtrt was built (SEGTRT_BIN, target/release, target/debug)")
        theirs, ours = self.root / "theirs", self.root / "ours"
        bench = [
            segtrt, "bench", "--split-dir", self.split, "--models", TAG, "--out-dir", theirs, "--save-masks"
        ]
        done = subprocess.run([*bench, "--onnx-dir", ROOT / "onnx/bundles"],
                              capture_output=True,
                              text=True,
                              timeout=600)
        if done.returncode:
            skip(f"segtrt bench did not run: {done.stderr.strip().splitlines()[-1:]}")
        events, code, log = run(*self.arguments("ours", save_masks=True, warmup_runs=0))
        self.assertEqual(code, 0, log)
        for name in ("sav_benchmark_summary.csv", "profile_summary.csv"):
            heads = [(folder / name).read_bytes().split(b"\r\n")[0] for folder in (ours, theirs)]
            self.assertEqual(*heads)
        sidecars = [json.loads((folder / "sidecar.json").read_text()) for folder in (ours, theirs)]
        self.assertEqual(*(sidecar["inputs"] for sidecar in sidecars))
        self.assertLessEqual(sidecars[1].keys(), sidecars[0].keys())
        rows = [json.loads((folder / "rows.jsonl").read_text().splitlines()[1]) for folder in (ours, theirs)]
        self.assertEqual(*(row["summary"]["pooled"].keys() for row in rows))
        self.assertEqual(*(row["runs"][0]["measured"].keys() for row in rows))
        # The same click on the two-part mask gives the same masks: the CPU backend keeps memories as fp32.
        mine, other = masks_in(ours), masks_in(theirs)
        self.assertEqual(mine.keys(), other.keys())
        self.assertGreaterEqual(min(compare_masks.iou(mine[i], other[i]) for i in mine), 0.995)
        self.assertGreaterEqual(compare_masks.iou(mine[0], other[0]), 0.9995)


if __name__ == "__main__":
    unittest.main()
