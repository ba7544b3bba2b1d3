"""What torch.compile made, in one file that travels to another machine of the same kind.

Inductor's cache folder holds every kernel that max-autotune tried, gigabytes of them; PyTorch's own artifacts
(`torch.compiler.save_cache_artifacts`) hold what was chosen. The file is PyTorch's and is unpickled
by it: one from a stranger is as good as a program of his.
"""

import lzma
import os

import torch


def read(path, say):
    """Gives PyTorch what the file holds; false where there is none. What does not fit this machine
    is compiled all the same."""
    if not path.exists():
        return False
    try:
        info = torch.compiler.load_cache_artifacts(lzma.decompress(path.read_bytes()))
        why = "PyTorch's warning says why" if info is None else None
    except Exception as error:  # releases differ in what they raise and in what they warn of
        why = f"{type(error).__name__}: {error}"
    if why:
        say(f"{path} is not taken ({why}); compiling without it")
    else:
        say(f"{path}: {_in_words(info)} taken")
    return True


def write(path, say):
    """Writes what this process compiled or found compiled, whole or not at all."""
    saved = torch.compiler.save_cache_artifacts()
    if saved is None:
        say(f"{path} is not written: PyTorch has nothing to keep")
        return
    data, info = saved
    # Those of SAM 2.1's sides on an H200 are 37 to 56 MB, much of it machine code.
    data = lzma.compress(data, preset=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(data)
    part.replace(path)
    say(f"{path}: {_in_words(info)} kept, {len(data) / 1e6:.1f} MB")


def _in_words(info):
    """"38 inductor, 12 aot_autograd"; PyTorch's releases name different kinds."""
    kinds = getattr(info, "artifacts", None)
    if not isinstance(kinds, dict):
        return "artifacts"
    return ", ".join(
        f"{len(names)} {kind}" for kind, names in sorted(kinds.items()) if names) or "no artifacts"
