"""A job of a measurement, and what a list of jobs must keep to."""

from dataclasses import dataclass, field

CPU = "cpu"  # needs no GPU
GPU = "gpu"  # shares the GPU: prepares something or checks results
TRAIN = "train"  # trains a network
SANITIZER = "sanitizer"  # runs under compute-sanitizer; ends at a fixed time, and then runs again at the end
QUIET = "quiet"  # a measurement: alone on the machine
COMPARE = "compare"  # `segtrt compare`: PyTorch compiles beside others, then waits; its rounds are quiet

KINDS = (CPU, GPU, TRAIN, SANITIZER, QUIET, COMPARE)
ON_GPU = (GPU, TRAIN, SANITIZER)
# A PyTorch process that waits has the GPU open, which spoils other measurements, and so another comparison.
MOST_AT_ONCE = {TRAIN: 3, SANITIZER: 2, COMPARE: 1}


class BadList(Exception):
    """What is wrong with a list of jobs."""


@dataclass(frozen=True)
class Job:
    """One shell command; times are in seconds."""

    name: str
    command: str
    kind: str = CPU
    needs: tuple = ()  # jobs that must have ended well; a word with a slash is a file of the folder
    after: tuple = ()  # jobs that must have ended, well or not
    quiet_needs: tuple = ()  # a compare's, before its rounds
    processors: int = 1
    high: bool = False  # takes processors of the half that is kept for such jobs
    beside: int | None = None  # so many other jobs on the GPU at most
    expect: float = 20
    compile: float = 0  # a compare's expected time until it waits
    limit: float = 600  # a compare's: of compiling, and once more of its rounds
    until: float | None = None  # a sanitizer's: when its first attempt ends
    environment: dict = field(default_factory=dict)
    codes: tuple = (0,)  # exit codes of success

    @property
    def prepares(self):
        return self.kind not in (QUIET, COMPARE)

    @property
    def jobs_needed(self):
        return [need for need in (*self.needs, *self.quiet_needs) if not is_file(need)]


def is_file(need):
    return "/" in need


def checked(jobs):
    """The jobs by name, in their order.

    The order of quiet jobs is the list's, so a quiet job needs none behind it. Quiet jobs begin when
    all others have ended, so no other job needs one. A comparison may come after them.
    """
    found = {}
    for job in jobs:
        if job.name in found:
            raise BadList(f"two jobs are called {job.name}")
        if job.kind not in KINDS:
            raise BadList(f"{job.name}: found the kind {job.kind}, expected one of {', '.join(KINDS)}")
        found[job.name] = job
    places = {name: at for at, name in enumerate(found)}
    for job in found.values():
        for need in (*job.jobs_needed, *job.after):
            if need not in found:
                raise BadList(f"{job.name} needs {need}, which is not in the list")
            if found[need].prepares:
                continue
            if job.prepares or need in job.needs and job.kind == COMPARE:
                raise BadList(f"{job.name} prepares and needs {need}, which is quiet: neither would begin")
            if places[need] >= places[job.name]:
                raise BadList(f"{job.name} needs {need}, which is quiet and behind it in the list")
    _refuse_circles(found)
    return found


def _refuse_circles(found):
    left = dict(found)
    while free := [n for n, job in left.items() if not {*job.jobs_needed, *job.after} & left.keys()]:
        for name in free:
            del left[name]
    if left:
        raise BadList(f"these jobs need each other: {', '.join(left)}")
