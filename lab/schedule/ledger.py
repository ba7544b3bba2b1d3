"""What is known of each job on disk, so that a lab goes on where it stopped.

    OUT/jobs/NAME.running  while it runs
    OUT/jobs/NAME.json     how it ended: state, exit code, seconds, GPU, processors, what ran beside it
    OUT/jobs/NAME.log      what it printed
    OUT/lab.log            a line for each beginning and end
    OUT/lab.json           of each call: when, with what command, on what machine
"""

import contextlib
import fcntl
import glob
import json
import os
import shutil
import time
from pathlib import Path

from . import process


def clock(seconds=None):
    """Local time of the day."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def write_json(path, value):
    """Whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value, indent=1) + "\n")
    os.replace(part, path)


def remove(path):
    """A file or a folder, if it is there."""
    path = Path(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def is_there(path):
    """A file with something in it, or a folder with something in it."""
    path = Path(path)
    return any(path.iterdir()) if path.is_dir() else path.is_file() and path.stat().st_size > 0


class Ledger:
    """The folder OUT of a lab."""

    quiet = False  # lines go to the screen, too

    def __init__(self, out):
        self.out = Path(out).absolute()
        self.jobs = self.out / "jobs"
        self.jobs.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def held(self):
        """One lab at a time; SystemExit where another one is at work."""
        with open(self.out / "lab.lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SystemExit(f"error: another lab is at work in {self.out}; stop it, or choose another "
                                 f"--out") from None
            yield

    def calls(self):
        """What OUT/lab.json tells of earlier calls."""
        try:
            return json.loads((self.out / "lab.json").read_text())
        except (OSError, ValueError):
            return []

    def mark(self, name):
        return f"{self.out}/{name}"

    def log_path(self, name):
        return self.jobs / f"{name}.log"

    def record(self, name):
        """How it ended last time; None if it has not."""
        try:
            return json.loads((self.jobs / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None

    def is_done(self, job):
        """It ended well, and what it left is still there."""
        record = self.record(job.name)
        return bool(record) and record["state"] == "done" and all(
            is_there(path) for path in [*job.results, *job.leaves])

    def say(self, line):
        """A line to OUT/lab.log and the screen."""
        told = f"{clock()} {line}"
        if not self.quiet:
            print(told, flush=True)
        with open(self.out / "lab.log", "a") as log:
            log.write(told + "\n")

    def end_leftovers(self):
        """Ends what an earlier lab that was killed left running, and takes its jobs for failed."""
        for path in sorted(self.jobs.glob("*.running")):
            name = path.name.removesuffix(".running")
            count = process.end_all(self.mark(name))
            self.say(f"left over: {name} ({count} processes ended)")
            record = json.loads(path.read_text() or "{}")
            write_json(self.jobs / f"{name}.json",
                       record | {"state": "failed", "why": "the lab ended before it did"})
            path.unlink()

    def begun(self, job, record):
        """Clears what earlier tries left, and notes that it runs."""
        for pattern in job.clears:
            for path in glob.glob(str(pattern)):
                remove(path)
        for path in job.results:
            remove(path)
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        (self.jobs / f"{job.name}.json").unlink(missing_ok=True)
        for source, place in job.copies:
            if not Path(place).exists():
                Path(place).parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if Path(source).is_dir() else shutil.copy
                remove(f"{place}.part")  # of a lab that was killed while it copied
                copy(source, f"{place}.part")
                os.replace(f"{place}.part", place)
        write_json(self.jobs / f"{job.name}.running", record)

    def ended(self, name, record):
        write_json(self.jobs / f"{name}.json", record)
        (self.jobs / f"{name}.running").unlink(missing_ok=True)

    def last_line(self, name):
        """The last line of its log that says something."""
        try:
            with open(self.log_path(name), "rb") as log:
                log.seek(max(0, log.seek(0, 2) - 4096))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return next(
            (line.strip()[:160] for line in reversed(lines) if line.strip() and not line.startswith("$ ")),
            "")
