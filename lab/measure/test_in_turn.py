"""Tests of measuring engines in turn: python3 -m unittest discover -s lab/measure"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

if sys.platform != "linux":
    raise unittest.SkipTest("SKIPPED: the stand-in is a shell script")

SCRIPT = Path(__file__).resolve().parent / "in_turn.py"


class InTurn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def run_it(self, *more, body="exit 0"):
        """With a stand-in for segtrt that notes how it was called."""
        segtrt = self.out / "segtrt"
        segtrt.write_text(f'#!/bin/sh\necho "$@" >> {self.out}/calls\n{body}\n')
        segtrt.chmod(0o755)
        command = [
            sys.executable, SCRIPT, "--out", self.out / "o", "--rounds", "2", "--reference-run", "exact"
        ]
        command += [segtrt if word == "SEGTRT" else word for word in more]
        said = subprocess.run(command, capture_output=True, text=True)
        calls = self.out / "calls"
        return said, calls.read_text().splitlines() if calls.exists() else []

    def test_sides_take_turns_and_are_judged(self):
        said, calls = self.run_it("--side", "whole=e/w", "--side", "parts=e/p", "--", "SEGTRT", "bench",
                                  "--split-dir", "s", "--models", "m")
        self.assertEqual(said.returncode, 0, said.stderr)
        benches = [line.split() for line in calls if line.startswith("bench")]
        self.assertEqual([words[words.index("--engines") + 1] for words in benches],
                         ["e/w", "e/p", "e/w", "e/p"])
        self.assertEqual([words[-1] for words in benches],
                         [f"{self.out}/o/{side}/round_{n}" for n in (1, 2) for side in ("whole", "parts")])
        self.assertEqual(len(calls), 5)
        self.assertIn(f"compare --split-dir s --runs whole={self.out}/o/whole/round_1 "
                      f"whole={self.out}/o/whole/round_2 parts=", calls[-1])
        self.assertIn("--subject parts --reference-run exact", calls[-1])

    def test_a_run_that_fails_is_told_and_the_others_go_on(self):
        failing = f'case "$*" in *e/p*round_1*) exit 1;; esac'
        said, calls = self.run_it("--side",
                                  "whole=e/w",
                                  "--side",
                                  "parts=e/p",
                                  "--",
                                  "SEGTRT",
                                  "bench",
                                  "--split-dir",
                                  "s",
                                  body=failing)
        self.assertEqual((said.returncode, len(calls)), (1, 4))
        self.assertIn("parts round 1: exit code 1", said.stdout)

    def test_masks_that_differ_are_an_answer(self):
        said, _ = self.run_it("--side",
                              "a=x",
                              "--side",
                              "b=y",
                              "--",
                              "SEGTRT",
                              "bench",
                              "--split-dir",
                              "s",
                              body='case "$1" in compare) exit 1;; esac')
        self.assertEqual(said.returncode, 0)

    def test_what_cannot_be_compared_is_a_usage_error(self):
        bench = ["--", "SEGTRT", "bench", "--split-dir", "s"]
        two = ["--side", "a=x", "--side", "b=y"]
        for more in (["--side", "a=x",
                      *bench], [*two, *bench[:3]], [*two, "--", "SEGTRT", "compare", "--split-dir",
                                                    "s"], ["--side", "ax", *bench]):
            said, calls = self.run_it(*more)
            self.assertEqual((said.returncode, calls), (2, []), more)


if __name__ == "__main__":
    unittest.main()
