"""A job's process: begun, found again after the driver died, moved to other processors, ended.

A shell runs the job in a session of its own and writes the exit code to a file. So the code is
known even if another driver sees the job end.
"""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

# $1: the job's command, $2: the file of its exit code, which appears whole.
WRAPPER = 'bash -c "$1"; code=$?; echo $code > "$2.part"; mv "$2.part" "$2"; exit $code'

MOST_DYING = 10  # seconds; a process that has the GPU open may take one


def begin(command, log, code_file, environment, processors, directory):
    """Starts it; the process."""
    usable = set(processors) & os.sched_getaffinity(0)  # a rehearsal has more than the machine

    def pin():
        if usable:
            os.sched_setaffinity(0, usable)

    with open(log, "wb") as out:
        return subprocess.Popen(["bash", "-c", WRAPPER, "bash", command,
                                 str(code_file)],
                                stdin=subprocess.DEVNULL,
                                stdout=out,
                                stderr=subprocess.STDOUT,
                                env=environment,
                                cwd=directory,
                                start_new_session=True,
                                preexec_fn=pin)


def exit_code(code_file):
    """What the wrapper wrote; None if it was killed."""
    try:
        return int(Path(code_file).read_text())
    except (OSError, ValueError):
        return None


def status(pid):
    """(state, parent, session, start time) of a process, from proc(5); None if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1]), int(fields[3]), int(fields[19])


def start_time(pid):
    """In ticks since the machine started: with it a number that is used again is told apart."""
    found = status(pid)
    return found and found[3]


def is_alive(pid, start):
    found = status(pid)
    return found is not None and found[0] != "Z" and found[3] == start


def family(pid):
    """The process, its session and all that any of these began, as far as they are alive."""
    all_ = {int(path.name): status(path.name) for path in Path("/proc").glob("[0-9]*")}
    all_ = {one: found for one, found in all_.items() if found and found[0] != "Z"}
    mine = {one for one, found in all_.items() if one == pid or found[2] == pid}
    before = 0
    while before < len(mine):
        before = len(mine)
        mine |= {one for one, found in all_.items() if found[1] in mine}
    return mine


def kill(pid):
    """Ends a job with all that it began, whatever session that is in, and waits until it is gone."""
    mine = {one: start_time(one) for one in family(pid)}
    # The wrapper first: it would write down how its child was killed.
    for one in sorted(mine, key=lambda one: one != pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    deadline = time.monotonic() + MOST_DYING
    while any(is_alive(*one) for one in mine.items()) and time.monotonic() < deadline:
        time.sleep(0.01)


def widen(pid, processors):
    """Moves all threads of a running job to these processors."""
    usable = set(processors) & os.sched_getaffinity(0)
    for one in family(pid):
        for thread in Path(f"/proc/{one}/task").glob("*"):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(thread.name), usable)
