"""What tests of the lab share: Linux, where they are run, and a folder each."""

import sys
import tempfile
import unittest
from pathlib import Path

LAB = Path(__file__).resolve().parent.parent

if sys.platform != "linux":
    raise unittest.SkipTest("SKIPPED: processes are pinned and found by what Linux offers")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)
