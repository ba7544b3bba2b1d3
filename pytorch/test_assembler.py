"""Tests of the choice of ptxas; they need no PyTorch."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from segtorch import assembler

# run.py's choice ends the program, with 3 if PyTorch was imported before.
WATCHED = """
import sys
sys.path.insert(0, sys.argv[1])
sys.argv = ["run.py", *sys.argv[2:]]
import run
run.assembler.choose = lambda: sys.exit(3 if {"torch", "triton"} & set(sys.modules) else 0)
run.main(None)
sys.exit(4)
"""


class Assembler(unittest.TestCase):

    def test_pytorch_s_own_is_chosen_unless_one_is_named(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ), \
                mock.patch.object(assembler, "find_spec") as find:
            find.return_value = SimpleNamespace(submodule_search_locations=[folder])
            ptxas = Path(folder) / "bin" / "ptxas"
            os.environ.pop(assembler.VARIABLE, None)
            assembler.choose()
            self.assertNotIn(assembler.VARIABLE, os.environ, "there is none")
            ptxas.parent.mkdir()
            ptxas.touch(mode=0o755)
            assembler.choose()
            self.assertEqual(os.environ[assembler.VARIABLE], str(ptxas))
            os.environ[assembler.VARIABLE] = "/opt/ptxas"
            assembler.choose()
            self.assertEqual(os.environ[assembler.VARIABLE], "/opt/ptxas")
            find.return_value = None
            assembler.choose()  # no PyTorch

    def test_run_py_chooses_before_it_imports_pytorch(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "sav_val.txt").write_text("clip\n")
            for name in ("JPEGImages_24fps", "Annotations_6fps"):
                (Path(folder) / name / "clip").mkdir(parents=True)
            words = ["--split-dir", folder, "--models", "sam2_tiny_points", "--out-dir", f"{folder}/out"]
            words += ["--random-weights", "0"]
            command = [sys.executable, "-c", WATCHED, str(HERE), *words]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
