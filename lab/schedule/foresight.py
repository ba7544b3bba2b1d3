"""When each job would begin if all took as long as is thought (--foresee): the scheduler itself, on
a clock that jumps."""

import heapq

from .scheduler import Scheduler


class Child:
    """A process that ends when its time has come."""

    def __init__(self, clock, end):
        self.clock, self.end, self.returncode = clock, end, 0

    def poll(self):
        return 0 if self.clock.time >= self.end else None

    def wait(self):
        return 0


class Nothing:
    """Stands for OUT: nothing is there, and nothing is written."""

    def __init__(self, say, done):
        self.say, self._done = say, done

    def is_done(self, job):
        return self._done(job)

    def begun(self, *_):
        pass

    ended = begun

    def last_line(self, _):
        return ""


class Foresight(Scheduler):
    """`bring`: seconds after which --wait-for's file is there."""

    def __init__(self, jobs, machine, done, seconds=0, bring=0):
        self.time, self.ends, self.bring, self.lines = 0.0, [], bring, []
        super().__init__(jobs, machine, Nothing(lambda line: self.lines.append((self.time, line)), done),
                         seconds)

    def now(self):
        return self.time

    def wait(self):
        """To the next moment at which something ends or comes."""
        times = [self.bring] if self.bring > self.time else []
        while self.ends and self.ends[0] <= self.time:
            heapq.heappop(self.ends)
        self.time = min(times + self.ends[:1], default=self.time + 1)
        self.changed = True

    def _held_back(self, job):
        return job.waits and self.time < self.bring

    def _spawn(self, job, gpus, processors):
        end = self.time + job.expect
        heapq.heappush(self.ends, end)
        return Child(self, end)

    def _pin(self, held, processors):
        held.processors = processors

    def _clear(self, name):
        pass

    def _missing(self, job):
        return []

    def _end(self, name, why):
        self._close(name, "failed", None, why)
