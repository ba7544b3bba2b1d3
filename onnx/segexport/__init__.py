"""Exporter of promptable video segmentation networks to static ONNX graphs.

The package cuts SAM 2.1 and EdgeTAM video predictors into the graphs of the
bundle contract (encoder, prompt, mask_prompt, track, memory) and checks them
against the original PyTorch predictors. `export.py` beside it is the command.
"""

import os
from pathlib import Path

# Before anything imports onnxruntime: its wheels of 1.29 and newer send telemetry from Linux else.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

# The version of all of segtrt, which an installed copy knows only from here. A test compares it
# with Cargo.toml.
__version__ = "0.1.0"


class ExportError(Exception):
    """A problem whose message is meant for the user, without a traceback."""


def shown(name):
    """A file of segtrt as a user types it: relative to the working directory, or its whole path."""
    path = Path(__file__).resolve().parent.parent.parent / name
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
