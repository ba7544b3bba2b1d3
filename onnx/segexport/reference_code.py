"""Finds the original PyTorch code of each model family.

Meta's SAM 2 and Meta's EdgeTAM are both importable as `sam2`, so one process
can hold only one of them. SAM 2 comes from the environment (pip's `sam2`);
EdgeTAM from a folder of its own: `--edgetam-src`, the environment variable
EDGETAM_SRC, or `.edgetam` beside `export.py` (README, "Install").
"""

import importlib.metadata
import os
import sys
import types
from pathlib import Path

from . import ExportError, shown

_HOME = Path(__file__).resolve().parent.parent


def edgetam_source(flag=None):
    """The folder that holds EdgeTAM's `sam2` package."""
    for place in (flag, os.environ.get("EDGETAM_SRC"), _HOME / ".edgetam"):
        if place and (Path(place) / "sam2" / "modeling" / "perceiver.py").is_file():
            return Path(place)
    raise ExportError(
        "EdgeTAM's source was not found (looked at --edgetam-src, $EDGETAM_SRC and "
        f"{_HOME / '.edgetam'}): install it with "
        f"`pip install --no-deps --target {shown('onnx/.edgetam')} -r {shown('pytorch/requirements-edgetam.txt')}`"
    )


def activate(family, edgetam_src=None):
    """Makes `import sam2` mean the code of `family`; returns its name and version.

    Raises ExportError when the other family's code is already imported or none is
    installed.
    """
    wants_edgetam = family == "edgetam"
    if wants_edgetam:
        root = edgetam_source(edgetam_src)
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
    _hide_video_readers()
    try:
        import sam2
    except ImportError as error:
        raise ExportError(
            f"Meta's SAM 2 code is not importable ({error}): install {shown('onnx/requirements.txt')}"
        ) from error
    has_perceiver = (Path(sam2.__path__[0]) / "modeling" / "perceiver.py").is_file()
    if has_perceiver != wants_edgetam:
        raise ExportError(
            f"another package named `sam2` ({sam2.__path__[0]}) is in the way of the "
            f"{family} code: run each model family in a process of its own"
        )
    if wants_edgetam:
        return f"edgetam-dimos {_dist_version('edgetam-dimos', root)}"
    return f"sam2 {_dist_version('sam2')}"


def _dist_version(name, root=None):
    """Version of a distribution, also of one unpacked in `root`."""
    found = list(
        importlib.metadata.distributions(name=name, path=[str(root)])
        if root
        else importlib.metadata.distributions(name=name)
    )
    return found[0].version if found else "unknown"


def _hide_video_readers():
    """Stubs modules that Meta imports at load time but that the export never calls."""
    if "iopath.common.file_io" in sys.modules:
        return
    try:
        import iopath.common.file_io  # noqa: F401
    except ImportError:
        stub = types.ModuleType("iopath.common.file_io")
        stub.g_pathmgr = None
        sys.modules["iopath"] = types.ModuleType("iopath")
        sys.modules["iopath.common"] = types.ModuleType("iopath.common")
        sys.modules["iopath.common.file_io"] = stub
