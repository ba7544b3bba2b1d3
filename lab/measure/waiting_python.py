#!/usr/bin/env python3
"""The Python of a `segtrt compare` that shares the machine while PyTorch compiles.

It starts the runner at once. It hands on the runner's first answer, "ready" or "error", only when
the driver says go. So nothing is measured while another job runs. Without a driver it hands on all.

The driver names two files: it waits for SEGTRT_LAB_READY, and this program waits for SEGTRT_LAB_GO.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

FIRST = ("ready", "error")


def is_first(line):
    try:
        return json.loads(line).get("event") in FIRST
    except (ValueError, AttributeError):
        return False


def wait_for_go(runner, parent):
    """Tells the driver that the runner has compiled or failed, and waits; ends with its parent."""
    if "SEGTRT_LAB_GO" not in os.environ:
        return
    Path(os.environ["SEGTRT_LAB_READY"]).touch()
    while not os.path.exists(os.environ["SEGTRT_LAB_GO"]):
        if os.getppid() != parent:
            runner.kill()
            sys.exit(1)
        time.sleep(0.1)


def main(arguments):
    parent = os.getppid()
    runner = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE)
    waits = True
    for line in runner.stdout:
        if waits and is_first(line):
            wait_for_go(runner, parent)
            waits = False
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    if waits:  # it died without a word; the other side shall be measured alone all the same
        wait_for_go(runner, parent)
    code = runner.wait()
    return code if code >= 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
