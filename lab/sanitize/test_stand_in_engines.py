"""Tests of clips with ONNX Runtime in TensorRT's place: python3 -m unittest discover -s
lab/sanitize"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

if sys.platform != "linux":
    raise unittest.SkipTest("SKIPPED: the stand-ins are shell scripts")

import stand_in_engines

HERE = Path(__file__).resolve().parent
MANIFEST = 'format = 1\n\n[model]\nname = "{name}"\nfamily = "x"\nimgsz = 64\nprecision = "{precision}"\n\n[weights]\nname = "other"\n'
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
# Plays segtrt: notes its command and its environment, builds two plans, and writes the masks of a
# run, as MASKS says for it.
SEGTRT = """
import json, os, sys
from pathlib import Path
words = sys.argv[1:]
after = lambda flag: words[words.index(flag) + 1]
if words == ["--version"]:
    sys.exit(print("segtrt 0"))
with open(os.environ["NOTES"], "a") as notes:
    print(json.dumps([words, {k: v for k, v in os.environ.items() if k.startswith("FAKE_")}]), file=notes)
if words[0] == "build-engines":
    folder = Path(after("--out")) / "h200" / "m"
    folder.mkdir(parents=True)
    for plan in os.environ["PLANS"].split():
        (folder / f"{plan}.plan").write_text("")
    sys.exit(0)
out = Path(after("--out-dir"))
(out / "masks").mkdir(parents=True)
counts = json.loads(os.environ["MASKS"]).get(out.name, "422")
frames = [{"frame": n, "objectness": 1.0, "predicted_iou": 0.5, "mask": {"size": [2, 4], "counts": counts}} for n in range(3)]
(out / "masks" / "clip.json").write_text(json.dumps({"frames": frames}))
"""
SANITIZER = """
[ "$1" = --help ] && exec echo "  --kernel-name arg"
[ "$1" = --version ] && exec echo sanitizer
tool=$2; shift 4
while [ "$1" = --kernel-name ]; do shift 2; done
case "$*" in *sanitizer_control.py\ $tool) exec echo "========= ERROR SUMMARY: $CONTROL errors";; esac
"$@" || exit
echo "========= ERROR SUMMARY: $FOUND errors"
"""


class Standing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = Path(folder.name)

    def program(self, name, text):
        path = self.place / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def bundle(self, precision="fp16", roles=("encoder", "track_keys"), name="edgetam"):
        folder = self.place / "bundle"
        folder.mkdir(exist_ok=True)
        graphs = "".join(f'[[graph]]\nrole = "{role}"\nname = "no model\'s"\n' for role in roles)
        (folder / "manifest.toml").write_text(MANIFEST.format(name=name, precision=precision) + graphs)
        return folder

    def run_it(self, *more, masks=None, found=0, control=1, plans="encoder", **bundle):
        """The script on stand-ins for compiler, segtrt and sanitizer; what it was, and what segtrt
        was given."""
        (self.place / "notes").write_text("")
        segtrt = self.program("segtrt", f"#!{sys.executable}\n{SEGTRT}")
        sanitizer = self.program("sanitizer", f"#!/bin/sh\n{SANITIZER}")
        compiler = self.program("cxx", '#!/bin/sh\n[ "$1" = --version ] || while [ $# -gt 1 ]; do [ "$1" = '
                                       '-o ] && touch "$2"; shift; done\n')
        words = [
            sys.executable, HERE / "stand_in_engines.py", "--segtrt", segtrt, "--bundle",
            self.bundle(**bundle)
        ]
        words += [
            "--split", self.place, "--out", self.place / "out", "--sanitizer", sanitizer, "--ort-lib",
            segtrt, "--frames", 3, *more
        ]
        told = {
            "CXX": compiler, "NOTES": self.place / "notes", "PLANS": plans, "MASKS":
            json.dumps(masks or {}), "FOUND": found, "CONTROL": control
        }
        environment = os.environ | {name: str(value) for name, value in told.items()}
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=environment)
        return done, [json.loads(line) for line in (self.place / "notes").read_text().splitlines()]

    @unittest.skipUnless(HAS_NUMPY, "SKIPPED: masks are compared with numpy")
    def test_the_clip_runs_on_the_cpu_on_the_gpu_and_under_both_tools(self):
        done, notes = self.run_it()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        build, cpu, gpu, memcheck, racecheck = notes
        self.assertIn("--track-variant segmented", " ".join(build[0]))
        self.assertEqual(build[1].keys(), {"FAKE_TENSORRT_ONNXRUNTIME", "FAKE_TENSORRT_THREADS"})
        self.assertIn("--backend onnxruntime", " ".join(cpu[0]))
        self.assertEqual(cpu[1], {})
        for words, environment in (gpu, memcheck, racecheck):
            self.assertIn("--no-cuda-graphs", words)
            self.assertIn("FAKE_TENSORRT_ONNXRUNTIME", environment)
            for flag in ("--models edgetam_points --imgsz 64", "--precision fp16", "--max-clip-frames 3",
                         "--warmup-runs 0", "--stall-limit 0"):
                self.assertIn(flag, " ".join(words))
        self.assertEqual(racecheck[0][-1], str(self.place / "out/racecheck"))
        for name in ("build/libnvinfer.so.8", "build/libnvonnxparser.so.8", "run/libnvinfer.so.8"):
            self.assertTrue((self.place / "out/stand_in" / name).exists(), name)
        self.assertIn("nothing found in 3 frames of edgetam 64 fp16", done.stdout)
        again, _ = self.run_it("--tools", "racecheck", found=2)
        self.assertEqual(again.returncode, 9, again.stderr)
        blind, _ = self.run_it(control=0)
        self.assertEqual(blind.returncode, 1, blind.stdout)
        self.assertIn("an error for memcheck: exit code 0, expected 9", blind.stderr)

    @unittest.skipUnless(HAS_NUMPY, "SKIPPED: masks are compared with numpy")
    def test_masks_that_differ_or_could_not_are_no_answer(self):
        for masks, more, words in (
            ({"gpu": "242"}, [], "gpu beside cpu: the lowest IoU is 0.5000, expected 0.9 or more"),
            ({"memcheck": "242"}, [], "memcheck beside cpu: the lowest IoU is 0.5000"),
            ({name: "8" for name in ("cpu", "gpu")}, [], "0 masks are neither empty nor whole"),
        ):
            done, notes = self.run_it(*more, masks=masks)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(words, done.stderr)
            # What the tools find is worth knowing all the same.
            self.assertEqual(len(notes), 5)

    @unittest.skipUnless(HAS_NUMPY, "SKIPPED: masks are compared with numpy")
    def test_graphs_in_fp32_with_a_fused_bank_are_built_with_ports_of_halves(self):
        done, notes = self.run_it("--tools",
                                  "memcheck",
                                  precision="fp32",
                                  roles=("encoder", "encoder_cut0", "track_keys"),
                                  plans="encoder_cut0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        words, environment = notes[0]
        copied = Path(words[words.index("--onnx-dir") + 1])
        self.assertIn('precision = "fp16"', (copied / "manifest.toml").read_text())
        self.assertIn("score", environment["FAKE_BUILD_FLOATS"].split(","))
        self.assertIn("--precision fp32", " ".join(notes[1][0]))
        self.assertIn("--precision fp16", " ".join(notes[2][0]))
        done, notes = self.run_it("--tools", "memcheck", precision="fp32", roles=("encoder", "track_padded"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--track-variant padded", " ".join(notes[0][0]))
        self.assertNotIn("FAKE_BUILD_FLOATS", notes[0][1])

    def test_an_encoder_whose_parts_were_not_built_is_no_answer(self):
        done, _ = self.run_it(roles=("encoder", "encoder_cut0", "track_keys"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("none of the kernels that go between them", done.stderr)

    def test_what_is_missing_is_named_with_what_to_do(self):
        with self.assertRaisesRegex(stand_in_engines.NoAnswer, "manifest.toml is not there; --bundle: "
                                                               "expected"):
            stand_in_engines.Bundle(self.place)
        (self.place / "manifest.toml").write_text('[model]\nname = "edgetam"\n')
        with self.assertRaisesRegex(stand_in_engines.NoAnswer, "no imgsz and no precision"):
            stand_in_engines.Bundle(self.place)
        done, _ = self.run_it("--frames", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected 2 or more", done.stderr)

    def test_a_step_that_takes_too_long_is_ended_with_all_that_it_started(self):
        mark = self.place / "mark"
        begun = time.monotonic()
        with self.assertRaisesRegex(stand_in_engines.NoAnswer, "sleeping: not done after"):
            stand_in_engines.step("sleeping", ["sh", "-c", f"(sleep 2; touch {mark}) & wait"], 0.5)
        self.assertLess(time.monotonic() - begun, 1.9)
        time.sleep(2)
        self.assertFalse(mark.exists())


class Found(Standing):
    def test_the_library_of_this_pythons_onnxruntime_is_found_without_importing_it(self):
        ask = [sys.executable, "-S", "-c", "from stand_in_engines import onnxruntime_library as f; "
                                           "print(f())"]

        def found():
            environment = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{self.place}"}
            return subprocess.run(ask, env=environment, capture_output=True, text=True,
                                  check=True).stdout.strip()

        self.assertEqual(found(), "None")
        capi = self.place / "onnxruntime/capi"
        capi.mkdir(parents=True)
        (self.place / "onnxruntime/__init__.py").write_text("raise ImportError")
        self.assertEqual(found(), "None", "a package without its library")
        (capi / "libonnxruntime.so.1.31.1").write_bytes(b"")
        self.assertEqual(found(), str(capi / "libonnxruntime.so.1.31.1"))


if __name__ == "__main__":
    unittest.main()
