"""Tests of packing and arriving: python3 -m unittest discover -s lab/measure"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

if sys.platform != "linux" or not all(map(shutil.which, ("xz", "strip", "setsid"))):
    raise unittest.SkipTest("SKIPPED: packing needs Linux with xz, strip and setsid")

HERE = Path(__file__).resolve().parent
PART = 200_000


class Travelling(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here = Path(folder.name)
        self.there = self.here / "there"
        for name, data in (("clips/a/1.jpg", b"small"), ("clips/__pycache__/x.pyc", b"x"), ("site/p.py", b"p"),
                           ("edgetam/e.py", b"e"), ("tiny.safetensors", os.urandom(500_000))):
            path = self.here / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        subprocess.run(["tar", "-cJf", self.here / "trt.tar.xz", "-C", self.here / "clips/a", "."], check=True)
        subprocess.run(["split", "-n", "2", self.here / "trt.tar.xz", self.here / "trt."], check=True)

    def pack(self, *more, out="transfers"):
        return subprocess.run([sys.executable, HERE / "pack.py", "--out", self.here / out, "--no-tools", "--part-bytes",
                               str(PART), *map(str, more)], capture_output=True, text=True)

    def packed(self):
        here = self.here
        done = self.pack("--program", shutil.which("true"), "--clips", here / "clips", "--weights",
                         here / "tiny.safetensors", "--packages", here / "site", "--edgetam", here / "edgetam",
                         "--tensorrt", here / "trt.aa", here / "trt.ab")
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted((here / "transfers").iterdir())

    def arrive(self, folder):
        return subprocess.run(["bash", folder / "arrive.sh", self.there], capture_output=True, text=True, check=True,
                              stdin=subprocess.DEVNULL).stdout.splitlines()

    def until(self, condition):
        deadline = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), deadline, self.log())
            time.sleep(0.02)

    def log(self):
        path = self.there / "logs/arrive.log"
        return path.read_text() if path.exists() else ""

    def test_loads_are_joined_as_soon_as_their_last_part_has_come_in_any_order(self):
        folders = self.packed()
        self.assertEqual([folder.name for folder in folders], [f"{number:02d}" for number in range(len(folders))])
        for folder in folders:
            self.assertLessEqual(sum(path.stat().st_size for path in folder.iterdir()), PART)
        self.assertGreater(len(folders), 2)
        *later, first = reversed(folders)
        for folder in later:
            self.arrive(folder)
            shutil.rmtree(folder)
        self.assertFalse((self.there / "ready/weights").exists())
        self.arrive(first)
        names = ("program", "packages", "clips", "weights", "tensorrt")
        self.until(lambda: all((self.there / "ready" / name).exists() for name in names))
        self.assertEqual((self.there / "weights/overlay.safetensors").read_bytes(),
                         (self.here / "tiny.safetensors").read_bytes())
        self.assertEqual(subprocess.run([self.there / "program/segtrt"]).returncode, 0)
        for name in ("clips/a/1.jpg", "packages/site/p.py", "packages/edgetam/e.py", "tensorrt/1.jpg"):
            self.assertTrue((self.there / name).exists(), name)
        self.assertFalse((self.there / "clips/__pycache__").exists())
        self.until(lambda: not list((self.there / "parts").glob("*.unpacking")))
        self.assertEqual(self.arrive(first), [f"{name}: there" for name in names])
        # Another content of the same load takes its place.
        (self.here / "clips/a/1.jpg").write_bytes(b"other")
        self.assertEqual(self.pack("--clips", self.here / "clips", out="second").returncode, 0)
        self.arrive(self.here / "second/00")
        self.until(lambda: (self.there / "ready/clips").exists() and
                   (self.there / "clips/a/1.jpg").read_bytes() == b"other")

    def test_a_damaged_part_is_named_and_can_be_sent_again(self):
        folders = self.packed()
        part = next(path for folder in folders for path in folder.glob("weights.001"))
        good = part.read_bytes()
        part.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        for folder in folders:
            self.arrive(folder)
        self.until(lambda: "weights.001: FAILED" in self.log())
        self.until(lambda: not (self.there / "parts/weights.unpacking").exists())
        self.assertFalse((self.there / "ready/weights").exists())
        part.write_bytes(good)
        self.arrive(part.parent)
        self.until(lambda: (self.there / "ready/weights").exists())

    def test_wrong_words_are_refused(self):
        for words, expected in (
            (["--clips", "/nowhere"], "not there: /nowhere"),
            (["--packages", self.here / "site"], "travel together"),
            (["--clips", self.here / "clips", "--part-bytes", "100"], "expected more than"),
        ):
            done = self.pack(*words)
            self.assertEqual((done.returncode, expected in done.stderr), (2, True), done.stderr)
        done = self.pack("--clips", self.here / "clips", out="site")
        self.assertEqual((done.returncode, "is there already" in done.stderr), (2, True))


if __name__ == "__main__":
    unittest.main()
