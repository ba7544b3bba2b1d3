#!/usr/bin/env python3
"""Compiles cuda/*.cu to the committed cuda/*.ptx with NVRTC, and shows what ptxas makes of them. Needs no GPU.

    python3 -m venv v && v/bin/pip install nvidia-cuda-nvrtc-cu11==11.8.89 nvidia-cuda-nvcc-cu12==12.9.86
    v/bin/pip install --target v/hopper nvidia-cuda-nvrtc-cu12==12.2.140
    PYTHONPATH=v/hopper v/bin/python scripts/kernels.py            # rewrite cuda/*.ptx, then assemble them
    PYTHONPATH=v/hopper v/bin/python scripts/kernels.py --check    # compare with what is committed; nothing is written

NVRTC 11.8 writes PTX ISA 7.8, which every driver from CUDA 11.8 on loads: TensorRT 8.6 machines, JetPack 6, and
whatever comes later. compute_75 is the oldest architecture of the platform table's GPUs: the machine code that
ptxas 12.9 makes of it for sm_80, 86, 89, 90 and 120 is the same as from compute_80. Attention's instructions begin with
compute_80, Hopper's own (wgmma) need compute_90a and NVRTC 12.2: PTX 8.2, for drivers from CUDA 12.2 on.
"""
import ctypes
import hashlib
import pathlib
import re
import subprocess
import sys
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Topic(typing.NamedTuple):
    """A source, and how it is compiled."""

    name: str
    headers: list
    nvrtc: tuple
    options: list
    architectures: list


TURING = ["--gpu-architecture=compute_75", "--std=c++17"]
AMPERE = ["--gpu-architecture=compute_80", "--std=c++17"]
HOPPER = ["--gpu-architecture=compute_90a", "--std=c++17"]
FROM_AMPERE_ON = ["80", "86", "87", "89", "90", "100", "120"]
FROM_TURING_ON = ["75", *FROM_AMPERE_ON]
TOPICS = [
    *(Topic(name, ["common.cuh"], (11, 8), [*TURING, "-lineinfo"], FROM_TURING_ON)
      for name in ("preprocess", "mask", "memory")),
    # Every line of these would name a dozen inlined places: line information doubles them.
    Topic("attention", ["attention.cuh"], (11, 8), AMPERE, FROM_AMPERE_ON),
    Topic("trunk", ["common.cuh", "halves.cuh", "gelu.cuh", "normalize.cuh"], (11, 8), [*AMPERE, "-lineinfo"], FROM_AMPERE_ON),
    Topic("trunk_hopper", ["common.cuh", "halves.cuh", "normalize.cuh", "wgmma.cuh"], (12, 2), HOPPER, ["90a"]),
    Topic("windows", ["attention.cuh", "windows.cuh"], (11, 8), AMPERE, FROM_AMPERE_ON),
    Topic("windows_hopper", ["attention.cuh", "windows.cuh", "wgmma.cuh"], (12, 2), HOPPER, ["90a"]),
    Topic("keys", ["attention.cuh", "halves.cuh"], (11, 8), AMPERE, FROM_AMPERE_ON),
    Topic("decoder_image", ["attention.cuh", "decoder_image.cuh"], (11, 8), AMPERE, FROM_AMPERE_ON),
    Topic("decoder_masks", ["attention.cuh", "halves.cuh", "gelu.cuh"], (11, 8), AMPERE, FROM_AMPERE_ON),
    Topic("decoder_tokens", ["attention.cuh", "halves.cuh", "decoder_tokens.cuh"], (11, 8), AMPERE, FROM_AMPERE_ON),
    Topic("decoder_heads", ["attention.cuh"], (11, 8), AMPERE, FROM_AMPERE_ON),
    Topic("memory_mask", ["attention.cuh", "halves.cuh", "gelu.cuh", "memory_widen.cuh"], (11, 8), AMPERE, FROM_AMPERE_ON),
    Topic("memory_join", ["attention.cuh", "halves.cuh", "gelu.cuh"], (11, 8), AMPERE, FROM_AMPERE_ON),
    Topic("memory_blocks", ["attention.cuh", "halves.cuh", "gelu.cuh", "memory_blocks.cuh"], (11, 8), AMPERE, FROM_AMPERE_ON),
    Topic("latents", ["attention.cuh", "halves.cuh", "gelu.cuh", "latents.cuh"], (11, 8), AMPERE, FROM_AMPERE_ON),
    Topic("latent_windows", ["attention.cuh", "halves.cuh", "gelu.cuh", "latent_windows.cuh"], (11, 8), AMPERE, FROM_AMPERE_ON),
    Topic("attention_hopper", ["attention.cuh", "wgmma.cuh"], (12, 2), HOPPER, ["90a"]),
    Topic("products_hopper", ["common.cuh", "halves.cuh", "gelu.cuh", "wgmma.cuh", "tiles.cuh"], (12, 2), HOPPER, ["90a"]),
    Topic("norms_hopper", ["common.cuh", "halves.cuh", "wgmma.cuh", "tiles.cuh"], (12, 2), HOPPER, ["90a"]),
]


def packaged(pattern):
    """A file of one of NVIDIA's Python packages."""
    for folder in map(pathlib.Path, sys.path):
        found = sorted(folder.glob(f"nvidia/{pattern}"))
        if found:
            return found[0]
    sys.exit(f"no nvidia/{pattern} among this Python's packages; install what the head of {__file__} names")


def open_nvrtc(version):
    library = ctypes.CDLL(str(packaged(f"cuda_nvrtc/lib/libnvrtc.so.{version[0]}*")))
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    if (major.value, minor.value) != version:
        sys.exit(f"NVRTC {major.value}.{minor.value} was found, {version[0]}.{version[1]} is expected")
    return library


def text_of(library, program, size, get):
    length = ctypes.c_size_t()
    getattr(library, size)(program, ctypes.byref(length))
    text = ctypes.create_string_buffer(length.value)
    getattr(library, get)(program, text)
    return text.value.decode()


def compile_ptx(topic):
    """The PTX of a topic, below a header that says what it was made from."""
    library, name = open_nvrtc(topic.nvrtc), f"{topic.name}.cu"
    headers = [(ROOT / "cuda" / header).read_bytes() for header in topic.headers]
    source = (ROOT / "cuda" / name).read_bytes()
    program = ctypes.c_void_p()
    strings = ctypes.c_char_p * len(headers)
    library.nvrtcCreateProgram(ctypes.byref(program), source, f"cuda/{name}".encode(), len(headers), strings(*headers),
                               strings(*[header.encode() for header in topic.headers]))
    options = (ctypes.c_char_p * len(topic.options))(*[option.encode() for option in topic.options])
    failed = library.nvrtcCompileProgram(program, len(topic.options), options)
    log = text_of(library, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").strip()
    if log:
        print(log)
    if failed:
        sys.exit(f"cuda/{name} does not compile")
    ptx = text_of(library, program, "nvrtcGetPTXSize", "nvrtcGetPTX")
    # Line information names files from where the compiler was started.
    ptx = ptx.replace(f'"{pathlib.Path.cwd()}/', '"')
    return "\n".join([
        f"// Made from {', '.join([*topic.headers, name])} by scripts/kernels.py; not to be edited.",
        f"// sha256 of these, one after the other: {hashlib.sha256(b''.join([*headers, source])).hexdigest()}",
        f"// NVRTC {topic.nvrtc[0]}.{topic.nvrtc[1]} {' '.join(topic.options)}",
        ptx.strip(),
        "",
    ])


def assemble(topic):
    """Prints registers, shared memory and spills of each kernel on each architecture."""
    ptxas = packaged("cuda_nvcc/bin/ptxas")
    for sm in topic.architectures:
        command = [ptxas, "-v", f"-arch=sm_{sm}", ROOT / f"cuda/{topic.name}.ptx", "-o", "/dev/null"]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"ptxas refuses cuda/{topic.name}.ptx for sm_{sm}:\n{ran.stderr}")
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
    stale = []
    for topic in TOPICS:
        ptx, path = compile_ptx(topic), ROOT / f"cuda/{topic.name}.ptx"
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
