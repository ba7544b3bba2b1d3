"""Tests of frames.py on a trace with known times."""

import contextlib
import csv
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import frames  # noqa: E402

COLUMNS = "start_ns,end_ns,stream,grid_x,grid_y,grid_z,threads,registers,shared_or_moved_bytes,name"


class Frames(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = Path(folder.name) / "trace.csv"

    def write(self, kernels):
        lines = [f"{start},{end},7,2,1,1,128,32,0,{name}" for start, end, name in kernels]
        self.trace.write_text("\n".join([COLUMNS, *lines]) + "\n")

    def frames(self, *more):
        out = io.StringIO()
        with (mock.patch.object(sys, "argv", ["frames.py", str(self.trace), *more]),
              contextlib.redirect_stdout(out)):
            frames.main()
        return out.getvalue()

    def test_time_under_an_earlier_kernel_is_not_counted_twice(self):
        kernels = []
        for begin in range(0, 500_000, 100_000):
            # `late` starts 2 us before `early` ends. The second frame has a kernel more.
            kernels += [(begin, begin + 5_000, "preprocess_x"), (begin + 5_000, begin + 15_000, "early"),
                        (begin + 13_000, begin + 20_000, "late")]
            if begin == 100_000:
                kernels.append((begin + 20_000, begin + 90_000, "prompt"))
        self.write(kernels)
        frame = self.trace.with_name("frame.csv")
        said = self.frames("--out", str(frame))
        self.assertIn("3 frames of 3 kernels, copies and fills: span 20.0 us, busy 20.0 us", said)
        self.assertRegex(said, r"1 +7\.0 +5\.0  late")
        with frame.open(newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(row["name"], row["start_us"], row["us"]) for row in rows],
                         [("preprocess_x", "0.00", "5.00"), ("early", "5.00", "10.00"),
                          ("late", "13.00", "7.00")])

    def test_a_kernel_that_the_first_frame_lacks_is_shown(self):
        kernels = []
        for begin in range(0, 500_000, 100_000):
            name = "biased" if begin == 0 else "plain"
            kernels += [(begin, begin + 5_000, "preprocess_x"), (begin + 5_000, begin + 9_000, name)]
        self.write(kernels)
        said = self.frames()
        self.assertRegex(said, r"1 +4\.0 +4\.0  plain")
        self.assertRegex(said, r"0 +0\.0 +0\.0  biased")

    def test_a_trace_without_frames_is_refused(self):
        self.write([(0, 5, "other")])
        with self.assertRaisesRegex(SystemExit, "no kernel preprocess_"):
            self.frames()


if __name__ == "__main__":
    unittest.main()
