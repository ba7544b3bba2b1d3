"""The machine that jobs share: GPUs, the processors that belong to each, those beside them, and
memory."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

MOST_OF_A_GPU = 16  # processors; a measurement has no use for more
ASIDE_OF_A_GPU = 4  # of these, at most: for work that is not measured


@dataclass(frozen=True)
class Machine:
    """What there is."""

    gpus: tuple  # as CUDA_VISIBLE_DEVICES takes them
    own: dict  # GPU -> the processors of what runs on it
    aside: tuple  # processors that no GPU owns
    memory_gib: float
    quiet: tuple = ()  # GPUs for nothing but what must be alone
    hushed: int = 1  # so many jobs beside which nothing else may run may run beside each other


def shared_out(gpus, processors, memory_gib, quiet=(), hushed=1):
    """A machine whose processors are divided evenly: a quarter of each GPU's part, four at most, is
    set aside."""
    processors = sorted(processors)
    part = min(MOST_OF_A_GPU, len(processors) // max(1, len(gpus)))
    own, aside = {}, []
    for at, gpu in enumerate(gpus):
        mine = processors[at * part : (at + 1) * part]
        beside = min(ASIDE_OF_A_GPU, len(mine) // 4 if len(mine) >= 4 else len(mine) // 2)
        own[gpu] = tuple(mine[: len(mine) - beside]) or tuple(processors)
        aside += mine[len(mine) - beside :] if beside else []
    aside += processors[part * len(gpus) :]
    # With a processor or less to a GPU nothing can be kept apart.
    return Machine(tuple(gpus), own, tuple(aside) or tuple(processors), memory_gib, tuple(quiet), hushed)


def this_machine(gpus=None, memory_gib=None, processors=None, quiet=(), hushed=1):
    """What is here; `gpus` and `memory_gib` where the user knows better, the number of `processors`
    to think of another."""
    gpus = visible_gpus() if gpus is None else gpus
    mine = usable_processors() if processors is None else range(processors)
    return shared_out(gpus, mine, memory_gib or total_memory_gib(), quiet, hushed)


def visible_gpus():
    """CUDA_VISIBLE_DEVICES, else all that nvidia-smi lists."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    return re.findall(r"^GPU (\d+):", listed, re.M)


def usable_processors():
    """Those that this process may run on; no more than a container's share of time is worth."""
    processors = sorted(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        most = max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return processors
    return processors[:most]


def total_memory_gib():
    """The limit that is set for this machine or container, else MemTotal, which a virtual machine
    that grows shows too small."""
    try:
        return int(Path("/sys/fs/cgroup/memory.max").read_text()) / 2**30
    except (OSError, ValueError):
        pass  # "max": no limit of its own
    kib = re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.M)
    return int(kib[1]) / 2**20 if kib else 8.0
