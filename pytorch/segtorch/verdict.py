"""Whether a pass's speed may be believed: segtrt's rules (crates/vos/src/verdict), and one of PyTorch's own.

`compiled_inside` is a fault where torch.compile made a graph during a recorded pass: then
compilation was timed.
"""

from statistics import fmean, median, pstdev

# crates/vos/src/verdict/thresholds.rs; a test compares the two.
THRESHOLDS = {
    "steady_from": 18,
    "steady_frames": 20,
    "p99_frames": 100,
    "spread": 0.10,
    "drift": 0.05,
    "outlier_mads": 14.826,
    "outlier_least": 0.01,
    "clock_drift": 0.05,
    "explained": 0.90,
    "readings": 3,
    "sustained_seconds": 10.0,
    "sustained_drift": 0.02,
    "sustained_busy": 0.90,
    "sustained_readings": 50,
}
WEIGHTS = ("fault", "gap", "note")
_SETTINGS = {"clocks_setting", "display_setting"}


def judge(latencies, residues, on_gpu, observed, graphs_made, exchange=None):
    """The verdict of a pass: latencies and unexplained parts of all its frames, ms. `exchange` is
    what makes it no measurement at all."""
    t, found, of_frames = THRESHOLDS, [], []

    def add(weight, code, sentence, to=found):
        to.append({"code": code, "sentence": sentence, "weight": weight})

    _steadiness(latencies[t["steady_from"] :], t, lambda *finding: add(*finding, to=of_frames))
    if exchange:
        found.append(exchange)
    if graphs_made:
        add("fault", "compiled_inside", f"torch.compile made {graphs_made} graphs during the pass; raise "
                                        f"--warmup-runs")
    if observed is not None:
        is_steady = all(finding["weight"] == "note" for finding in of_frames)
        _sensors(observed, latencies, is_steady, t, add)
    elif on_gpu:
        add("note", "unwatched", "no sensors of the GPU were read, so throttling would not have been seen")
    if residues and 1 - fmean(residues) / fmean(latencies) < t["explained"]:
        add("fault", "unexplained", f"{fmean(residues):.3f} ms of each frame lie outside its stages")
    found += of_frames
    found.sort(key=lambda finding: WEIGHTS.index(finding["weight"]))
    return {"judgement": _judgement(found), "findings": found}


def _judgement(findings):
    heaviest = findings[0]["weight"] if findings else "note"
    return {"fault": "invalid", "gap": "unjudged", "note": "valid"}[heaviest]


def _sensors(seen, latencies, is_steady, t, add):
    throttling = [word for word in seen["limits"] or [] if word not in _SETTINGS]
    low, high = seen["sm_clock_min_mhz"], seen["sm_clock_max_mhz"]
    steady = latencies[t["steady_from"] :]
    seconds = sum(steady) / 1e3
    # A GPU that waits between frames recovers meanwhile.
    is_steady = is_steady and sum(latencies) / 1e3 >= t["sustained_busy"] * seen["seconds"]
    sustained = throttling == ["power_cap"] and is_steady and seconds >= t["sustained_seconds"]
    sustained = sustained and seen["readings"] >= t["sustained_readings"] and _is_even(steady, t)
    if sustained:
        watts = seen["power_mean_w"]
        power = "" if watts is None else f", {watts:.0f} W on average"
        clock = "" if None in (low, high) else f", the SM clock at {low:.0f} to {high:.0f} MHz"
        unseen = "; other processes could not be seen" if seen["other_processes"] is None else ""
        add("note", "power_limited", f"the GPU reached its power limit (power_cap) in {seconds:.1f} s of "
                                     f"steady frames{power}{clock}; the speed is the one that it sustains at "
                                     f"this limit, and at no other, so quote the limit with it{unseen}")
    elif throttling:
        longer = (f", or a pass with at least {t['sustained_seconds']:.0f} s of steady frames, whose speed at "
                  f"the limit counts")
        add("fault", "throttled", f"the clocks were held down ({'+'.join(throttling)}); remove the cause, "
                                  f"measure again{longer if throttling == ['power_cap'] else ''}")
    if not sustained and low is not None and high and (high - low) / high > t["clock_drift"]:
        add("fault", "clock_drift", f"the SM clock moved between {low:.0f} and {high:.0f} MHz; lock it or "
                                    f"warm up longer")
    if seen["other_processes"]:
        add("fault", "other_process", f"{seen['other_processes']} other processes had work on the GPU; "
                                      f"stop them")
    if seen["readings"] < t["readings"]:
        add("note", "few_readings", f"the sensors were read {seen['readings']} times; run longer clips")


def _is_even(steady, t):
    """Whether faster clocks at the beginning made the pass hardly faster."""
    quarter = -(-len(steady) // 4)
    change = (fmean(steady[-quarter:]) - fmean(steady[:quarter])) / fmean(steady)
    return abs(change) <= t["sustained_drift"]


def _steadiness(steady, t, add):
    if len(steady) < t["steady_frames"]:
        add(
            "gap",
            "few_frames",
            f"{len(steady)} frames came after the first {t['steady_from']}, which fill the memory; "
            f"{t['steady_frames']} are needed to judge by: run longer clips, or raise --max-clip-frames",
        )
        return
    middle = median(steady)
    spread = pstdev(steady) / fmean(steady)
    if spread > t["spread"]:
        add("fault", "unsteady", f"the latencies spread by {100 * spread:.0f} % of their mean; stop other "
                                 f"programs")
    half = len(steady) // 2
    drift = (median(steady[half:]) - median(steady[:half])) / middle
    if abs(drift) > t["drift"]:
        way = "slower" if drift > 0 else "faster"
        add("fault", "drift", f"the second half of the frames was {100 * abs(drift):.0f} % {way} than the "
                              f"first")
    allowed = max(t["outlier_mads"] * median([abs(x - middle) for x in steady]), t["outlier_least"] * middle)
    far = sum(abs(x - middle) > allowed for x in steady)
    if far:
        add("note", "outliers", f"{far} of {len(steady)} frames lie far from the median of {middle:.3f} ms")
    if len(steady) < t["p99_frames"]:
        add("note", "p99_of_few", f"the 99th percentile of {len(steady)} frames is hardly more than the "
                                  f"slowest one")


def pool(verdicts):
    """The passes of one object together: one INVALID pass spoils all; each code is told once."""
    findings = []
    for verdict in verdicts:
        known = {finding["code"] for finding in findings}
        findings += [finding for finding in verdict["findings"] if finding["code"] not in known]
    findings.sort(key=lambda finding: WEIGHTS.index(finding["weight"]))
    judgements = {verdict["judgement"] for verdict in verdicts}
    if "invalid" in judgements:
        judgement = "invalid"
    else:
        judgement = "valid" if judgements == {"valid"} else "unjudged"
    return {"judgement": judgement, "findings": findings}
