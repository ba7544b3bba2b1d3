"""Tests of prerequisites.sh with made-up tools."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).with_name("prerequisites.sh")


class Prerequisites(unittest.TestCase):
    def run_with(self, cargo, *words, without=()):
        """-> exit code and messages, with this version line of cargo and without some tools."""
        with tempfile.TemporaryDirectory() as folder:
            tools = {"cargo": cargo, "cc": "cc 12", "c++": "c++ 12", "curl": "curl 7.68.0", "python3": None}
            for name, line in tools.items():
                if name in without or line is None:
                    continue
                tool = Path(folder, name)
                tool.write_text(f"#!/bin/sh\necho '{line}'\n")
                tool.chmod(0o755)
            for name in ("bash", "dirname", "sed", "head", "grep", "sort", "df", "awk", "mkdir"):
                os.symlink(f"/usr/bin/{name}" if Path(f"/usr/bin/{name}").exists() else f"/bin/{name}",
                           Path(folder, name))
            environment = {"PATH": folder}
            done = subprocess.run(["/bin/bash", SCRIPT, *words],
                                  capture_output=True,
                                  text=True,
                                  env=environment)
        return done.returncode, done.stderr

    def test_a_rust_that_is_new_enough_passes(self):
        for line in ("cargo 1.92.0 (344c4567c 2025-10-21)", "cargo 1.100.3", "cargo 2.0.0-nightly (x "
                                                                             "2030-01-01)"):
            self.assertEqual(self.run_with(line, "curl")[0], 0, line)

    def test_an_older_rust_is_named_with_its_version(self):
        for version in ("1.66.1", "1.91.0", "1.9.0"):
            code, told = self.run_with(f"cargo {version} (x 2023-01-10)")
            self.assertEqual(code, 1)
            self.assertIn(f"found cargo {version}", told)
            self.assertIn("rustup update", told)

    def test_each_missing_tool_is_named_with_its_command(self):
        code, told = self.run_with("cargo 1.95.0", "curl", "python", without=("cargo", "cc", "c++", "curl"))
        self.assertEqual(code, 1)
        for wanted in ("rustup.rs", "the compiler cc", "the compiler c++", "apt-get install curl",
                       "python3-venv"):
            self.assertIn(wanted, told)
        # Without the word nobody needs it.
        self.assertEqual(self.run_with("cargo 1.95.0", without=("curl",))[0], 0)


if __name__ == "__main__":
    unittest.main()
