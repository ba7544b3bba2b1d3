"""Exporter of promptable video segmentation networks to static ONNX graphs.

The package cuts SAM 2.1 and EdgeTAM video predictors into the graphs of the
bundle contract (encoder, prompt, mask_prompt, track, memory) and checks them
against the original PyTorch predictors. `export.py` beside it is the command.
"""

import os

# Before anything imports onnxruntime: its wheels of 1.29 and newer send telemetry from Linux else.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

__version__ = "0.1.0"


class ExportError(Exception):
    """A problem whose message is meant for the user, without a traceback."""
