"""Tests of a run's folder that another run left something in (seconds; without EdgeTAM's code, too).

Where a built `segtrt` is found (SEGTRT_BIN, target/release, target/debug), the names are compared
with what it makes of the same folder.
"""

import fcntl
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import ROOT, TAG, binaries, make_split, skip  # first: it finds the packages

import numpy as np

from segtorch import RunError, logits, rounds
from segtorch.file_stem import file_stem
from segtorch.journal import Journal
from segtorch.run_folder import RunFolder
from segtorch.set_aside import earlier_run

MASK, LOGITS = "masks/a__obj0__m.json", "logits/a__obj0__m.npy"
FILM, FRAMES = "a__obj0__m.mp4", "b__obj1__m/00000.png"
TABLES = ("sav_benchmark_summary.csv", "profile_summary.csv", "profile_stats.json", "sidecar.json")


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, names, run, folder=None):
        """A run's files, each with the run's name in it."""
        for name in names:
            path = (folder or self.folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(run)

    def names(self, folder=None):
        folder = folder or self.folder
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class SetAside(InAFolder):
    def test_what_is_of_one_run_keeps_one_number(self):
        self.assertEqual(earlier_run(self.folder), [])
        # The second run saves no masks, the third no logits.
        for names, run in ((["rows.jsonl", MASK,
                             LOGITS], "1"), (["rows.jsonl", LOGITS], "2"), (["rows.jsonl", MASK], "3")):
            self.write(names, run)
            moved = earlier_run(self.folder)
            self.assertEqual([old for old, _ in moved], [name.split("/")[0] for name in names])
        self.assertEqual(moved, [("rows.jsonl", "rows.previous.jsonl"), ("masks", "masks.previous")])
        kept = {name: (self.folder / name).read_text() for name in self.names()}
        expected = {
            "logits.previous-2/a__obj0__m.npy": "1",
            "logits.previous-3/a__obj0__m.npy": "2",
            "masks.previous-2/a__obj0__m.json": "1",
            "masks.previous/a__obj0__m.json": "3",
            "rows.previous-2.jsonl": "1",
            "rows.previous-3.jsonl": "2",
            "rows.previous.jsonl": "3",
        }
        self.assertEqual(kept, expected)

    def test_tables_without_a_journal_are_kept(self):
        self.write(TABLES, "predecessor")
        self.assertEqual([old for old, _ in earlier_run(self.folder)], list(TABLES))
        self.assertEqual(earlier_run(self.folder), [])
        self.assertEqual((self.folder / "sav_benchmark_summary.previous.csv").read_text(), "predecessor")

    def test_names_of_files_are_those_of_segtrt(self):
        stem = lambda video, name: file_stem({"video": video, "object": name, "model": "m"})
        self.assertEqual(stem("sav_000001", "000"), "sav_000001__obj000__m")
        # As crates/vos/src/record/file_stem.rs has them.
        self.assertEqual(stem("x__obj", "~"), "x__obj__obj~~054c02b587e4e68e__m")
        long = stem("ä" * 127, "ö" * 127)
        self.assertTrue(long.startswith("ä" * 40 + "__obj" + "ö" * 40 + "~"), long)

    def test_a_crash_in_between_is_made_good(self):
        self.write(["rows.previous.jsonl", MASK], "1")  # the journal was moved, the masks were not
        self.assertEqual(earlier_run(self.folder), [("masks", "masks.previous")])
        self.assertEqual(self.names(), ["masks.previous/a__obj0__m.json", "rows.previous.jsonl"])

    def test_overlays_go_into_a_folder(self):
        self.write(["rows.jsonl", FILM, FRAMES, "holiday.mp4", "a__obj0__notes/read.me"], "1")
        self.assertEqual(earlier_run(self.folder)[1:], [("overlays", "overlays.previous")])
        kept = ["a__obj0__notes/read.me", "holiday.mp4"]
        moved = [f"overlays.previous/{name}" for name in (FILM, FRAMES)]
        self.assertEqual(self.names(), [*kept, *moved, "rows.previous.jsonl"])
        self.write([".segtrt-overlays/c__obj0__m.mp4", FILM], "2")  # moved, but for one
        earlier_run(self.folder)
        self.assertEqual(self.names(self.folder / "overlays.previous"), [FILM, "c__obj0__m.mp4"])
        self.assertEqual(self.names(self.folder / "overlays.previous-2"), [FILM, FRAMES])

    def test_what_is_no_run_s_stays(self):
        self.write(["masks/00000.png", "logits/notes.json", "logits/x__obj0__m.npy/notes", "rows.jsonl"], "")
        before = self.names()
        self.assertEqual(earlier_run(self.folder), [])
        self.assertEqual(self.names(), before)

    def test_a_folder_that_cannot_be_changed_is_told(self):
        self.write(["rows.jsonl"], "1")
        with mock.patch.object(Path, "rename", side_effect=PermissionError("not yours")):
            with self.assertRaises(RunError) as caught:
                earlier_run(self.folder)
        self.assertIn("cannot be moved aside: not yours", caught.exception.what)
        self.assertIn("--out-dir", caught.exception.advice)
        self.assertEqual(self.names(), ["rows.jsonl"])

    def test_segtrt_moves_the_same(self):
        segtrt = next((path for path in binaries() if path and Path(path).is_file()), None)
        if segtrt is None:
            skip("no segtrt was built (SEGTRT_BIN, target/release, target/debug)")
        ours, theirs = self.folder / "ours", self.folder / "theirs"
        runs = (["rows.jsonl", MASK, LOGITS, FILM,
                 FRAMES], ["rows.jsonl", LOGITS], [MASK, FILM,
                                                   *TABLES], ["rows.jsonl", "masks/other.txt", TABLES[0]])
        split = make_split(self.folder / "split", count=2)
        bench = [
            segtrt, "bench", "--split-dir", split, "--models", TAG, "--onnx-dir", ROOT / "onnx/bundles",
            "--out-dir", theirs
        ]
        for number, names in enumerate(runs):
            for folder in (ours, theirs):
                self.write(names, f"{number}\n", folder)
            earlier_run(ours)
            done = subprocess.run([*bench, "--warmup-runs", "0"], capture_output=True, text=True, timeout=600)
            if not (theirs / "sidecar.json").is_file():
                skip(f"segtrt bench did not run: {done.stderr.strip().splitlines()[-1:]}")
            for own in ("rows.jsonl", *TABLES):
                (theirs / own).unlink(missing_ok=True)
            kept = [[name for name in self.names(folder) if "previous" in name] for folder in (ours, theirs)]
            self.assertEqual(*kept)
            for name in kept[0]:
                self.assertEqual((ours / name).read_text(), (theirs / name).read_text(), name)


class Folder(InAFolder):
    KEYS = [{"video": video, "object": "000", "model": TAG} for video in ("a", "b")]

    def run_of(self, keys, seed):
        """A run that saves masks and logits of these objects; what it said."""
        said = []
        folder = RunFolder(self.folder, {"seed": seed}, {}, said.append)
        self.addCleanup(folder.close)
        for key in keys:
            mask = np.ones((4, 4), bool)
            folder.write_masks(key, [0], [mask], {"iou_predictions": [[0.5]], "objectness": [1.0]})
            logits.save(self.folder, key, [logits.rounded(np.zeros((2, 2)))])
        folder.close()
        return said

    def test_a_new_run_has_its_own_objects_alone(self):
        self.assertEqual(self.run_of(self.KEYS, 0), [])
        (said,) = self.run_of(self.KEYS[:1], 1)
        self.assertNotIn("\n", said)
        for name in ("rows.jsonl in rows.previous.jsonl", "masks in masks.previous",
                     "logits in logits.previous"):
            self.assertIn(name, said)
        for kept, videos in (("", "a"), (".previous", "ab")):
            for folder, end in (("masks", "json"), ("logits", "npy")):
                found = sorted(path.name for path in (self.folder / (folder + kept)).iterdir())
                self.assertEqual(found, [f"{video}__obj000__{TAG}.{end}" for video in videos])
        heads = [json.loads((self.folder / f"rows{kept}.jsonl").read_text()) for kept in (".previous", "")]
        self.assertEqual([head["configuration"]["seed"] for head in heads], [0, 1])
        self.run_of([], 2)
        self.assertTrue((self.folder / f"masks.previous-2/b__obj000__{TAG}.json").is_file())
        self.assertFalse((self.folder / "masks").exists())

    def test_what_another_run_still_writes_stays(self):
        first = Journal(self.folder, {"run": 1}, self.fail)
        self.addCleanup(first.close)
        self.write([MASK], "1")
        with self.assertRaises(RunError) as caught:
            RunFolder(self.folder, {}, {}, self.fail)
        self.assertIn("being written by another run", caught.exception.what)
        first.append({"row": 1})
        self.assertEqual((self.folder / "rows.jsonl").read_text(), '{"run":1}\n{"row":1}\n')
        self.assertEqual(self.names(), [MASK, "rows.jsonl"])
        first.close()
        said = []
        second = Journal(self.folder, {"run": 2}, said.append)
        self.addCleanup(second.close)
        self.assertEqual(len(said), 1)
        # The new journal is held, not only the one that was moved.
        with open(self.folder / "rows.jsonl") as file, self.assertRaises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_a_run_cannot_be_taught_from_its_own_folder(self):
        at = lambda teacher, count, waits=False: SimpleNamespace(teacher=teacher and self.folder / teacher,
                                                                 rounds=count,
                                                                 interactive=waits,
                                                                 out_dir=self.folder / "out")
        for fine in (at(None, 1), at("else", 1), at("out", 2), at("out/round_0",
                                                                  1), at("out/round_2",
                                                                         2), at("out", 1, True)):
            rounds.refuse_own_teacher(fine)
        for own in (at("out", 1), at("out/../out", 1), at("out/round_1", 2), at("out/round_0", 1, True)):
            with self.assertRaisesRegex(RunError, "the same folder") as caught:
                rounds.refuse_own_teacher(own)
            self.assertTrue(caught.exception.usage)


if __name__ == "__main__":
    unittest.main()
