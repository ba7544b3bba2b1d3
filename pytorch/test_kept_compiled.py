"""Tests of the file that holds what torch.compile made: found again in another cache, and never in
the way."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import HERE, skip  # first: it finds the packages

import torch

from segtorch import RunError, compiling, kept_compiled

# A graph of its own in a process of its own: PyTorch keeps what it found in memory, too.
PROGRAM = """
import sys
from pathlib import Path
import torch
from torch._dynamo.utils import counters
from segtorch import kept_compiled

path, write = Path(sys.argv[1]), sys.argv[2] == "write"
kept_compiled.read(path, print)
with torch.inference_mode():
    torch.compile(lambda x: torch.relu(x @ x + 1.0).sum(1), dynamic=False)(torch.ones(8, 8))
print("hits", counters["inductor"]["fxgraph_cache_hit"], "misses", counters["inductor"]["fxgraph_cache_miss"])
if write:
    kept_compiled.write(path, print)
"""


class KeptCompiled(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())

    def compile(self, path, cache, action):
        environment = os.environ | {
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / cache), "PYTHONPATH": str(HERE)
        }
        command = [sys.executable, "-c", PROGRAM, str(path), action]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_what_was_kept_is_found_in_an_empty_cache(self):
        try:
            compiling.require_compiler()
        except RunError as error:
            skip(str(error))
        path = self.folder / "deep" / "kept.bin"
        said = self.compile(path, "first", "write")
        self.assertIn("misses 1", said)
        self.assertIn("MB", said)
        said = self.compile(path, "second", "read")
        self.assertIn("taken", said)
        self.assertIn("hits 1 misses 0", said)
        self.assertEqual([p.name for p in path.parent.iterdir()], ["kept.bin"], "nothing half written is "
                                                                                "left")

    def test_a_file_that_is_none_is_said_and_costs_nothing(self):
        path, said = self.folder / "kept.bin", []
        path.write_bytes(b"no artifacts")
        kept_compiled.read(path, said.append)
        self.assertIn("is not taken", said[0])
        kept_compiled.read(self.folder / "none.bin", said.append)
        self.assertEqual(len(said), 1)


if __name__ == "__main__":
    unittest.main()
