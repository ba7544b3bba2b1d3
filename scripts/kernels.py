#!/usr/bin/env python3
"""Compiles cuda/*.cu to the committed cuda/*.ptx with NVRTC, and shows what ptxas makes of them. Needs no GPU.

    python3 -m venv v && v/bin/pip install nvidia-cuda-nvrtc-cu11==11.8.89 nvidia-cuda-nvcc-cu12==12.9.86
    v/bin/python scripts/kernels.py            # rewrite cuda/*.ptx, then assemble them for every architecture
    v/bin/python scripts/kernels.py --check    # compile and compare with what is committed; nothing is written

NVRTC 11.8 writes PTX ISA 7.8, which every driver from CUDA 11.8 on loads: TensorRT 8.6 machines, JetPack 6, and
whatever comes later. compute_80 is the oldest architecture of the platform table's GPUs.
"""
import ctypes
import hashlib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOPICS = ["preprocess", "mask", "memory"]
VERSION = (11, 8)
OPTIONS = ["--gpu-architecture=compute_80", "--std=c++17", "-lineinfo"]
ARCHITECTURES = [80, 86, 87, 89, 90, 100, 120]


def packaged(pattern):
    """A file of one of NVIDIA's Python packages."""
    for folder in map(pathlib.Path, sys.path):
        found = sorted(folder.glob(f"nvidia/{pattern}"))
        if found:
            return found[0]
    sys.exit(f"no nvidia/{pattern} among this Python's packages; install what the head of {__file__} names")


def open_nvrtc():
    library = ctypes.CDLL(str(packaged("cuda_nvrtc/lib/libnvrtc.so.11*")))
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    if (major.value, minor.value) != VERSION:
        sys.exit(f"NVRTC {major.value}.{minor.value} was found, {VERSION[0]}.{VERSION[1]} is expected")
    return library


def text_of(library, program, size, get):
    length = ctypes.c_size_t()
    getattr(library, size)(program, ctypes.byref(length))
    text = ctypes.create_string_buffer(length.value)
    getattr(library, get)(program, text)
    return text.value.decode()


def compile_ptx(library, topic):
    """The PTX of a topic, below a header that says what it was made from."""
    common = (ROOT / "cuda/common.cuh").read_bytes()
    source = (ROOT / f"cuda/{topic}.cu").read_bytes()
    program = ctypes.c_void_p()
    strings = ctypes.c_char_p * 1
    library.nvrtcCreateProgram(ctypes.byref(program), source, f"cuda/{topic}.cu".encode(), 1, strings(common),
                               strings(b"common.cuh"))
    options = (ctypes.c_char_p * len(OPTIONS))(*[option.encode() for option in OPTIONS])
    failed = library.nvrtcCompileProgram(program, len(OPTIONS), options)
    log = text_of(library, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").strip()
    if log:
        print(log)
    if failed:
        sys.exit(f"cuda/{topic}.cu does not compile")
    ptx = text_of(library, program, "nvrtcGetPTXSize", "nvrtcGetPTX")
    return "\n".join([
        f"// Made from common.cuh and {topic}.cu by scripts/kernels.py; not to be edited.",
        f"// sha256 of both, one after the other: {hashlib.sha256(common + source).hexdigest()}",
        f"// NVRTC {VERSION[0]}.{VERSION[1]} {' '.join(OPTIONS)}",
        ptx.strip(),
        "",
    ])


def assemble(topic):
    """Prints registers, shared memory and spills of each kernel on each architecture."""
    ptxas = packaged("cuda_nvcc/bin/ptxas")
    for sm in ARCHITECTURES:
        command = [ptxas, "-v", f"-arch=sm_{sm}", ROOT / f"cuda/{topic}.ptx", "-o", "/dev/null"]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"ptxas refuses cuda/{topic}.ptx for sm_{sm}:\n{ran.stderr}")
        name, stack = "?", "?"
        for line in ran.stderr.splitlines():
            if entry := re.search(r"Compiling entry function '(\w+)'", line):
                name = entry[1]
            elif "spill stores" in line:
                stack = line.strip()
            elif used := re.search(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?", line):
                print(f"sm_{sm:<4} {name:<24} {used[1]:>3} registers {used[2] or 0:>6} B shared, {stack}")


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    library, stale = open_nvrtc(), []
    for topic in TOPICS:
        ptx, path = compile_ptx(library, topic), ROOT / f"cuda/{topic}.ptx"
        if check and path.read_text() != ptx:
            stale.append(path.name)
        if not check:
            path.write_text(ptx)
    if stale:
        sys.exit(f"{', '.join(stale)}: not what the sources compile to; run scripts/kernels.py")
    for topic in TOPICS:
        assemble(topic)


if __name__ == "__main__":
    main()
