"""Tests of clips under compute-sanitizer: python3 -m unittest discover -s lab/sanitize"""

import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

if sys.platform != "linux":
    raise unittest.SkipTest("SKIPPED: the stand-in is a shell script")

import sanitize_clip

# What a sanitizer of CUDA 12 says of itself, as far as it is looked at.
NEWER = "  --kernel-name arg  Filter\n  --kernel-name-exclude arg  Filter out"
OLDER = "  --kernel-regex arg  Filter\n  --kernel-regex-exclude arg  Filter out"


class Sanitizing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def sanitized(self, summary, code=0, told=NEWER, tool="memcheck"):
        """What comes of a stand-in that notes what it was given and prints `summary`."""
        stand_in = self.out / "sanitizer"
        words = f'if [ "$1" = --help ]; then echo "{told}"; exit 0; fi\nprintf "%s\\n" "$@" > {self.out}/given\n'
        stand_in.write_text(f'#!/bin/sh\n{words}echo "{summary}"\nexit {code}\n')
        stand_in.chmod(0o755)
        command = [
            sys.executable, sanitize_clip.__file__, "--tool", tool, "--sanitizer", stand_in,
            "--", "segtrt", "bench", "--no-cuda-graphs"
        ]
        return subprocess.run(command, capture_output=True, text=True)

    def test_the_kernels_are_those_of_the_sources(self):
        names = sanitize_clip.kernels()
        # Written out where a source declares them; attention and preprocessing name theirs as the
        # first word given to a macro. A macro of Hiera's fused blocks, perhaps of a header, adds a
        # number to it.
        def texts(ending):
            return "".join(path.read_text() for path in sorted(sanitize_clip.CUDA.glob(f"*.{ending}")))

        sources = texts("cu")
        plain = re.findall(
            r"__global__\s+void\s+(?:__(?:launch_bounds|cluster_dims)__\(.*\)[\s\\]*)*(\w+)\(", sources)
        by_macro = re.findall(r"^[A-Z_]+\((\w+),", sources, re.MULTILINE)
        by_number = {
            prefix + number
            for prefix in re.findall(r"\b(\w+_)##\w+\(", sources + texts("cuh"))
            for number in re.findall(r"^INSTANCE\((\w+),", sources, re.MULTILINE)
        }
        self.assertEqual(sorted(set(names) - set(plain) - set(by_macro) - by_number), [])
        for name in ("bank_advance", "mask_words", "preprocess_bicubic_f16", "attention_self",
                     "attention_cross_hopper", "attention_combine_64"):
            self.assertIn(name, names)
        unnamed = {"NAME", "name", "__launch_bounds__"}  # by macros
        self.assertEqual(sorted(set(plain) - set(names) - unnamed), [], "a kernel that no PTX file has")

    def test_kernels_are_loaded_as_they_are_needed_unless_somebody_says_otherwise(self):
        for before, after in ((None, "LAZY"), ("EAGER", "EAGER")):
            environment = {name: value for name, value in os.environ.items() if name != "CUDA_MODULE_LOADING"}
            environment |= {} if before is None else {"CUDA_MODULE_LOADING": before}
            with mock.patch.dict(os.environ, environment, clear=True):
                said = self.sanitized("kernels are loaded $CUDA_MODULE_LOADING\n========= ERROR SUMMARY: 0 "
                                      "errors")
            self.assertIn(f"kernels are loaded {after}", said.stdout)

    def test_what_the_processes_do_is_said_while_it_takes_long(self):
        with mock.patch.object(sanitize_clip, "BEAT", 0.3), redirect_stdout(io.StringIO()) as said:
            help_or_work = 'if [ "$1" = --help ]; then echo "  --kernel-name arg"; exit 0; fi; sleep 1.5; echo "========= ERROR SUMMARY: 0 errors"'
            stand_in = self.out / "slow"
            stand_in.write_text(f"#!/bin/sh\n{help_or_work}\n")
            stand_in.chmod(0o755)
            self.assertEqual(sanitize_clip.run("racecheck", str(stand_in), ["segtrt"], ["mask_words"])[0], 0)
        told = [line for line in said.getvalue().splitlines() if line.startswith("after ")]
        self.assertGreater(len(told), 2)
        # The script, and the sleep that it started.
        self.assertRegex(told[1], r"\d+ slow: \d+ s of processors, \d+ MiB; \d+ sleep: 0 s of processors")

    def test_ptx_without_kernels_is_no_answer(self):
        with self.assertRaisesRegex(sanitize_clip.NoAnswer, "no .*ptx"):
            sanitize_clip.kernels(self.out)
        (self.out / "empty.ptx").write_text(".version 7.8\n")
        with self.assertRaisesRegex(sanitize_clip.NoAnswer, "empty.ptx: no .entry"):
            sanitize_clip.kernels(self.out)

    def test_each_kernel_has_a_filter_of_its_own_in_the_spelling_that_the_sanitizer_knows(self):
        for told, option in ((NEWER, "--kernel-name"), (OLDER, "--kernel-regex")):
            done = self.sanitized("========= ERROR SUMMARY: 0 errors", told=told)
            self.assertEqual(done.returncode, 0, done.stderr)
            given = (self.out / "given").read_text().split()
            self.assertEqual(given[:4], ["--tool", "memcheck", "--target-processes", "all"])
            expected = [word for name in sanitize_clip.kernels() for word in (option, f"kne={name}")]
            self.assertEqual(given[4:], [*expected, "segtrt", "bench", "--no-cuda-graphs"])
        for told in ("  --tool arg", "  --kernel-name-exclude arg"):
            done = self.sanitized("========= ERROR SUMMARY: 0 errors", told=told)
            self.assertEqual(done.returncode, 1, told)
            self.assertIn("names neither --kernel-name nor --kernel-regex", done.stderr)

    def test_a_sanitizer_that_could_not_check_something_gives_no_answer(self):
        for trouble in (
            "Internal Sanitizer Error: The kernel could not be patched and will not be checked",
            "Target application terminated before first instrumented API call",
            "Error: Device not supported",
        ):
            done = self.sanitized(f"========= {trouble}\n========= ERROR SUMMARY: 0 errors")
            self.assertEqual(done.returncode, 1, trouble)
            self.assertIn(f"did not check everything: {trouble}", done.stderr)
            found = self.sanitized(f"========= {trouble}\n========= ERROR SUMMARY: 2 errors")
            self.assertEqual(found.returncode, 9, trouble)

    def test_what_was_found_counts_and_a_clip_that_did_not_end_is_no_answer(self):
        hazards = "========= RACECHECK SUMMARY: {0} hazards displayed ({0} errors, 0 warnings)"
        for summary, code, tool, expected in (
            ("========= ERROR SUMMARY: 0 errors", 0, "memcheck", 0),
            ("========= ERROR SUMMARY: 1 error", 0, "memcheck", 9),
            ("========= ERROR SUMMARY: 0 errors\n========= ERROR SUMMARY: 3 errors", 1, "memcheck", 9),
            ("========= ERROR SUMMARY: 0 errors", 1, "memcheck", 1),
            (hazards.format(0), 0, "racecheck", 0),
            (hazards.format(2), 0, "racecheck", 9),
            ("segtrt: 24 frames", 0, "memcheck", 1),
        ):
            done = self.sanitized(summary, code, tool=tool)
            self.assertEqual(done.returncode, expected, (summary, done.stdout, done.stderr))
            self.assertIn(summary.splitlines()[-1], done.stdout)


if __name__ == "__main__":
    unittest.main()
