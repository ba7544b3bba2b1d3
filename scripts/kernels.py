#!/usr/bin/env python3
"""Compiles cuda/*.cu to the committed cuda/*.ptx with NVRTC. ptxas then lists registers and
shared memory of each kernel. No GPU is needed.

    python3 -m venv v && v/bin/pip install nvidia-cuda-nvcc-cu12==12.9.86
    v/bin/pip install --target v/nvrtc-11 -r cuda/requirements-nvrtc-11.txt
    v/bin/pip install --target v/nvrtc-12 -r cuda/requirements-nvrtc-12.txt
    export PYTHONPATH=v/nvrtc-11:v/nvrtc-12
    v/bin/python scripts/kernels.py            # rewrite cuda/*.ptx, then assemble them
v/bin/python scripts/kernels.py --check    # compare with the committed files; writes nothing, needs
no nvcc

cuda/kernels.toml lists the modules and their options. NVRTC 11.8 writes PTX ISA 7.8, which every driver
from CUDA 11.8 on loads: machines with TensorRT 8.6, JetPack 6 and later. compute_75 is the oldest
architecture among the GPUs of the platform table. ptxas 12.9 compiles it for sm_80, 86, 89, 90 and 120
to the same machine code as compute_80. The instructions of attention need compute_80. Those of Hopper
(wgmma) need compute_90a and NVRTC 12.2: PTX 8.2, for drivers from CUDA 12.2 on. No module has line
information, which makes PTX up to twice as long.
"""
import collections
import concurrent.futures
import ctypes
import hashlib
import itertools
import os
import pathlib
import platform
import re
import string
import subprocess
import sys
import typing

try:
    import tomllib
except ModuleNotFoundError:
    tomllib = None

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "cuda/kernels.toml"
# Processors for which NVIDIA has wheels of both compilers: as in cuda/requirements-nvrtc-*.txt.
WHEELS = {"x86_64", "aarch64"}


class Problem(Exception):
    """What is wrong, in words."""


class Module(typing.NamedTuple):
    """A source, and how it is compiled."""

    name: str
    source: str
    headers: list
    nvrtc: tuple
    options: list
    architectures: list


def modules():
    """Those of the list, in its order."""
    listed = tomllib.loads(LIST.read_text())
    found = []
    for name, module in listed["module"].items():
        generation = listed["generation"][module["generation"]]
        nvrtc = tuple(int(number) for number in generation["nvrtc"].split("."))
        options = generation["options"] + [f"-D{define}" for define in module.get("defines", [])]
        architectures = generation["architectures"]
        found.append(Module(name, module["source"], module["headers"], nvrtc, options, architectures))
    return found


def launches():
    """What launches ask for that no source says: {kernel: {"threads", "shared"}}."""
    return tomllib.loads(LIST.read_text())["launch"]


def there(pattern):
    """The files of NVIDIA's Python packages that match."""
    return [
        path for folder in map(pathlib.Path, sys.path) for path in sorted(folder.glob(f"nvidia/{pattern}"))
    ]


def packaged(pattern):
    """A file of one of NVIDIA's Python packages."""
    for path in there(pattern):
        return path
    raise Problem(f"no nvidia/{pattern} among this Python's packages; install those that the head of "
                  f"{__file__} "
                  "names")


def open_nvrtc(version):
    library = ctypes.CDLL(str(packaged(f"cuda_nvrtc/lib/libnvrtc.so.{version[0]}*")))
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    if (major.value, minor.value) != version:
        raise Problem(f"NVRTC {major.value}.{minor.value} was found, {version[0]}.{version[1]} is expected; "
                      f"install cuda/requirements-nvrtc-{version[0]}.txt as the head of {__file__} says")
    return library


def text_of(library, program, size, get):
    length = ctypes.c_size_t()
    getattr(library, size)(program, ctypes.byref(length))
    text = ctypes.create_string_buffer(length.value)
    getattr(library, get)(program, text)
    return text.value.decode()


# NVRTC's comments about inline statements, shared variables and names are a fifth of the text.
REMARK = re.compile(r"^\s*// (?:(?:begin|end) inline asm|\.globl\s.*|demoted variable|\w+ has been "
                    r"demoted)\n", re.M)
# NVRTC declares each constexpr of a source as a variable, even if no instruction uses it.
VARIABLE = re.compile(r"^\.global \.align \d+ \.(\w+) (\w+)(?:\[\d+\])?(?: = ([^;]*))?;\n", re.M)


# A register needs no percent sign and one letter: a tenth of the text.
REGISTER = re.compile(r"%(r?[dfprs])(?=[0-9<])")


def short_registers(ptx):
    """The same PTX with `f1` for `%f1`, `d1` for `%rd1`."""
    short = lambda register: register[1][-1]
    taken = {short(register) for register in REGISTER.finditer(ptx)}
    if clash := re.search(rf"(?<![\w$%.])[{''.join(taken)}]\d+\b", ptx):
        raise Problem(f"the PTX has a name {clash[0]}, which a register would get")
    return REGISTER.sub(short, ptx)


# Most kernels have thousands of registers. With names of a letter or two and two digits the text was
# 10 to 16 % shorter than with numbers of up to five digits, in the three modules that were compared.
REGISTERS = re.compile(r"^\s*\.reg (\.\w+)\s+([dfprs])<(\d+)>;\n", re.M)
GROUP = 100
# Beginnings of other names: of parameters, labels, opcodes with a digit (`ex2`, `lg2`) and types.
NO_PREFIX = {"a", "L", "ex", "lg", "bf", "tf"}


def prefixes():
    """Letters and pairs of letters in front of a register's two digits."""
    letters = string.ascii_letters
    names = itertools.chain(letters, map("".join, itertools.product(letters, letters)))
    return (name for name in names if name not in NO_PREFIX)


# A block with registers of its own, which NVRTC makes of `__syncthreads_or`. They may have the names of
# the kernel's registers.
BLOCK = re.compile(r"^\s*\{\s*\n(?:\s*\.reg \.\w+\s+\w+;\s*\n)+.*?^\s*\}\s*$", re.M | re.S)
OF_BLOCK = re.compile(r"^\s*\.reg \.\w+\s+(\w+);", re.M)


def own_registers(block):
    """The same block with `p1_` for its own register `p1`, which no kernel's register is called."""
    names = OF_BLOCK.findall(block[0])
    return re.sub(rf"(?<![\w$%.])({'|'.join(names)})\b", r"\1_", block[0]) if names else block[0]


def short_numbers(ptx):
    """The same PTX whose kernels call their registers `b0` to `b99`, `c0` to `c99` and so on."""
    bodies = re.split(r"(?=^\.(?:visible|entry|extern|func)\b)", ptx, flags=re.M)
    return "".join(map(short_numbers_of_kernel, bodies))


def short_numbers_of_kernel(ptx):
    """The same for one kernel, whose registers no other one knows."""
    unused, groups = prefixes(), {}
    ptx = BLOCK.sub(own_registers, ptx)
    if hidden := re.search(r"^\s*\.reg \.\w+\s+[A-Za-z]{1,2}\d+;", ptx, re.M):
        raise Problem(f"the PTX declares {hidden[0].strip()} in a block, where another register would get "
                      "its name")
    if clash := re.search(r"(?<![\w$%.<])(?![dfprsaL])[A-Za-z]{1,2}\d{1,2}\b(?!\.)", ptx):
        raise Problem(f"the PTX has a name {clash[0]}, which a register would get")

    def declare(declared):
        kind, letter, count = declared[1], declared[2], int(declared[3])
        groups[letter] = [next(unused) for _ in range(0, count, GROUP)]
        sizes = [min(GROUP, count - at) for at in range(0, count, GROUP)]
        names = ",".join(f"{name}<{size}>" for name, size in zip(groups[letter], sizes))
        return f".reg {kind} {names};\n"

    ptx = REGISTERS.sub(declare, ptx)
    if not groups:
        return ptx

    def rename(register):
        number = int(register[2])
        return f"{groups[register[1]][number // GROUP]}{number % GROUP}"

    body = re.compile(rf"(?<![\w$%.])([{''.join(groups)}])(\d+)\b")
    lines = ptx.splitlines(keepends=True)
    return "".join(line if line.lstrip().startswith(".reg") else body.sub(rename, line) for line in lines)


# Labels and parameters are known inside their kernel alone: short names are another fiftieth.
LABEL = re.compile(r"\$L__BB(\d+_\d+)\b")
PARAMETER = re.compile(r"\b\w+_param_(\d+)\b")


def short_names(ptx):
    """The same PTX with `L0_1` for `$L__BB0_1`, and `a2` for `kernel_param_2`."""
    if clash := re.search(r"(?<![\w$%.])(a\d+|L\d+_\d+)\b", ptx):
        raise Problem(f"the PTX has a name {clash[0]}, which a parameter or a label would get")
    return PARAMETER.sub(r"a\1", LABEL.sub(r"L\1", ptx))


# Characters of a line of instructions: a line for each would be a thirtieth of the text.
LINE = 160


def joined(lines):
    """Instructions side by side, up to LINE characters. What readers look for keeps a line of its own:
    directives, comments, labels, ends of kernels, and waits for other kernels."""
    open_line = ""
    for line in lines:
        inline = line.startswith("{ ") and line.endswith("}")
        alone = line.startswith((".", "//", "griddepcontrol")) or not (line.endswith(";") or inline)
        if open_line and (alone or len(open_line) + len(line) > LINE):
            yield open_line
            open_line = ""
        if alone:
            yield line
        else:
            open_line += line
    if open_line:
        yield open_line


def constant_name(symbol):
    """The name of a constant, `Widen::SHARED`; None for a member of a template or of CUDA's headers."""
    if not symbol.startswith("_ZN"):
        return symbol
    parts, rest = [], symbol[3:]
    while number := re.match(r"\d+", rest):
        start = number.end()
        end = start + int(number[0])
        parts.append(rest[start:end])
        rest = rest[end:]
    if rest != "E" or "nv" in parts:
        return None
    unnamed = ("_INTERNAL_", "_GLOBAL__N_")
    return "::".join(part for part in parts if not part.startswith(unnamed))


def compact(ptx):
    """The constants of a module as comments, which crates/kernels/build.rs reads: integers of 0 or more.
    Then its PTX, without unused variables and unneeded space."""
    ptx = REMARK.sub("", ptx)
    words = collections.Counter(re.findall(r"[\w$]+", ptx))
    constants = []

    def keep_used(variable):
        kind, symbol, value = variable.groups()
        if words[symbol] > 1:
            return variable[0]
        name = constant_name(symbol)
        if name and kind == "u32" and not (value or "").startswith("-"):
            constants.append(f"// {name} = {value or 0}")
        return ""

    ptx = VARIABLE.sub(keep_used, ptx)
    ptx = short_names(short_numbers(short_registers(ptx)))
    lines = (re.sub(r"[ \t]+", " ", line).replace(", ", ",").strip() for line in ptx.splitlines())
    return [*constants, *joined(filter(None, lines))]


def compile_ptx(module):
    """The PTX of a module, below a header that says what it was made from."""
    library, name = open_nvrtc(module.nvrtc), module.source
    headers = [(ROOT / "cuda" / header).read_bytes() for header in module.headers]
    source = (ROOT / "cuda" / name).read_bytes()
    program = ctypes.c_void_p()
    strings = ctypes.c_char_p * len(headers)
    names = [header.encode() for header in module.headers]
    library.nvrtcCreateProgram(ctypes.byref(program), source, f"cuda/{name}".encode(), len(headers),
                               strings(*headers), strings(*names))
    options = (ctypes.c_char_p * len(module.options))(*[option.encode() for option in module.options])
    failed = library.nvrtcCompileProgram(program, len(module.options), options)
    log = text_of(library, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").strip()
    if failed:
        raise Problem(f"cuda/{name} does not compile as the module {module.name}:\n{log}")
    if log:
        print(log, flush=True)
    ptx = text_of(library, program, "nvrtcGetPTXSize", "nvrtcGetPTX")
    digest = hashlib.sha256(b"".join([*headers, source])).hexdigest()
    return "\n".join([
        f"// Made from {', '.join([*module.headers, name])} by scripts/kernels.py; not to be edited.",
        f"// sha256 of these, one after the other: {digest}",
        f"// NVRTC {module.nvrtc[0]}.{module.nvrtc[1]} {' '.join(module.options)}",
        *compact(ptx),
        "",
    ])


def assemble(module):
    """Registers, shared memory and spills of each kernel on each architecture, a line each."""
    ptxas, lines = packaged("cuda_nvcc/bin/ptxas"), []
    for sm in module.architectures:
        command = [ptxas, "-v", f"-arch=sm_{sm}", ROOT / f"cuda/{module.name}.ptx", "-o", "/dev/null"]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            raise Problem(f"ptxas refuses cuda/{module.name}.ptx for sm_{sm}:\n{ran.stderr}")
        name, stack = "?", "?"
        for line in ran.stderr.splitlines():
            if entry := re.search(r"Compiling entry function '(\w+)'", line):
                name = entry[1]
            elif "spill stores" in line:
                stack = line.strip()
            elif used := re.search(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?", line):
                uses = f"{used[1]:>3} registers {used[2] or 0:>6} B shared"
                lines.append(f"sm_{sm:<4} {name:<24} {uses}, {stack}")
    return lines


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    why_not = None
    if tomllib is None:
        why_not = f"Python 3.11 or newer is needed (tomllib), this is {platform.python_version()}"
    elif sys.platform != "linux" or platform.machine() not in WHEELS:
        why_not = f"NVIDIA has no NVRTC for {sys.platform} on {platform.machine()}"
    if why_not and check:
        print(f"SKIPPED: {why_not}; whether cuda/*.cu compiles to cuda/*.ptx was NOT checked",
              file=sys.stderr)
        return
    if why_not:
        raise Problem(why_not)
    listed = modules()
    paths = [ROOT / f"cuda/{module.name}.ptx" for module in listed]
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        compiled = list(pool.map(compile_ptx, listed))
        stray = sorted(set((ROOT / "cuda").glob("*.ptx")) - set(paths))
        if stray:
            names = ", ".join(path.name for path in stray)
            raise Problem(f"{names}: no module of {LIST.name}; remove it, or list it")
        if check:
            differs = lambda path, ptx: not path.exists() or path.read_text() != ptx
            stale = [path.name for path, ptx in zip(paths, compiled) if differs(path, ptx)]
            if stale:
                raise Problem(f"{', '.join(stale)}: not what the sources compile to; run scripts/kernels.py")
            return
        for path, ptx in zip(paths, compiled):
            path.write_text(ptx)
        for lines in pool.map(assemble, listed):
            print("\n".join(lines))


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        sys.exit(str(problem))
