"""A job's process: begun on its processors in a session of its own, ended with everything that it
began.

Each carries its job in the environment variable SEGTRT_LAB_JOB, "OUT/NAME": by it the children of a
lab that was killed are found again, and nothing else is.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

MARK = "SEGTRT_LAB_JOB"
PATIENCE = 3.0  # seconds between asking a job to end and killing it


def begin(words, mark, processors, log, stdout, environment, directory):
    """Starts it; standard input is empty."""
    whole = os.environ | environment | {MARK: mark}

    def pin():
        os.sched_setaffinity(0, processors)

    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=log,
        env=whole,
        cwd=directory,
        start_new_session=True,
        preexec_fn=pin,
    )


def marked(mark):
    """Ids of all living processes that carry this mark."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                if (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.append(int(entry.name))
        except OSError:
            continue  # it has ended, or is another user's
    return found


def end_all(mark, patience=PATIENCE):
    """Ends whatever carries the mark: asked first, then killed. How many there were."""
    first = marked(mark)
    left, deadline = first, time.monotonic() + patience
    for kind in (signal.SIGTERM, signal.SIGKILL):
        for pid in left:
            try:
                os.kill(pid, kind)
            except ProcessLookupError:
                continue
        while left and time.monotonic() < deadline:
            time.sleep(0.05)
            left = marked(mark)
        deadline = time.monotonic() + patience
    return len(first)


def pin_again(mark, processors):
    """Moves all threads of a running job; threads that are begun meanwhile are moved in the next
    turn."""
    for _ in range(3):
        moved = 0
        for pid in marked(mark):
            try:
                threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
            except OSError:
                continue
            for thread in threads:
                try:
                    if os.sched_getaffinity(thread) != set(processors):
                        os.sched_setaffinity(thread, processors)
                        moved += 1
                except OSError:
                    continue
        if moved == 0:
            return
