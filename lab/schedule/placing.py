"""Who may begin where: jobs that are ready, best first, on a machine of which others hold a part.
"""

import math
from dataclasses import dataclass, field

from .job import ALL, ALONE, NONE, SHARED, SLOTS

LONG = 60  # seconds of a job without a GPU


@dataclass
class Held:
    """A running job's part of the machine."""

    job: object
    gpus: tuple  # those that it is on
    processors: tuple
    begin: float
    more: dict = field(default_factory=dict)  # the scheduler's own

    def left(self, now):
        """Seconds until it is thought to end; one that is late is thought to take as long again as
        it is late, up to its limit."""
        taken = now - self.begin
        return max(1.0, min(abs(self.job.expect - taken), self.job.limit - taken))


class Placing:
    """One round of decisions."""

    def __init__(self, machine, running, now, sharing=False):
        """`sharing`: jobs that share a GPU are still to come."""
        self.machine, self.running, self.now, self.sharing = machine, list(running), now, sharing
        self.kept = {}  # GPU -> seconds until which jobs of lower priority may use it: it is to be free then

    def on(self, gpu):
        return [held for held in self.running if gpu in held.gpus]

    def is_alone(self, gpu):
        return any(held.job.gpu in (ALONE, ALL) for held in self.on(gpu))

    def slots_left(self, gpu):
        return SLOTS - sum(held.job.slots for held in self.on(gpu))

    def common(self, more=()):
        """Processors that nothing measured uses: those aside, and those of GPUs that no job has
        alone."""
        machine = self.machine
        free = [
            p for gpu in machine.gpus if gpu not in more and not self.is_alone(gpu)
            for p in machine.own[gpu]
        ]
        return tuple(sorted({*machine.aside, *free}))

    def place(self, job, urgent=()):
        """(gpus, processors) for `job` to begin now, or None.

        `urgent`: for each job of higher priority that will want a GPU, the seconds until then and
        whether alone.
        """
        memory = sum(held.job.memory_gib for held in self.running)
        if self.running and memory + job.memory_gib > self.machine.memory_gib:
            return None
        if job.gpu == NONE:
            return self._without(job)
        if job.gpu == SHARED:
            return self._shared(job, urgent)
        return self._alone(job, urgent)

    def _without(self, job):
        common = self.common()
        mine = [held.job for held in self.running if held.job.gpu == NONE]
        # What takes long will have only the processors aside when something is measured.
        pools = [(mine, common)]
        if job.expect > LONG:
            pools.append(([other for other in mine if other.expect > LONG], self.machine.aside))
        for others, processors in pools:
            # One may always run, however few processors there are.
            if others and sum(other.cores for other in others) + job.cores > len(processors):
                return None
        return (), common

    def _shared(self, job, urgent):
        gpus = [gpu for gpu in self.machine.gpus if gpu not in self.machine.quiet]
        until = {gpu: max([held.left(self.now) for held in self.on(gpu)], default=0.0) for gpu in gpus}
        # As many GPUs as will soon be wanted alone shall not be held up by this job.
        soon = sum(alone and seconds < 0.5 * job.expect for seconds, alone in urgent)
        free = [gpu for gpu in gpus if until[gpu] < job.expect]

        def disturbs(gpu):
            return not self.machine.quiet and soon > 0 and gpu in free and len(free) - 1 < soon

        fits = [
            gpu
            for gpu in gpus
            if not self.is_alone(gpu)
            and self.slots_left(gpu) >= job.slots
            and job.expect <= self.kept.get(gpu, math.inf)
            and not disturbs(gpu)
        ]
        if not fits:
            return None
        # The fullest one, so that another stays empty for what must be alone.
        gpu = min(fits, key=lambda gpu: (self.slots_left(gpu), self.machine.gpus.index(gpu)))
        return (gpu,), tuple(sorted({*self.machine.own[gpu], *self.machine.aside}))

    def _alone(self, job, urgent):
        gpus = self.machine.gpus
        needed = len(gpus) if job.gpu == ALL else 1
        if not gpus:
            return None
        if self.sharing and 0 < needed <= len(self.machine.quiet):
            gpus = self.machine.quiet  # the others are for what shares them, as long as there is any
        empty = [gpu for gpu in gpus if not self.on(gpu) and job.expect <= self.kept.get(gpu, math.inf)]
        empty.sort(key=lambda gpu: gpu not in self.machine.quiet)
        others = [gpu for gpu in gpus if not self.is_alone(gpu) and gpu not in empty[:needed]]
        # The last GPU is not taken for long when something that matters more is about to want one.
        waited_for = any(seconds < 0.5 * job.expect and (alone or not self.machine.quiet)
                         for seconds, alone in urgent)
        if len(empty) >= needed and (others or not waited_for):
            taken = tuple(empty[:needed])
            return taken, tuple(p for gpu in taken for p in self.machine.own[gpu])
        if len(empty) < needed and not (self.machine.quiet and needed <= len(self.machine.quiet)):
            self._keep(needed)  # where none is quiet
        return None

    def _keep(self, needed):
        """Keeps the GPUs that are free soonest for a job that must be alone: nothing that would end
        later begins there."""
        until = {
            gpu: max([held.left(self.now)
                      for held in self.on(gpu)], default=0.0)
            for gpu in self.machine.gpus
        }
        free = [gpu for gpu in sorted(until, key=until.get) if gpu not in self.kept]
        # Where several are needed, each is kept until the last of them is free.
        wanted = free[:needed]
        for gpu in wanted:
            self.kept[gpu] = max(until[gpu] for gpu in wanted)
