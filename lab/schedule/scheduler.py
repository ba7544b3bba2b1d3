"""Begins jobs as they fit, ends them at their limits, and writes down how each ended."""

import signal
import time
from pathlib import Path

from . import process
from .job import NONE, SHARED, PlanError
from .ledger import clock, is_there
from .placing import Held, Placing

PENDING, RUNNING, DONE, FAILED = "pending", "running", "done", "failed"


NAMED = 12  # jobs that the last words name of a kind
LOOK_AGAIN = 1.0  # seconds until it is looked again whether something can begin, where no job has ended


class Stopped(Exception):
    """The lab was told to end."""


class Scheduler:
    """One lab at work."""

    def __init__(self, jobs, machine, ledger, seconds=0, wait_for=None, directory=None, poll=0.1):
        self.jobs, self.machine, self.ledger = jobs, machine, ledger
        self.begin = self.now()
        self.deadline = self.begin + seconds if seconds else float("inf")
        self.wait_for = Path(wait_for) if wait_for else None
        self.directory, self.poll = directory, poll
        self.state = {name: DONE if ledger.is_done(job) else PENDING for name, job in jobs.items()}
        self.running, self.late, self.stopped = {}, set(), False
        self.changed, self.looked = True, self.begin
        # What a job of high priority needs is as urgent as the job.
        self.priority = {name: job.priority for name, job in jobs.items()}
        for name, job in reversed(jobs.items()):  # each stands after those that it needs
            for need in job.needs:
                self.priority[need] = min(self.priority[need], self.priority[name])
        # Among jobs of one priority the one comes first that the longest chain of others waits for.
        self.chain = {name: job.expect for name, job in jobs.items()}
        for name, job in reversed(jobs.items()):
            for need in job.needs:
                self.chain[need] = max(self.chain[need], jobs[need].expect + self.chain[name])

    def now(self):
        return time.time()

    def wait(self):
        time.sleep(self.poll)

    def run(self):
        """Carries the plan out; the number of jobs that are not done."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told_to_stop)
        done = sum(state == DONE for state in self.state.values())
        gpus = ", ".join(f"{gpu} on {len(own)}" for gpu, own in self.machine.own.items()) or "none"
        self.ledger.say(
            f"lab: {len(self.jobs)} jobs, {done} done before; GPUs {gpus} processors, "
            f"{len(self.machine.aside)} aside, "
            f"{self.machine.memory_gib:.0f} GiB"
        )
        try:
            while True:
                if self.stopped:
                    raise Stopped
                self._reap()
                # Looking takes time, if on a processor that nothing measured uses: now and then is
                # enough for what comes by itself.
                if self.changed or self.now() - self.looked > LOOK_AGAIN:
                    self.changed, self.looked = False, self.now()
                    self._begin_what_fits()
                if not self.running and not self._can_go_on():
                    break
                self.wait()
        except Stopped:
            self.ledger.say("told to stop")
            for name in list(self.running):
                self._end(name, "the lab was told to stop")
        return self._last_words()

    def _told_to_stop(self, *_):
        # No exception out of a handler: it would lose a job that is just being begun, or, told
        # twice, those that are still to be ended.
        self.stopped = True

    def _held_back(self, job):
        return job.waits and self.wait_for is not None and not self.wait_for.exists()

    def _is_ready(self, job):
        return self.state[job.name] == PENDING and all(self._is_settled(need) for need in job.needs)

    def _is_settled(self, name):
        """Nothing more is to be waited for: it is done, or it is optional and will not be done."""
        ended = self.state[name] == FAILED or name in self.late or self._is_lost(name)
        return self.state[name] == DONE or (self.jobs[name].optional and ended)

    def _is_lost(self, name, known=None):
        """It failed, or needs one that did."""
        known = {} if known is None else known
        if name not in known:
            state = self.state[name]
            known[name] = state == FAILED or (state == PENDING and any(
                self._is_lost(need, known)
                for need in self.jobs[name].needs
                if not self.jobs[need].optional))
        return known[name]

    def _fits_in_time(self, job):
        return self.now() + job.expect <= self.deadline

    def _can_go_on(self):
        """Whether waiting may help: a job is ready and in time, though something keeps it from
        beginning now."""
        return any(
            self._is_ready(job) and job.name not in self.late and self._fits_in_time(job)
            for job in self.jobs.values())

    def _soon(self, name, known):
        """Seconds until a pending job is thought to be able to begin; infinite where nobody knows.
        """
        if name not in known:
            job, now = self.jobs[name], self.now()
            if self.state[name] in (DONE, RUNNING) or (job.optional and self._is_settled(name)):
                known[name] = 0.0
            elif self._held_back(job) or self._is_lost(name) or not self._fits_in_time(job):
                known[name] = float("inf")
            else:
                known[name] = max([self._soon(need, known) + self._rest(need, now) for need in job.needs],
                                  default=0.0)
        return known[name]

    def _rest(self, name, now):
        """Seconds that a job takes from when it can begin, or still takes."""
        if self.state[name] == DONE or (self.jobs[name].optional and self._is_settled(name)):
            return 0.0
        return self.running[name].left(now) if name in self.running else self.jobs[name].expect

    def _begin_what_fits(self):
        ready = [job for job in self.jobs.values() if self._is_ready(job) and not self._held_back(job)]
        if hushed := sum(held.job.hush for held in self.running.values()):
            ready = [job for job in ready if job.hush and hushed < self.machine.hushed]
        if not ready:
            return
        known = {}
        sharing = any(job.gpu == SHARED and self.state[job.name] == PENDING
                      and self._soon(job.name, known) < float("inf") for job in self.jobs.values())
        placing = Placing(self.machine, self.running.values(), self.now(), sharing)
        gather = None  # priority of those that wait for each other, and the seconds until they can begin
        for job in sorted(ready, key=lambda job: (self.priority[job.name], -self.chain[job.name])):
            if hushed and (not job.hush or self._lengthens(job, known)):
                continue
            if not self._fits_in_time(job):
                if job.name not in self.late:
                    self.late.add(job.name)
                    self.ledger.say(f"left for later: {job.name} would take {job.expect:.0f} s")
                continue
            if job.on_gpu and not self.machine.gpus:
                self._fail(job, "there is no GPU")
                continue
            if gather and self.priority[job.name] > gather[0] and job.expect > gather[1]:
                continue  # it would keep them waiting for it
            if job.hush and (until := self._gathers(job, ready, known)) is not None:
                # These keep them waiting anyway.
                held = [held.left(self.now()) for held in self.running.values()]
                gather = gather or (self.priority[job.name], max([until, *held]))
                continue
            if job.hush and len(self.running) > hushed:
                if self._hushed(job):
                    return  # what is less urgent would keep the machine busy
                continue
            urgent = []
            for other in self.jobs.values() if job.on_gpu else ():
                sooner = self.priority[other.name] < self.priority[job.name]
                if other.on_gpu and sooner and self.state[other.name] == PENDING:
                    urgent.append((self._soon(other.name, known), other.gpu != SHARED))
            place = placing.place(job, urgent)
            if place is not None and self._begin(job, *place):
                hushed += job.hush
                if hushed >= self.machine.hushed:
                    return
                placing.running.append(self.running[job.name])

    def _gathers(self, job, ready, known):
        """Seconds for which a job beside which nothing else may run waits for those that may: as
        urgent ones that will be ready in time.

        None where it waits for none. They would wait for it otherwise, and what they need would,
        too.
        """
        beside = [
            other for other in ready if other.hush and self.priority[other.name] == self.priority[job.name]
        ]
        lacking = self.machine.hushed - len(beside)
        if lacking <= 0:
            return None
        others = [
            other.name
            for other in self.jobs.values()
            if other.hush and other not in beside and self.state[other.name] == PENDING
        ]
        soon = sorted(
            self._soon(name, known) for name in others if self.priority[name] == self.priority[job.name])
        soon = [seconds for seconds in soon if seconds < float("inf")][:lacking]
        return soon[-1] if soon and self.now() + soon[-1] + job.expect <= self.deadline else None

    def _lengthens(self, job, known):
        """Whether a job would keep the machine hushed longer than those that do now, and so keep
        more urgent ones waiting."""
        now = self.now()
        if job.expect <= max(held.left(now) for held in self.running.values()):
            return False
        urgent = [
            name for name in self.jobs
            if self.priority[name] < self.priority[job.name] and self.state[name] == PENDING
        ]
        return any(self._soon(name, known) < float("inf") for name in urgent)

    def _hushed(self, job):
        """Whether a job for which nothing else may run is waited for: not where it would end too
        late once the others are through."""
        now = self.now()
        return now + max(held.left(now) for held in self.running.values()) + job.expect <= self.deadline

    def _begin(self, job, gpus, processors):
        """Starts it; False where it cannot even begin."""
        now, ledger = self.now(), self.ledger
        record = {
            "name": job.name, "begin": now, "gpus": list(gpus), "processors": list(processors), "command":
            job.command
        }
        if gpus:
            for held in self.running.values():
                if held.job.gpu == NONE and set(held.processors) & set(processors):
                    self._pin(
                        held,
                        Placing(self.machine, self.running.values(),
                                now).common(gpus if job.gpu != SHARED else ()))
        try:
            ledger.begun(job, record)
            child = self._spawn(job, gpus, processors)
        except (OSError, PlanError) as error:
            self._fail(job, str(error), record)
            return False
        self.state[job.name] = RUNNING
        limit = min(now + job.limit, self.deadline)
        beside = [name for name, held in self.running.items() if held.job.on_gpu]
        for name in beside:
            self.running[name].more["beside"].add(job.name)
        more = {"child": child, "record": record, "limit": limit, "beside": set(beside)}
        self.running[job.name] = Held(job, gpus, processors, now, more)
        where = f" on GPU {','.join(gpus)}" if gpus else ""
        ledger.say(f"begun: {job.name}{where}, {len(processors)} processors")
        return True

    def _spawn(self, job, gpus, processors):
        words = job.words([need for need in job.needs if self.state[need] != DONE])
        environment = {name: str(value) for name, value in job.environment.items()}
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        with open(self.ledger.log_path(job.name), "wb") as log:
            log.write(("$ " + " ".join(words) + "\n").encode())
            log.flush()
            out = open(job.stdout, "wb") if job.stdout else log
            try:
                return process.begin(words, self.ledger.mark(job.name), processors, log, out, environment,
                                     self.directory)
            finally:
                if job.stdout:
                    out.close()

    def _pin(self, held, processors):
        if processors and set(processors) != set(held.processors):
            held.processors = processors
            process.pin_again(self.ledger.mark(held.job.name), processors)

    def _reap(self):
        for name, held in list(self.running.items()):
            code = held.more["child"].poll()
            if code is not None:
                self._settle(name, code)
            elif self.now() > held.more["limit"]:
                why = "the time was up" if held.more[
                    "limit"] == self.deadline else f"longer than {held.job.limit:.0f} s"
                self._end(name, why)

    def _settle(self, name, code):
        """A job's process is over."""
        held = self.running[name]
        self._clear(name)
        missing = self._missing(held.job)
        if code not in held.job.codes:
            self._close(name, FAILED, code, f"exit code {code}")
        elif missing:
            self._close(name, FAILED, code, f"it left no {', '.join(missing)}")
        else:
            self._close(name, DONE, code, "" if code == 0 else f"exit code {code}")

    def _clear(self, name):
        process.end_all(self.ledger.mark(name), 1.0)  # whatever lingers would disturb what comes next

    def _missing(self, job):
        return [str(path) for path in [*job.results, *job.leaves] if not is_there(path)]

    def _end(self, name, why):
        held = self.running[name]
        process.end_all(self.ledger.mark(name))
        held.more["child"].wait()
        self._close(name, FAILED, held.more["child"].returncode, why)

    def _close(self, name, state, code, why):
        held, now = self.running.pop(name), self.now()
        self.state[name], self.changed = state, True
        record = held.more["record"] | {
            "state": state,
            "why": why,
            "code": code,
            "end": now,
            "seconds": round(now - held.begin, 2),
            "from": clock(held.begin),
            "beside": sorted(held.more["beside"]),
        }
        self.ledger.ended(name, record)
        told = f"{state}: {name} after {now - held.begin:.1f} s{f' ({why})' if why else ''}"
        last = self.ledger.last_line(name)
        self.ledger.say(f"{told}: {last}" if last else told)
        if held.job.gpu not in (NONE, SHARED):
            # Its processors are free for others again.
            common = Placing(self.machine, self.running.values(), now).common()
            for other in self.running.values():
                if other.job.gpu == NONE:
                    self._pin(other, common)

    def _fail(self, job, why, record=None):
        """It could not begin."""
        self.state[job.name] = FAILED
        record = record or {"name": job.name, "begin": self.now(), "command": job.command}
        self.ledger.ended(job.name, record | {"state": FAILED, "why": why})
        self.ledger.say(f"failed: {job.name} could not begin: {why}")

    def _last_words(self):
        left = [name for name, state in self.state.items() if state != DONE]
        known = {}
        failed = [name for name in left if self.state[name] == FAILED]
        lost = [name for name in left if self.state[name] == PENDING and self._is_lost(name, known)]
        later = [name for name in left if name not in failed and name not in lost]
        self.ledger.say(f"lab: {len(self.jobs) - len(left)} of {len(self.jobs)} jobs done")
        for what, names in (("failed", failed), ("not begun, needing those", lost), ("left for later",
                                                                                     later)):
            if names:
                more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
                self.ledger.say(f"{what}: {', '.join(names[:NAMED])}{more}")
        return len(left)
