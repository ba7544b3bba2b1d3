#!/usr/bin/env python3
"""Assembles cuda/*.ptx with ptxas for each GPU of the platform table, and writes registers, spills, shared
memory and occupancy of every kernel to cuda/resources.md. No GPU is needed.

    python3 -m venv v && v/bin/pip install --no-deps --target v/ptxas -r cuda/requirements-ptxas.txt
    export PYTHONPATH=v/ptxas
    v/bin/python scripts/resources.py            # rewrite cuda/resources.md
    v/bin/python scripts/resources.py --check    # assemble for sm 86, 87 and 90 again, and compare

For sm 90 the PTX has its instructions for programmatic dependent launch, as crates/kernels gives it to the
driver there; --check assembles only PTX that has such. Either call fails if a kernel for any GPU spills or
cannot be launched on sm 86, 87 or 90. Without ptxas, --check
compares the hash of the PTX alone, and says so.
"""
import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import typing

import kernels
from kernels import ROOT, Problem

TABLE = ROOT / "cuda/resources.md"
# Assembled by --check too: the GPUs that no machine of the project has (RTX 30 series and Orin), and the
# first that has the instructions behind MARK (crates/kernels/src/dependent.rs).
HELD = ("86", "87", "90")
MARK, DEPENDENT = "// sm_90: ", "90"


class Limits(typing.NamedTuple):
    """What a multiprocessor has, and a block may have of it."""

    block_shared: int  # bytes, by opting in
    shared: int        # bytes, of which each block costs RESERVED more
    threads: int
    blocks: int


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the same numbers
# are in NVIDIA's CCCL, libcudacxx/include/cuda/__device/arch_traits.h. All have 64 K registers a
# multiprocessor and 255 a thread.
LIMITS = {
    "80": Limits(163 << 10, 164 << 10, 2048, 32),
    "86": Limits(99 << 10, 100 << 10, 1536, 16),
    "87": Limits(163 << 10, 164 << 10, 1536, 16),
    "89": Limits(99 << 10, 100 << 10, 1536, 24),
    "90": Limits(227 << 10, 228 << 10, 2048, 32),
    "90a": Limits(227 << 10, 228 << 10, 2048, 32),
}
REGISTERS, RESERVED = 64 << 10, 1 << 10
# Registers are given to a warp in units of 256, shared memory to a block in units of 128 bytes.
REGISTER_UNIT, SHARED_UNIT, WARP = 256, 128, 32
MOST_THREADS = 1024


class Used(typing.NamedTuple):
    """Of a kernel on one GPU."""

    registers: int
    spilled: int  # bytes of stores and loads
    static: int   # bytes of shared memory


class Kernel(typing.NamedTuple):
    """As its PTX and kernels.toml declare it."""

    module: str
    name: str
    threads: int  # of a block, at most
    dynamic: int  # bytes of shared memory, at most


def up(number, unit):
    return -(-number // unit) * unit


def blocks_of(sm, threads, registers, shared):
    """Blocks that a multiprocessor holds at once; 0: the block cannot be launched."""
    limits = LIMITS[sm]
    if threads > MOST_THREADS or shared > limits.block_shared:
        return 0
    warps = -(-threads // WARP)
    by_registers = REGISTERS // (up(registers * WARP, REGISTER_UNIT) * warps)
    by_shared = limits.shared // up(shared + RESERVED, SHARED_UNIT)
    return min(limits.blocks, limits.threads // (warps * WARP), by_registers, by_shared)


def declared(module, launches):
    """The kernels of a module, in the order of its PTX."""
    text = (ROOT / f"cuda/{module.name}.ptx").read_text()
    dynamic = re.search(r"^\.extern \.shared .*? (\w+)\[\];", text, re.M)
    constants = {name: int(value) for name, value in re.findall(r"^// (\S+) = (\d+)$", text, re.M)}
    found = []
    for entry in text.split(".visible .entry ")[1:]:
        name = entry[:entry.index("(")]
        head, body = entry.split("{", 1)
        launch, bound = launches.get(name, {}), re.search(r"\.maxntid (\d+)", head)
        uses = bool(dynamic and re.search(rf"\b{dynamic[1]}\b", body))
        shared = launch.get("shared", constants.get(f"{name}_shared"))
        if uses != (shared is not None):
            raise Problem(f"{name}: dynamic shared memory is {'' if uses else 'not '}used in "
                          f"cuda/{module.name}.ptx, "
                          f"its constants and [launch] of {kernels.LIST.name} say otherwise")
        if isinstance(shared, str) and shared not in constants:
            raise Problem(f"{name}: [launch] of {kernels.LIST.name} names {shared}, which is no constant of "
                          f"cuda/{module.name}.ptx")
        if (bound is None) != ("threads" in launch):
            raise Problem(f"{name}: threads of a block belong into the source (__launch_bounds__), or else "
                          f"into "
                          f"[launch.{name}] of {kernels.LIST.name}")
        threads = int(bound[1]) if bound else launch["threads"]
        found.append(Kernel(module.name, name, threads, constants.get(shared, shared) or 0))
    return found


def assembled(job):
    """What the kernels of a module use on a GPU: {name: Used}."""
    name, sm = job
    with tempfile.TemporaryDirectory() as folder:
        ptx = ROOT / f"cuda/{name}.ptx"
        if sm == DEPENDENT:
            ptx = pathlib.Path(folder, "dependent.ptx")
            ptx.write_text(dependent(name))
        command = [kernels.packaged("cuda_nvcc/bin/ptxas"), "-v", f"-arch=sm_{sm}", ptx]
        ran = subprocess.run([*command, "-o", f"{folder}/cubin"], capture_output=True, text=True)
    if ran.returncode:
        raise Problem(f"ptxas refuses cuda/{name}.ptx for sm_{sm}:\n{ran.stderr}")
    return parsed(ran.stderr)


def dependent(name):
    """The PTX of a module as crates/kernels gives it to the driver on sm 90."""
    text = (ROOT / f"cuda/{name}.ptx").read_text()
    if MARK not in text:
        return text
    return re.sub(r"^\.target sm_\d+$", f".target sm_{DEPENDENT}", text.replace(MARK, ""), flags=re.M)


def parsed(said):
    """The same, from what ptxas says with -v."""
    found, name, spilled = {}, None, None
    for line in said.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)'", line):
            name = entry[1]
        elif spill := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(spill[1]) + int(spill[2])
        elif used := re.search(r"Used (\d+) registers", line):
            static = re.search(r"(\d+) bytes smem", line)
            found[name] = Used(int(used[1]), spilled, int(static[1]) if static else 0)
    return found


def for_gpu(module, sm):
    """Whether the module is assembled for it: Hopper's instructions are for sm_90a alone."""
    return all(one.endswith("a") for one in module.architectures) == sm.endswith("a")


def problems(kernel, used, sm):
    """Why a kernel is not fit for a GPU, in words."""
    if used.spilled:
        yield f"{kernel.name} moves {used.spilled} bytes of registers to memory on sm_{sm}"
    shared = used.static + kernel.dynamic
    if blocks_of(sm, kernel.threads, used.registers, shared) == 0:
        yield (f"{kernel.name} cannot be launched on sm_{sm}: {kernel.threads} threads, {used.registers} "
               f"registers, "
               f"{shared} bytes of shared memory, a block may have {LIMITS[sm].block_shared}")


def cell(kernel, used, sm):
    if used is None:
        return "–"
    blocks = blocks_of(sm, kernel.threads, used.registers, used.static + kernel.dynamic)
    spill = f", spills {used.spilled} B" if used.spilled else ""
    return f"{used.registers} · {blocks}{spill}"


def fingerprint(listed, table):
    """Of the PTX without comments and spaces, which ptxas ignores, and of threads and shared memory. Comments
    that are instructions on sm 90 count."""
    digest = hashlib.sha256(repr([tuple(kernel) for kernel in table]).encode())
    for module in listed:
        text = dependent(module.name)
        words = (line.split() for line in text.replace(",", " ").splitlines() if not line.startswith("//"))
        digest.update(" ".join(word for line in words for word in line).encode())
    return digest.hexdigest()


HEAD = """# Registers, shared memory and occupancy of the kernels

Written by `scripts/resources.py` with ptxas {ptxas}; not to be edited. Hash of the PTX and its launches: `{hash}`.

A cell `218 · 1`: 218 registers a thread, and one block resident on a multiprocessor (SM). "spills" counts bytes of stores and loads.
A dash: not assembled. Kernels with Hopper's instructions (`*_hopper`, `gemm_*`) exist for sm 90a alone: no other GPU has wgmma, TMA and clusters. The others run on sm 90 too, with their instructions for programmatic dependent launch.
Shared memory is in bytes; the dynamic part is the largest that a released model asks for.
Occupancy follows the limits of the [CUDA C++ Programming Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/#features-and-technical-specifications-technical-specifications-per-compute-capability), as in NVIDIA's [arch_traits.h](https://github.com/NVIDIA/cccl/blob/main/libcudacxx/include/cuda/__device/arch_traits.h).
Nothing here was measured on a GPU.

| limit | {names} |
|---|{rule}|
"""


def page(hashed, table, using, version):
    """The whole text of cuda/resources.md."""
    row = lambda title, of: f"| {title} | " + " | ".join(str(of(LIMITS[sm])) for sm in LIMITS) + " |\n"
    text = HEAD.format(ptxas=version, hash=hashed, names=" | ".join(f"sm {sm}" for sm in LIMITS),
                       rule="|".join("--:" for _ in LIMITS))
    text += row("shared memory of a block", lambda limit: limit.block_shared)
    text += row("shared memory of an SM", lambda limit: limit.shared)
    text += row("threads of an SM", lambda limit: limit.threads) + row("blocks of an SM",
                                                                       lambda limit: limit.blocks)
    text += "\n| kernel | threads | static | dynamic | " + " | ".join(f"sm {sm}" for sm in LIMITS) + " |\n"
    text += "|---|--:|--:|--:|" + "--:|" * len(LIMITS) + "\n"
    for kernel in table:
        used = [using.get((kernel.name, sm)) for sm in LIMITS]
        static = max(one.static for one in used if one)
        cells = [cell(kernel, one, sm) for one, sm in zip(used, LIMITS)]
        text += f"| `{kernel.name}` | {kernel.threads} | {static} | {kernel.dynamic} | {' | '.join(cells)} |\n"
    return text


def compared(hashed, table, using):
    """Whether the committed table says the same for the GPUs of HELD; `using` is None without ptxas."""
    text = TABLE.read_text() if TABLE.exists() else ""
    if hashed not in text:
        raise Problem(f"{TABLE.name} belongs to other PTX or to other launches; run scripts/resources.py")
    lines = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.M))
    if list(lines) != [kernel.name for kernel in table]:
        raise Problem(f"{TABLE.name} has not the kernels of cuda/*.ptx; run scripts/resources.py")
    for kernel in table if using is not None else []:
        cells = lines[kernel.name].split(" | ")[3:]
        for sm, found in zip(LIMITS, cells):
            expected = cell(kernel, using.get((kernel.name, sm)), sm)
            held = sm in HELD and (sm != DEPENDENT or (kernel.name, sm) in using)
            if held and found != expected:
                raise Problem(f"{TABLE.name}: {kernel.name} on sm {sm}: found {found}, expected "
                              f"{expected}; run "
                              "scripts/resources.py")


def ptxas_version():
    ran = subprocess.run([kernels.packaged("cuda_nvcc/bin/ptxas"), "--version"],
                         capture_output=True,
                         text=True)
    return re.search(r"V([\d.]+)", ran.stdout)[1]


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    if check and kernels.tomllib is None:
        print(f"SKIPPED: Python 3.11 or newer is needed (tomllib); {TABLE.name} was NOT checked",
              file=sys.stderr)
        return
    listed, launches = kernels.modules(), kernels.launches()
    table = [kernel for module in listed for kernel in declared(module, launches)]
    unknown = sorted(set(launches) - {kernel.name for kernel in table})
    if unknown:
        raise Problem(f"{kernels.LIST.name}: no module has the kernels {', '.join(unknown)} of [launch]")
    hashed = fingerprint(listed, table)
    if check and not kernels.there("cuda_nvcc/bin/ptxas"):
        print("SKIPPED: ptxas (cuda/requirements-ptxas.txt) is not here; spills and launches on sm 86, 87 "
              "and 90 were NOT "
              f"assembled again, {TABLE.name} was compared by the hash of the PTX alone", file=sys.stderr)
        return compared(hashed, table, None)
    gpus = HELD if check else LIMITS
    jobs = [(module.name, sm) for module in listed for sm in gpus if for_gpu(module, sm)]
    if check:
        marked = {module.name for module in listed if MARK in (ROOT / f"cuda/{module.name}.ptx").read_text()}
        jobs = [(name, sm) for name, sm in jobs if sm != DEPENDENT or name in marked]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        using = {(name, sm): used
                 for (_, sm), each in zip(jobs, pool.map(assembled, jobs))
                 for name, used in each.items()}
    bad = [why for kernel in table for sm in HELD if (used := using.get((kernel.name, sm)))
           for why in problems(kernel, used, sm)]
    if bad:
        raise Problem("\n".join(bad))
    if check:
        compared(hashed, table, using)
    else:
        TABLE.write_text(page(hashed, table, using, ptxas_version()))


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        sys.exit(str(problem))
