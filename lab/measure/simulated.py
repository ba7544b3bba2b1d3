"""Jobs that sleep as long as the real ones are expected to take."""

from dataclasses import replace

from job import COMPARE

# Files that come late on a machine that is reached by small transfers; seconds since the start.
ARRIVALS = {"ready/clips": 10, "ready/weights": 20, "ready/tensorrt": 120}


def of(jobs, scale, failing=()):
    """The same jobs with other commands; those in `failing` end with code 3."""
    return [replace(job, command=command(job, scale, job.name in failing)) for job in jobs]


def command(job, scale, fails):
    work = f"sleep {job.expect * scale:.4f}; exit {3 if fails else 0}"
    if job.kind != COMPARE:
        return work
    waiting = 'touch "$SEGTRT_LAB_READY"; until [ -e "$SEGTRT_LAB_GO" ]; do sleep 0.02; done'
    return f"sleep {job.compile * scale:.4f}; {waiting}; {work}"
