"""Tests of the verdict on a pass: segtrt's rules, and what they say of sensors and times (milliseconds)."""

import re
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from segtorch import verdict

ROOT = HERE.parent

STEADY = [99.0] * 18 + [10.05, 9.95] * 60
# Steady frames of 10 s at the power limit, on clocks that move with the load.
LONG = [99.0] * 18 + [10.05, 9.95] * 500
AT_THE_CAP = {
    "seconds": 12.0, "readings": 50, "limits": ["power_cap", "clocks_setting"], "other_processes": 0,
    "power_mean_w": 698.4, "sm_clock_min_mhz": 1665.0, "sm_clock_max_mhz": 1980.0,
}


def codes(found):
    return found["judgement"], [finding["code"] for finding in found["findings"]]


class Verdicts(unittest.TestCase):
    def test_thresholds_are_segtrt_s(self):
        source = (ROOT / "crates/vos/src/verdict/thresholds.rs").read_text()
        theirs = dict(re.findall(r"^    (\w+): ([\d.]+),$", source, re.M))
        self.assertIn("steady_batches", theirs)
        # Of frames that are encoded several at once, as PyTorch's side never does.
        del theirs["steady_batches"]
        numbers = lambda given: {name: float(value) for name, value in given.items()}
        self.assertEqual(numbers(theirs), numbers(verdict.THRESHOLDS))

    def test_a_verdict_names_what_is_wrong(self):
        self.assertEqual(codes(verdict.judge(STEADY, [], False, None, 0)), ("valid", []))
        self.assertEqual(codes(verdict.judge(STEADY, [], True, None, 0)), ("valid", ["unwatched"]))
        self.assertEqual(codes(verdict.judge(STEADY, [], False, None, 2)), ("invalid", ["compiled_inside"]))
        self.assertEqual(codes(verdict.judge(STEADY[:37], [], False, None, 0)), ("unjudged", ["few_frames"]))
        slower = STEADY[:78] + [11.0] * 60
        self.assertIn("drift", codes(verdict.judge(slower, [], False, None, 0))[1])

    def test_a_long_steady_pass_at_the_power_limit_counts(self):
        judge = lambda latencies=LONG, **seen: verdict.judge(latencies, [], True, AT_THE_CAP | seen, 0)
        found = judge()
        self.assertEqual(codes(found), ("valid", ["power_limited"]))
        self.assertIn("in 10.0 s of steady frames, 698 W on average, the SM clock at 1665 to 1980 MHz; ",
                      found["findings"][0]["sentence"])
        self.assertEqual(codes(judge(power_mean_w=None, sm_clock_min_mhz=None)), ("valid", ["power_limited"]))
        held = ("invalid", ["throttled", "clock_drift"])
        for broken in ({"readings": 49}, {"limits": ["power_cap", "thermal"]}):
            self.assertEqual(codes(judge(**broken)), held, broken)
        self.assertEqual(codes(judge(seconds=14.0)), held, "the GPU waited between frames")
        short = judge(LONG[:-2])
        self.assertEqual(codes(short), held)
        self.assertIn("at least 10 s of steady frames", short["findings"][0]["sentence"])
        boosted = LONG[:18] + [9.6] * 250 + [10.05, 9.95] * 400
        self.assertEqual(codes(judge(boosted)), held, "faster clocks at the beginning")
        unsteady = LONG[:18] + [10.0, 13.0] * 500
        drifting = LONG[:518] + [10.9, 11.1] * 300
        for times, code in ((drifting, "drift"), (unsteady, "unsteady"), (LONG[:37], "few_frames")):
            self.assertEqual(codes(judge(times)), ("invalid", [*held[1], code]))
        for limits in ([], None):
            self.assertEqual(codes(judge(limits=limits)), ("invalid", ["clock_drift"]))


if __name__ == "__main__":
    unittest.main()
