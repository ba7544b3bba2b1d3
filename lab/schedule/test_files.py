"""Tests of what measure.py packs and puts together: harvests and engines. python3 -m unittest
discover -s lab/schedule"""

import json
import os
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from schedule import engines  # noqa: E402
from schedule.harvest import harvest, worth  # noqa: E402
from case import Case  # noqa: E402


class Harvesting(Case):
    def make(self, path, data=b"x"):
        path = self.out / "lab" / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def names(self, archive):
        with tarfile.open(archive) as packed:
            return set(packed.getnames())

    def test_what_is_small_and_new_is_packed_once(self):
        runs = "compare/runs/edgetam_points"
        wanted = [
            "lab.log", "jobs/a.json", "compare/comparison.md", "timing/a.timing",
            f"{runs}/eager/from_round_1/round_0/masks/m.json"
        ]
        wanted += [
            f"{runs}/tensorrt-mixed/round_1/masks/m.json", f"{runs}/tensorrt-mixed/round_2/rows.jsonl",
            "masks_a/masks/m.json", "compiled/warm_a.bin"
        ]
        others = [
            "bed/a.safetensors", "engines/e/h200/m/encoder.plan", "bundles/b/manifest.toml",
            "inductor/x.json", "a/t.onnx"
        ]
        wanted += [
            f"{runs}/tensorrt-mixed/round_2/masks/m.json", f"{runs}/eager/from_round_1/round_1/masks/m.json"
        ]
        others += [f"{runs}/eager/teacher_forced/round_0/masks/m.json", "pieces/p/h200/m/engine.json"]
        for path in wanted + others:
            self.make(path)
        lab, archive = self.out / "lab", self.out / "1.tar.xz"
        self.assertEqual(harvest(lab, archive, 14)[:2], (len(wanted), 0))
        self.assertEqual(self.names(archive), set(wanted))
        self.make("lab.log", b"longer")
        self.make("new.csv")
        harvest(lab, archive, 14)
        self.assertEqual(self.names(archive), {"lab.log", "new.csv"})
        self.assertEqual(harvest(lab, archive, 14, again=True)[0], len(wanted) + 1)

    def test_an_archive_is_never_larger_than_its_limit_and_the_rest_comes_next(self):
        self.make("lab.log")
        for k in range(12):
            self.make(f"timing/{k:02}.timing", os.urandom(100_000))
            self.make(f"zz{k}/rows.csv", b"a,b\n" * 30_000)
        lab, seen, archive = self.out / "lab", set(), self.out / "part.tar.xz"
        for turn in range(9):
            packed, left, size = harvest(lab, archive, 0.4)
            self.assertLessEqual(archive.stat().st_size, 400_000)
            self.assertEqual(size, archive.stat().st_size)
            names = self.names(archive)
            self.assertFalse(names & seen)
            if turn == 0:
                self.assertIn("lab.log", names)
                self.assertEqual(sum("rows" in name for name in names), 12, "rows are worth more than caches")
            seen |= names
            if not left:
                break
        self.assertEqual(len(seen), 25)
        self.assertLess(worth("zz/masks/m.json"), worth("timing/a.timing"))
        self.assertLess(worth("zz/masks/m.json"), worth("compiled/warm_a.bin"))

    def test_a_file_that_no_archive_holds_keeps_nothing_else_waiting(self):
        self.make("compiled/vos.bin", os.urandom(500_000))
        self.make("compiled/warm.bin", os.urandom(1000))
        self.make("timing/a.timing", os.urandom(1000))
        archive = self.out / "1.tar.xz"
        self.assertEqual(harvest(self.out / "lab", archive, 0.4)[:2], (2, 1))
        self.assertEqual(self.names(archive), {"compiled/warm.bin", "timing/a.timing"})


class Merging(Case):
    def piece(self, name, roles, **more):
        folder = self.out / name / "h200" / "m_1024_fp16"
        folder.mkdir(parents=True)
        plans = [{"role": role, "file": f"{role}.plan", "from": name} for role in roles]
        for plan_ in plans:
            (folder / plan_["file"]).write_text(name)
        base = {"format": 1, "platform": "h200", "precision": "fp16", "bundle": {"x": 1}}
        (folder / "engine.json").write_text(json.dumps(base | {"plans": plans} | more))
        return self.out / name

    def test_plans_and_records_go_together_and_later_pieces_win(self):
        pieces = [
            self.piece("a", ["encoder", "memory"]),
            self.piece("b", ["prompt"]),
            self.piece("c", ["memory"])
        ]
        (folder,) = engines.merge(pieces, self.out / "whole")
        plans = {
            plan_["role"]: plan_["from"]
            for plan_ in json.loads((folder / "engine.json").read_text())["plans"]
        }
        self.assertEqual(plans, {"encoder": "a", "memory": "c", "prompt": "b"})
        self.assertEqual((folder / "memory.plan").read_text(), "c")
        self.assertEqual(sorted(path.name for path in folder.iterdir()),
                         ["encoder.plan", "engine.json", "memory.plan", "prompt.plan"])

    def test_a_track_step_in_several_plans_is_kept_whole_and_replaced_whole(self):
        def divided(name, files):
            piece = self.piece(name, ["memory"])
            path = piece / "h200" / "m_1024_fp16" / "engine.json"
            manifest = json.loads(path.read_text())
            manifest["plans"] += [{"role": "track", "file": file, "from": name} for file in files]
            path.write_text(json.dumps(manifest))
            for file in files:
                (path.parent / file).write_text(name)
            return piece

        four = [f"track_{k}.plan" for k in range(4)]
        pieces = [self.piece("a", ["encoder", "track"]), divided("b", four)]
        (folder,) = engines.merge(pieces, self.out / "whole")
        files = [plan_["file"] for plan_ in json.loads((folder / "engine.json").read_text())["plans"]]
        self.assertEqual(files, ["encoder.plan", "memory.plan", *four])
        self.assertFalse((folder / "track.plan").exists())
        (folder,) = engines.merge([*pieces, divided("c", four[:2])], self.out / "again")
        plans = {
            plan_["file"]: plan_["from"]
            for plan_ in json.loads((folder / "engine.json").read_text())["plans"]
        }
        self.assertEqual(
            plans, {"encoder.plan": "a", "memory.plan": "c", "track_0.plan": "c", "track_1.plan": "c"})
        self.assertEqual(sorted(path.name for path in folder.iterdir()), sorted([*plans, "engine.json"]))

    def test_weights_come_with_the_pieces_that_have_them(self):
        bundle = {"trunk": {"file": "t.safetensors"}, "mask_decoder": {"file": "d.safetensors"}}
        pieces = [
            self.piece(name, [graph], bundle=bundle)
            for name, graph in (("a", "encoder_cut0"), ("b", "prompt"), ("c", "track_seg0"))
        ]
        for piece, name in ((pieces[0], "t"), (pieces[2], "d")):
            (piece / "h200" / "m_1024_fp16" / f"{name}.safetensors").write_text(name)
        (folder,) = engines.merge(pieces, self.out / "whole")
        self.assertEqual([(folder / f"{name}.safetensors").read_text() for name in "td"], ["t", "d"])
        files = [
            "d.safetensors", "encoder_cut0.plan", "engine.json", "prompt.plan", "t.safetensors",
            "track_seg0.plan"
        ]
        self.assertEqual(sorted(path.name for path in folder.iterdir()), files)

    def test_pieces_of_another_bundle_are_refused(self):
        pieces = [self.piece("a", ["encoder"]), self.piece("b", ["memory"], bundle={"x": 2})]
        with self.assertRaisesRegex(engines.MergeError, "bundle"):
            engines.merge(pieces, self.out / "whole")
        with self.assertRaisesRegex(engines.MergeError, "holds no"):
            engines.merge([self.out / "nothing"], self.out / "whole")

    def test_the_check_tells_what_it_built_and_fails_with_build_engines(self):
        def run(rows, code):
            build = [sys.executable, "-c", f"import sys; print({json.dumps(rows)!r}); sys.exit({code})"]
            places = ["--into", self.out / "w", "--rows", self.out / "rows.json", "--piece", piece]
            command = [sys.executable, engines.MERGE, *places, "--", *build]
            return subprocess.run(command, capture_output=True, text=True)

        piece = self.piece("a", ["encoder"])
        done = run([{"role": "encoder", "status": "up_to_date"}, {"role": "prompt", "status": "built"}], 0)
        self.assertEqual((done.returncode, done.stdout), (0, "1 of 2 plans up to date; not as they were "
                                                             "merged: prompt built\n"))
        failed = run([{"role": "encoder", "status": "failed"}], 1)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("encoder failed", failed.stderr)
        self.assertEqual(run([], 0).returncode, 1)


if __name__ == "__main__":
    unittest.main()
