"""Takes a job's place in a rehearsal (--fake): sleeps a part of the time that the job is thought to
take, and leaves its results."""

import argparse
import time
from pathlib import Path

from .job import Job


def stand_in(job, share, python):
    """The same job with another command."""
    command = [python, "-m", "schedule.stand_in", "--seconds", job.expect * share]
    for result in job.results:
        if result != job.stdout:
            command += ["--folder" if not Path(result).suffix else "--file", result]
    # A folder that comes with a file in it is that file's.
    return Job(**(vars(job) | {"command": command, "expect": job.expect * share, "limit": 60, "copies": []}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--file", type=Path, action="append", default=[])
    parser.add_argument("--folder", type=Path, action="append", default=[])
    args = parser.parse_args()
    time.sleep(args.seconds)
    for path in [*args.file, *(folder / "stand_in.txt" for folder in args.folder)]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a stand-in's\n")
    print(f"a stand-in that slept {args.seconds:.1f} s")


if __name__ == "__main__":
    main()
