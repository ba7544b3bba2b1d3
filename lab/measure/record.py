"""What is known of each job, kept in a file, so that a driver can go on where another one died.

FOLDER/state.json is written whole at each change. FOLDER/out/lab.log has a line for each beginning
and end, with the clock and the seconds since the first start.
"""

import json
import os
import time
from dataclasses import asdict, dataclass, field

WAITING = "waiting"
RUNNING = "running"
IDLE = "idle"  # a compare that has compiled
GOING = "going"  # a compare in its rounds
DONE = "done"
FAILED = "failed"
LOST = "lost"  # something that it needs failed
LATE = "late"  # it would have ended behind the deadline
CUT = "cut"  # a sanitizer whose first attempt did not end in time

ALIVE = (RUNNING, IDLE, GOING)
TRIED_AGAIN = (FAILED, LOST, LATE)  # by the next driver


@dataclass
class Entry:
    """One job; times are seconds since the first start."""

    state: str = WAITING
    pid: int | None = None
    start: int | None = None  # of the process, as processes.start_time has it
    begun: float = 0
    processors: list = field(default_factory=list)
    attempt: int = 0
    code: int | None = None


class Record:
    """The state of a folder's jobs, its clock and its log."""

    def __init__(self, folder, names, scale=1.0):
        self.path, self.scale = folder / "state.json", scale
        (folder / "out").mkdir(parents=True, exist_ok=True)
        self.log_path = folder / "out/lab.log"
        found = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.resumed = bool(found)
        self.begun = found.get("begun", time.time())
        kept = {name: Entry(**entry) for name, entry in found.get("jobs", {}).items()}
        self.jobs = {name: kept.get(name, Entry()) for name in names}
        self.removed = {name: entry for name, entry in kept.items() if name not in self.jobs}

    def now(self):
        return (time.time() - self.begun) / self.scale

    def save(self):
        jobs = {name: asdict(entry) for name, entry in self.jobs.items()}
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps({"begun": self.begun, "jobs": jobs}))
        os.replace(part, self.path)

    def say(self, *words):
        with open(self.log_path, "a") as log:
            told = [str(word) for word in words if word != ""]
            print(time.strftime("%H:%M:%S"), f"{self.now():6.0f}", *told, file=log)
