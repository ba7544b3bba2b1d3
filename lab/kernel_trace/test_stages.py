"""Tests of stages.py on a trace with known times."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import stages  # noqa: E402

FRAMES = 4


class Stages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.ranges, self.calls, self.work = [], [], []

    def range(self, name, start, end, domain="segtrt"):
        number = len(self.ranges)
        self.ranges += [f"{start},begin,{number},7,{domain},{name}", f"{end},end,{number},7,,"]

    def launch(self, start, work, thread=7):
        """A call of 100 ns, which launches work from its end on."""
        number = len(self.calls) + 1
        self.calls.append(f"{start},{start + 100},{thread},{number}")
        self.work.append(f"{start + 100},{start + 100 + work},1,1,1,1,1,1,0,{number},kernel")

    def stages(self, rows, *more):
        head = ("start_ns,end_ns,stream,grid_x,grid_y,grid_z,threads,registers,shared_or_moved_bytes,"
                "correlation,name")
        for name, lines in (("t.csv", [head, *self.work]),
                            ("t.calls.csv", ["start_ns,end_ns,thread,correlation", *self.calls]),
                            ("t.ranges.csv", ["time_ns,event,id,thread,domain,name", *self.ranges]),
                            ("rows.csv", ["model,status,mode,frames,encoder_ms,track_ms,memory_ms", *rows])):
            (self.folder / name).write_text("\n".join(lines) + "\n")
        out = io.StringIO()
        argv = ["stages.py", str(self.folder / "t.csv"), "--rows", str(self.folder / "rows.csv"), *more]
        with mock.patch.object(sys, "argv", argv), contextlib.redirect_stdout(out):
            stages.main()
        return out.getvalue()

    def frames(self):
        self.range("warmup", 0, 90_000_000)
        self.range("encoder", 1000, 50_000)
        self.launch(2000, 50_000_000)
        for frame in range(FRAMES):
            start = 100_000_000 * (frame + 1)
            self.range("pipeline", start, start + 900_000)
            self.range("encoder", start, start + 10_000)
            self.launch(start + 1000, 1_000_000)
            self.launch(start + 2000, 1_999_000)
            # It ends after the range; another thread; another domain.
            self.launch(start + 9_950, 50_000_000)
            self.launch(start + 3000, 50_000_000, thread=8)
            self.range("encoder", start + 20_000, start + 30_000, domain="other")
            if frame:
                self.range("track", start + 40_000, start + 50_000)
                self.launch(start + 41_000, 500_000)
            self.range("memory", start + 60_000, start + 70_000)
            if frame != 2:
                self.launch(start + 61_000, 500_000)

    def test_a_stage_spans_the_work_of_its_recorded_ranges(self):
        self.frames()
        said = self.stages(["m,ok,latency,4,2.5,1.0,0.7", "m,failed,,,,,"])
        self.assertRegex(said, r"encoder +4 +2\.500 +2\.000 +0\.500 +20\.0\n")
        self.assertRegex(said, r"track +3 +1\.000 +0\.500 +0\.500 +50\.0\n")
        # One frame's memory launched nothing: the means would be of other frames.
        self.assertRegex(said, r"memory +4 +0\.700 +-\n")
        self.assertRegex(said, r"upload +0 +- +-\n")

    def test_rows_of_several_objects_are_weighted_by_their_frames(self):
        rows = [{"frames": "4", "track_ms": "1.0"}, {"frames": "2", "track_ms": "5.0"}]
        self.assertEqual(stages.by_events(rows, "track"), 2.0)

    def test_what_cannot_be_compared_is_refused(self):
        self.frames()
        with self.assertRaisesRegex(SystemExit, "expected latency"):
            self.stages(["m,ok,throughput,4,2.5,1.0,0.7"])
        with self.assertRaisesRegex(SystemExit, "--model TAG"):
            self.stages(["m,ok,latency,4,2.5,1.0,0.7", "n,ok,latency,4,2.5,1.0,0.7"])
        self.ranges = []
        with self.assertRaisesRegex(SystemExit, "no range of a stage"):
            self.stages(["m,ok,latency,4,2.5,1.0,0.7"])


if __name__ == "__main__":
    unittest.main()
