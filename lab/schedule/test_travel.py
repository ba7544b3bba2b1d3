"""Tests of travel.py: python3 -m unittest discover -s lab/schedule"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LAB = Path(__file__).resolve().parent.parent
TRAVEL = LAB / "schedule/travel.py"


class Travelling(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here = Path(folder.name)
        self.dest = self.here / "there"
        (self.here / "clips/a").mkdir(parents=True)
        (self.here / "clips/a/1.jpg").write_bytes(b"small")
        (self.here / "program").write_bytes(os.urandom(700_000))
        (self.here / "program").chmod(0o755)

    def run_it(self, *words, program=TRAVEL):
        return subprocess.run([sys.executable, program, *map(str, words)], capture_output=True, text=True)

    def pack(self):
        done = self.run_it("pack", "--out", self.here / "t", "--part-mb", 0.3, f"clips={self.here}/clips",
                           f"segtrt={self.here}/program")
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted((self.here / "t").iterdir())

    def test_loads_arrive_part_by_part_in_any_order_and_are_unpacked_when_they_are_whole(self):
        folders = self.pack()
        self.assertEqual([folder.name for folder in folders], ["00", "01", "02", "03"])
        largest = max(sum(path.stat().st_size for path in folder.iterdir()) for folder in folders)
        self.assertLess(largest, 320_000, "a transfer has one part and little else")
        said = []
        for folder in (folders[3], folders[0], folders[1], folders[2]):
            # As it is there: by the copy that travelled, and the folder is gone afterwards.
            done = self.run_it("arrive", "--dest", self.dest, folder, program=folder / "travel.py")
            self.assertEqual(done.returncode, 0, done.stderr)
            said.append(done.stdout.splitlines())
            shutil.rmtree(folder)
        waits = "segtrt: {} of 3 parts".format
        self.assertEqual(said,
                         [["clips: 0 of 1 parts", waits(1)], ["clips: there", waits(1)],
                          ["clips: there", waits(2)], ["clips: there", "segtrt: there"]])
        self.assertEqual((self.dest / "clips/a/1.jpg").read_bytes(), b"small")
        arrived = self.dest / "segtrt/program"
        self.assertEqual(arrived.read_bytes(), (self.here / "program").read_bytes())
        self.assertTrue(os.access(arrived, os.X_OK))
        self.assertTrue((self.dest / "segtrt.ready").exists())
        again = self.run_it("arrive", "--dest", self.dest)
        self.assertEqual((again.returncode, again.stdout), (0, "clips: there\nsegtrt: there\n"))

    def test_a_damaged_part_is_named_and_leaves_nothing_ready(self):
        folders = self.pack()
        part = folders[2] / "segtrt.001"
        part.write_bytes(part.read_bytes()[:-1] + b"?")
        done = self.run_it("arrive", "--dest", self.dest, *folders)
        self.assertEqual(done.returncode, 1)
        self.assertIn("segtrt.001 is not what was packed; transfer its folder again", done.stderr)
        self.assertFalse((self.dest / "segtrt.ready").exists())

    def test_wrong_words_are_refused(self):
        for words, code, told in (
            (["pack", "--out", self.here / "t", "clips=/nowhere"], 2, "/nowhere is not there"),
            (["pack", "--out", self.here / "t", "clips"], 2, "expected NAME=PATH"),
            (["pack", "--out", self.here / "t", f"a={self.here}/clips",
              f"a={self.here}/program"], 2, "two loads have one name"),
            (["arrive", "--dest", self.dest, self.here / "clips"], 1, "has no travel.json"),
            (["arrive", "--dest", self.dest], 1, "nothing has arrived"),
        ):
            done = self.run_it(*words)
            self.assertEqual(done.returncode, code, (words, done.stderr))
            self.assertIn(told, done.stderr)


if __name__ == "__main__":
    unittest.main()
