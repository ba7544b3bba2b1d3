"""What a job is: a command, what it needs, what it occupies and what it leaves; and the checks of a
whole plan."""

import fnmatch
import glob
from dataclasses import dataclass, field
from pathlib import Path

ALONE, SHARED, ALL, NONE = "alone", "shared", "all", "cpu"
# Shares of a GPU that jobs beside each other may take together; a build takes four.
SLOTS = 20
FIRST = 1  # from here to 2: the priorities of what --first names


class PlanError(Exception):
    """A plan that cannot be carried out; the text is for the user."""


@dataclass
class Job:
    """One command.

    `gpu`: "alone" (nothing else on its GPU, and processors of its own: a measurement), "all" (every
    GPU alone), "shared" (beside others), "cpu" (none). `results` are removed before each try and
    must be there after it. An argument "glob:PATTERN" becomes the one path that matches when the
    job begins.
    """

    name: str
    command: list
    gpu: str = NONE
    needs: list = field(default_factory=list)
    priority: int = 50  # the lowest begins first
    expect: float = 30  # seconds that it is thought to take
    limit: float = 0  # seconds after which it is killed [three times expect, 60 at least]
    slots: int = 1  # of SLOTS, of a shared GPU
    cores: int = 1  # threads, of a job without a GPU
    memory_gib: float = 4
    results: list = field(default_factory=list)
    clears: list = field(default_factory=list)  # patterns of what else a failed try may have left
    leaves: list = field(default_factory=list)  # paths in others' results that must be there after it
    codes: tuple = (0,)  # exit codes of a job that is done
    stdout: Path | None = None  # where its standard output goes [its log]
    copies: list = field(default_factory=list)  # (from, to) before it begins, unless `to` is there
    environment: dict = field(default_factory=dict)
    waits: bool = False  # for --wait-for's file
    # Nothing else runs meanwhile, on no GPU and no processor (but others of its kind:
    # Machine.hushed).
    hush: bool = False
    group: str = "main"
    optional: bool = False  # those that need it begin when it has ended, however it ended
    # Optional job -> text that the command loses where that is not done.
    only_with: dict = field(default_factory=dict)
    # Likewise -> seconds that it takes less where that is left out.
    spares: dict = field(default_factory=dict)

    def __post_init__(self):
        self.command = [str(word) for word in self.command]
        self.limit = self.limit or max(60, 3 * self.expect)

    @property
    def on_gpu(self):
        return self.gpu != NONE

    def lacking(self, not_done):
        """The command without what it is to have only with jobs of `not_done`."""
        words = self.command
        for text in [self.only_with[name] for name in not_done if name in self.only_with]:
            words = [word.replace(text, "") for word in words]
        return words

    def words(self, not_done=()):
        """The same with its globs resolved; PlanError where one does not match exactly one path."""
        words = self.lacking(not_done)
        return [one_path(word[5:]) if word.startswith("glob:") else word for word in words]


def one_path(pattern):
    """The one path that matches."""
    found = sorted(glob.glob(pattern))
    if len(found) != 1:
        raise PlanError(f"{pattern}: expected one path, found {', '.join(found) or 'none'}")
    return found[0]


def checked(jobs):
    """The jobs by name, each after those that it needs; PlanError for what cannot be carried out.
    """
    by_name = {}
    for job in jobs:
        if job.name in by_name:
            raise PlanError(f"two jobs are named {job.name}")
        if job.gpu not in (ALONE, SHARED, ALL, NONE):
            raise PlanError(f"{job.name}: gpu is {job.gpu!r}")
        if not 1 <= job.slots <= SLOTS:
            raise PlanError(f"{job.name}: {job.slots} slots of {SLOTS}")
        by_name[job.name] = job
    ordered, on_the_way = {}, []

    def visit(name, wanted_by):
        if name not in by_name:
            raise PlanError(f"{wanted_by} needs {name}, which is not in the plan")
        if name in on_the_way:
            raise PlanError(f"a circle of needs: {' → '.join([*on_the_way, name])}")
        if name in ordered:
            return
        on_the_way.append(name)
        for need in by_name[name].needs:
            visit(need, name)
        on_the_way.pop()
        ordered[name] = by_name[name]

    for name in by_name:
        visit(name, name)
    results = {}
    for job in jobs:
        for path in map(str, job.results):
            if path in results:
                raise PlanError(f"{job.name} and {results[path]} both leave {path}")
            results[path] = job.name
    return ordered


def chosen(jobs, patterns):
    """Those whose names match one of the patterns, and whatever they need."""
    if not patterns:
        return jobs
    by_name = {job.name: job for job in jobs}
    left = [n for n in by_name if any(fnmatch.fnmatchcase(n, pattern) for pattern in patterns)]
    if not left:
        raise PlanError(f"--only {','.join(patterns)} matches no job; --list shows their names")
    wanted = set()
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left += by_name[name].needs if name in by_name else []  # `checked` tells what is missing
    return [job for job in jobs if job.name in wanted]


def without(jobs, patterns):
    """All but the optional jobs that match; the commands of those that needed them lose what they
    were to have only with them."""
    dropped = set()
    for pattern in patterns:
        found = {job.name: job.optional for job in jobs if fnmatch.fnmatchcase(job.name, pattern)}
        if not found:
            raise PlanError(f"--without {pattern} matches no job; --list shows their names")
        if needed := [name for name, optional in found.items() if not optional]:
            raise PlanError(f"--without {pattern}: {', '.join(needed)} cannot be done without")
        dropped |= set(found)
    kept = [job for job in jobs if job.name not in dropped]
    for job in kept:
        lacks = [name for name in job.needs if name in dropped]
        job.command, job.expect = job.lacking(lacks), job.expect - sum(
            job.spares.get(name, 0) for name in lacks)
        job.needs = [name for name in job.needs if name not in dropped]
    return kept


def hurry(jobs, patterns):
    """Puts those that match first, in the patterns' order; what they need becomes as urgent when
    the scheduler looks."""
    for at, pattern in reversed(list(enumerate(patterns))):  # what matches two goes by the first
        found = [job for job in jobs.values() if fnmatch.fnmatchcase(job.name, pattern)]
        if not found:
            raise PlanError(f"--first {pattern} matches no job; --list shows their names")
        for job in found:
            job.priority = FIRST + at / len(patterns)
