"""Tests of how long the lab's networks learn, and what their exports are told: python3 -m unittest
discover -s lab/schedule"""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from schedule.job import checked  # noqa: E402
from schedule.plan import GROUPS, plan  # noqa: E402
from schedule.settings import TAGS, Settings  # noqa: E402
from case import LAB, Case  # noqa: E402


class Networks(Case):
    def test_some_networks_learn_longer_and_their_jobs_are_given_the_time(self):
        given = {
            "segtrt": Path("/p/segtrt"), "split": Path("/p/split"), "overlay": Path("/p/tiny.safetensors"),
            "out": self.out
        }
        given |= {"python": sys.executable, "models": list(TAGS), "learn_seconds": 50, "track_seconds": 80}

        def seconds(**more):
            jobs = checked(plan(Settings(**given, **more)))
            names = [f"{step}_{tag}" for step in ("distil", "track") for tag in ("sam2_large", "sam2_base")]
            return {
                name:
                (int(jobs[name].command[jobs[name].command.index("--seconds") + 1]), jobs[name].expect)
                for name in names
            }

        usual, longer = seconds(), seconds(longer={"sam2.1_large": 2.5})
        self.assertEqual((longer["distil_sam2_large"], longer["track_sam2_large"]), ((125, 165), (200, 230)))
        self.assertEqual((usual["distil_sam2_large"], usual["track_sam2_large"]), ((50, 90), (80, 110)))
        self.assertEqual(longer["track_sam2_base"], usual["track_sam2_base"])

    def test_what_was_learnt_before_is_not_learnt_again(self):
        given = {
            "segtrt": Path("/p/segtrt"), "split": Path("/p/split"), "overlay": Path("/p/tiny.safetensors"),
            "out": self.out
        }
        kept = self.out / "kept"
        kept.mkdir()
        for name in ("edgetam.safetensors", "sam2.1_tiny.safetensors"):
            (kept / name).write_bytes(b"weights")

        def jobs_of(*models):
            jobs = checked(
                plan(Settings(**given, python=sys.executable, models=list(models), kept_weights=kept)))
            return jobs, {name for name in jobs if name.partition("_")[0] in ("teach", "distil", "track")}

        jobs, learning = jobs_of("edgetam")
        self.assertEqual(learning, {"teach", "distil_edgetam", "track_edgetam_512"},
                         "nothing was kept of it at 512 pixels")
        self.assertIn(str(kept / "edgetam.safetensors"), jobs["export_edgetam_fp16"].command)
        self.assertIn(f"--runner-arg={kept / 'edgetam.safetensors'}", jobs["compare_edgetam"].command)
        self.assertIn(str(self.out / "bed/edgetam_512.safetensors"), jobs["export_edgetam_512_fp16"].command)
        self.assertNotIn("track_edgetam", {need for job in jobs.values() for need in job.needs})
        (kept / "edgetam_512.safetensors").write_bytes(b"weights")
        self.assertEqual(jobs_of("edgetam", "sam2.1_tiny")[1], set())

    def test_the_mask_decoder_kernels_are_for_fp16_only(self):
        given = {
            "segtrt": Path("/p/segtrt"), "split": Path("/p/split"), "overlay": Path("/p/tiny.safetensors"),
            "out": self.out
        }
        jobs = checked(plan(Settings(**given, python=sys.executable, models=list(TAGS), mask_decoder="cuda")))
        exports = [job.command for name, job in jobs.items() if name.startswith("export_")]
        self.assertGreater(len(exports), 9)
        for export in exports:
            self.assertEqual("cuda" in export, "fp16" in export, export)

        def built(precision):
            pieces = [
                job.command
                for name, job in jobs.items()
                if name.startswith(f"build_sam2_tiny_{precision}_")
            ]
            return ",".join(piece[piece.index("--graphs") + 1] for piece in pieces).split(",")

        for precision, front in (("fp16", True), ("fp32", False)):
            self.assertEqual("track_image" in built(precision), front)
        self.assertNotIn("track_seg8", built("fp16"), "its work is that of track_image and of the kernels "
                                                      "behind it")
        self.assertIn("track_seg8", built("mixed"))
        # A memory encoder's engine is not built where there are kernels, and mixed engines have
        # theirs.
        for computed_by, there in (("cuda", False), ("engine", True)):
            jobs = checked(
                plan(Settings(**given, python=sys.executable, models=list(TAGS),
                              memory_encoder=computed_by)))
            exports = [job.command for name, job in jobs.items() if name.startswith("export_edgetam")]
            self.assertEqual([
                command[command.index("--memory-encoder") + 1]
                for command in exports
                if "--memory-encoder" in command
            ], [computed_by] * 2)
            for precision, engine in (("fp16", there), ("mixed", True), ("fp32", True)):
                self.assertEqual("memory" in built(precision), engine, (computed_by, precision))

    def test_kernels_in_the_place_of_engines_are_measured_in_turn_with_them(self):
        given = {
            "segtrt": Path("/p/segtrt"), "split": Path("/p/split"), "overlay": Path("/p/tiny.safetensors"),
            "out": self.out
        }
        given |= {"python": sys.executable, "models": ["edgetam", "sam2.1_tiny"]}
        jobs = checked(plan(Settings(**given, mask_decoder="cuda", memory_encoder="cuda"), GROUPS))
        for name in ("edgetam", "edgetam_512", "sam2_tiny"):
            flags = [[export[export.index(flag) + 1]
                      for flag in ("--mask-decoder", "--memory-encoder")]
                     for export in (jobs[f"{kind}_{name}_fp16"].command for kind in ("export", "tensorrt"))]
            self.assertEqual(flags, [["cuda"] * 2, ["engine"] * 2])
            merged, measured = jobs[f"engines_{name}_tensorrt"], jobs[f"cuda_{name}"]
            # All of them from the other bundle, and the memory encoder's among them.
            graphs = []
            for job in (merged, *(jobs[need] for need in merged.needs)):
                self.assertEqual(job.command[job.command.index("--onnx-dir") + 1],
                                 str(self.out / "tensorrt"), job.name)
                graphs += job.command[job.command.index("--graphs") + 1].split(",")
            self.assertEqual(graphs.count("memory"), 2)
            for side in (f"tensorrt={self.out}/engines/{name}_tensorrt", f"cuda={self.out}/engines/{name}"):
                self.assertIn(side, measured.command)
            self.assertIn(f"compare_{name}", measured.needs)
        # Algorithms of a trunk's products are timed on either side.
        self.assertEqual(jobs["cuda_sam2_tiny"].needs[:2],
                         ["products_sam2_tiny_tensorrt", "products_sam2_tiny"])
        timed = jobs["products_sam2_tiny_tensorrt"]
        self.assertEqual(timed.needs, ["engines_sam2_tiny_tensorrt"])
        self.assertIn(str(self.out / "engines/sam2_tiny_tensorrt"), timed.command)
        # A half of it is told from none of it.
        self.assertIn("cuda_edgetam", checked(plan(Settings(**given, memory_encoder="cuda"), GROUPS)))
        self.assertNotIn("cuda_edgetam", checked(plan(Settings(**given), GROUPS)))
        self.assertNotIn(
            "cuda_edgetam",
            checked(plan(Settings(**given, memory_encoder="cuda", unlearned=("edgetam", )), GROUPS)))

    def test_a_factor_that_is_none_is_a_usage_error(self):
        begin = [
            sys.executable, LAB / "measure.py", "--out", self.out / "lab", "--list", "--gpus", "0",
            "--split", "s", "--overlay", "o"
        ]
        for word, told in (("sam2_large=", "expected a model and a number above 0"),
                           ("sam2_large=0", "above 0"), ("sam2_huge=2", "known are edgetam")):
            done = subprocess.run([*begin, "--longer", word], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, word)
            self.assertIn(told, done.stderr)
