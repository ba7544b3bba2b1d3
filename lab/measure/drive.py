"""Runs the jobs of jobs.py on one machine with one GPU: first those that may share it, then the
measurements, one at a time.

    python3 lab/measure/drive.py --list
    python3 lab/measure/drive.py --simulate 0.02
    python3 lab/measure/drive.py --folder FOLDER --deadline 1640

The same command again goes on: jobs that ended well stay done, others run again, and jobs that are
still running are adopted. Exit code 0: every job ended well; 1: not all; 2: wrong command line.
"""

import argparse
import contextlib
import fcntl
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import jobs
import processes
import simulated
from job import COMPARE, MOST_AT_ONCE, ON_GPU, QUIET, SANITIZER, BadList, checked, is_file
from record import ALIVE, CUT, DONE, FAILED, GOING, IDLE, LATE, LOST, RUNNING, TRIED_AGAIN, WAITING, Record

FOLDER = Path("/tmp/segtrt_lab")
GRACE = 40  # seconds that a job may run on behind the deadline
LEAST_SANITIZING = 60  # seconds; a sanitizer with less until its fixed time waits for the end
PAUSE = 0.3


class Driver:
    """The state of a run, and what a step of it changes."""

    def __init__(self, listed, folder, deadline, processors, scale=1.0, arrivals=None):
        self.jobs, self.folder, self.deadline, self.scale = checked(listed), folder, deadline, scale
        self.arrivals = arrivals  # of a simulation: file -> when it is there
        self.all = list(processors)
        self.upper = set(self.all[(len(self.all) + 1) // 2 :]) or set(self.all)
        for name in ("logs", "made", "waiting"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.record = Record(folder, self.jobs, scale)
        self.children = {}
        self.stopping = False

    def now(self):
        return self.record.now()

    def entry(self, name):
        return self.record.jobs[name]

    def of(self, *states):
        return [job for job in self.jobs.values() if self.entry(job.name).state in states]

    def set(self, name, state, *words):
        self.entry(name).state = state
        self.record.save()
        if words:
            self.record.say(*words)

    def file(self, name, ending):
        folder = "waiting" if ending in ("ready", "go") else "logs"
        return self.folder / folder / f"{name}.{ending}"

    # Going on where another driver stopped.

    def resume(self, again=()):
        """Takes over what another driver left; `again` are jobs that shall run again."""
        if unknown := set(again) - self.jobs.keys():
            raise BadList(f"--again: there is no job {', '.join(sorted(unknown))}; --list shows all")
        adopted = []
        for name, entry in {**self.record.jobs, **self.record.removed}.items():
            alive = entry.state in ALIVE and processes.is_alive(entry.pid, entry.start)
            if alive and (name in again or name in self.record.removed):
                processes.kill(entry.pid)
                self.record.say("end", name, "ended for another attempt or list")
            elif alive:
                adopted.append(name)
                if entry.state == GOING:
                    self.file(name, "go").touch()  # the other driver may have died just before
            if name in again or entry.state in TRIED_AGAIN:
                entry.state, entry.attempt = WAITING, 0
        self.record.removed = {}
        self.record.save()
        if self.record.resumed:
            self.record.say("resumed", *adopted, "again", *again)

    # What has ended, and what cannot begin any more.

    def reap(self):
        for job in self.of(*ALIVE):
            entry = self.entry(job.name)
            child = self.children.get(job.name)
            alive = child.poll() is None if child else processes.is_alive(entry.pid, entry.start)
            why = self.overdue(job, entry) if alive else ""
            if alive and not why:
                continue
            if alive:
                self.kill(job.name)
            self.children.pop(job.name, None)
            self.ended(job, entry, why)

    def kill(self, name):
        processes.kill(self.entry(name).pid)
        if child := self.children.pop(name, None):
            child.wait()

    def overdue(self, job, entry):
        """Why it is ended now."""
        if self.now() > self.deadline + GRACE:
            return "DEADLINE"
        if job.kind == SANITIZER and entry.attempt == 1 and self.now() > job.until:
            return "CUT"
        return "LIMIT" if entry.state != IDLE and self.now() - entry.begun > job.limit else ""

    def ended(self, job, entry, why):
        before = entry.state
        entry.code = processes.exit_code(self.file(job.name, "rc"))
        # A comparison that ended before its rounds has measured nothing.
        good = entry.code in job.codes and (job.kind != COMPARE or before == GOING)
        state = DONE if good else CUT if why == "CUT" else FAILED
        entry.processors = []
        code = "none" if entry.code is None else entry.code
        self.set(job.name, state, "end", job.name, "rc", code, f"{self.now() - entry.begun:.0f} s", why)

    def notice(self):
        """Compares that have compiled, sanitizers that must wait, and jobs that are lost."""
        for job in self.of(RUNNING):
            if job.kind == COMPARE and self.file(job.name, "ready").exists():
                self.entry(job.name).processors = []
                self.set(job.name, IDLE, "idle", job.name)
        for job in self.of(WAITING, IDLE, CUT):
            needs = [need for need in job.jobs_needed if self.entry(need).state in (FAILED, LOST, LATE)]
            if needs:
                self.give_up(job, LOST, "lost", job.name, "for want of", *needs)
            elif job.kind == SANITIZER and self.entry(job.name).state == WAITING:
                if self.now() > job.until - LEAST_SANITIZING:
                    self.set(job.name, CUT, "later", job.name)

    def give_up(self, job, state, *words):
        if self.entry(job.name).state == IDLE:
            self.kill(job.name)
        self.set(job.name, state, *words)

    def is_late(self, job):
        """Gives it up if it would end behind the deadline."""
        compiling = job.compile if self.entry(job.name).state == WAITING else 0
        if self.now() + compiling + job.expect <= self.deadline:
            return False
        self.give_up(job, LATE, "no time for", job.name)
        return True

    def is_there(self, need):
        if not is_file(need):
            return self.entry(need).state == DONE
        if self.arrivals is not None:
            return self.now() >= self.arrivals.get(need, 0)
        return (self.folder / need).exists()

    def is_ready(self, job):
        over = all(self.entry(name).state not in (WAITING, *ALIVE) for name in job.after)
        return over and all(map(self.is_there, job.needs))

    # What begins.

    def begin(self, job, processors):
        entry = self.entry(job.name)
        log, code = self.file(job.name, "log"), self.file(job.name, "rc")
        if log.exists():
            os.replace(log, self.file(job.name, "before.log"))
        for path in (code, self.file(job.name, "ready"), self.file(job.name, "go")):
            path.unlink(missing_ok=True)
        environment = os.environ | {"OMP_NUM_THREADS": str(len(processors))} | job.environment
        if job.kind == COMPARE:
            environment |= {
                f"SEGTRT_LAB_{end.upper()}": str(self.file(job.name, end))
                for end in ("ready", "go")
            }
        child = processes.begin(job.command, log, code, environment, processors, jobs.ROOT)
        self.children[job.name] = child
        entry.pid, entry.start = child.pid, processes.start_time(child.pid)
        entry.begun, entry.processors, entry.attempt = self.now(), list(processors), entry.attempt + 1
        self.set(job.name, RUNNING, "begin", job.name, job.kind, "processors", len(processors))

    def free(self):
        held = {one for job in self.of(*ALIVE) for one in self.entry(job.name).processors}
        return [one for one in self.all if one not in held]

    def place(self, job):
        """The processors that it gets now; None if too few are free."""
        free = self.free()
        if job.high:
            wanted = min(job.processors, len(self.upper))
            return free[-wanted:] if len(free) >= wanted else None
        # The upper half is kept only while somebody may want it.
        kept = self.upper if any(one.high for one in self.of(WAITING, RUNNING)) else set()
        lower = [one for one in self.all if one not in kept] or self.all
        free = [one for one in free if one in lower]
        wanted = min(job.processors, len(lower))
        return free[:wanted] if len(free) >= wanted else None

    def prepare(self):
        """Begins what may share the machine."""
        stopped = False  # a job that allows few neighbours waits for some to end
        for job in self.of(WAITING):
            if job.kind == QUIET or self.is_late(job) or not self.is_ready(job):
                continue
            running = self.of(RUNNING)
            alive = Counter(one.kind for one in self.of(*ALIVE))
            if alive[job.kind] >= MOST_AT_ONCE.get(job.kind, len(self.jobs)):
                continue
            if job.kind in ON_GPU:
                others = [one for one in running if one.kind in ON_GPU]
                if job.beside is not None and len(others) > job.beside:
                    stopped = True
                if stopped or any(one.beside is not None and len(others) > one.beside for one in others):
                    continue
            if processors := self.place(job):
                self.begin(job, processors)

    def measure(self):
        """Begins the next measurement that has time; whether there was one. While a comparison's
        PyTorch waits, nothing but what it needs is next: see MOST_AT_ONCE."""
        waiting = self.of(IDLE)
        for job in self.of(WAITING, IDLE):
            if waiting and job not in waiting and job.name not in waiting[0].quiet_needs:
                continue
            if self.is_late(job):
                continue
            if job.kind == QUIET and self.is_ready(job):
                self.begin(job, self.all[: job.processors])
                return True
            if job.kind == COMPARE and all(map(self.is_there, job.quiet_needs)):
                entry = self.entry(job.name)
                entry.begun, entry.processors = self.now(), self.all
                self.set(job.name, GOING, "go", job.name)
                processes.widen(entry.pid, self.all)
                self.file(job.name, "go").touch()
                return True
        return False

    def prepares(self, job):
        """Whether measurements wait for it. A comparison comes after another one that waits itself,
        or after measurements."""
        if job.kind == COMPARE and any(one.kind == COMPARE for one in self.of(IDLE)):
            return False
        return job.kind != QUIET and not any(self.jobs[name].kind == QUIET for name in job.after)

    def finish(self):
        """Begins sanitizers again; whether one runs."""
        for job in self.of(CUT):
            if len(self.of(RUNNING)) < MOST_AT_ONCE[SANITIZER] and not self.is_late(job):
                self.entry(job.name).attempt = max(1, self.entry(job.name).attempt)
                self.begin(job, self.place(job))
        return bool(self.of(RUNNING))

    def step(self):
        """One look at everything; whether there is still something to do."""
        self.reap()
        self.notice()
        if self.of(GOING) or any(job.kind == QUIET for job in self.of(RUNNING)):
            return True
        self.prepare()
        if any(map(self.prepares, self.of(WAITING))) or self.of(RUNNING):
            return True
        return self.measure() or self.finish()

    def run(self):
        """Until nothing is left, or until another driver takes over; whether all went well."""
        while self.step():
            if self.stopping:
                self.record.say("stopped, jobs run on")
                return False
            time.sleep(min(PAUSE, PAUSE * self.scale * 3))
        for job in self.of(WAITING, IDLE):
            self.give_up(job, LOST, "lost", job.name, "for want of a file")
        self.record.say("done", json.dumps(Counter(entry.state for entry in self.record.jobs.values())))
        return len(self.of(DONE)) == len(self.jobs)


@contextlib.contextmanager
def alone(folder, replace):
    """One driver in a folder; with `replace` the other one ends, and its jobs run on."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "driver.lock", "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            other = int(lock.read())
            if not replace:
                raise BadList(f"another driver ({other}) works in {folder}; --replace ends it, not its jobs")
            os.kill(other, signal.SIGTERM)
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def names(text):
    return [name for name in text.split(",") if name]


def parse(arguments):
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--folder", type=Path, default=FOLDER, help=f"has all that is used and made [{FOLDER}]")
    p.add_argument("--deadline", type=float, default=1640, metavar="SECONDS", help="since the first start "
                                                                                   "[1640]")
    p.add_argument("--again", type=names, default=[], metavar="NAME,…", help="jobs that run again")
    p.add_argument("--replace", action="store_true", help="end another driver of the folder, not its jobs")
    p.add_argument("--processors", type=int, help="so many of the machine's [all]")
    p.add_argument("--list", action="store_true", help="print the jobs and what they need")
    p.add_argument("--simulate", type=float, metavar="SCALE", help="sleep in place of each job, SCALE times "
                                                                   "as long as expected")
    p.add_argument("--fail", type=names, default=[], metavar="NAME,…", help="jobs that fail in a simulation")
    return p.parse_args(arguments)


def main(arguments=None):
    args = parse(arguments)
    if args.list:
        jobs.show(jobs.plan(args.folder))
        return 0
    usable = sorted(os.sched_getaffinity(0))[: args.processors]
    if args.simulate:
        with tempfile.TemporaryDirectory() as place:
            listed = simulated.of(jobs.plan(Path(place)), args.simulate, args.fail)
            driver = Driver(listed, Path(place), args.deadline, range(args.processors or 16), args.simulate,
                            simulated.ARRIVALS)
            driver.run()
            print(driver.record.log_path.read_text(), end="")
        return 0
    folder = args.folder.resolve()
    try:
        with alone(folder, args.replace):
            (folder / "done").unlink(missing_ok=True)
            driver = Driver(jobs.plan(folder), folder, args.deadline, usable)
            if driver.now() > args.deadline:
                raise BadList(f"{folder}/state.json began {driver.now():.0f} s ago; give a later --deadline, "
                              f"or another --folder for a new run")
            driver.resume(args.again)
            # Between two looks: a job that has just begun must be in the record.
            signal.signal(signal.SIGTERM, lambda *_: setattr(driver, "stopping", True))
            good = driver.run()
            if not driver.stopping:
                (folder / "done").touch()
    except BadList as why:
        print(f"error: {why}", file=sys.stderr)
        return 2
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
