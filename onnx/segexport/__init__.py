"""Exporter of promptable video segmentation networks to static ONNX graphs.

The package cuts SAM 2.1 and EdgeTAM video predictors into the graphs of the
bundle contract (encoder, prompt, mask_prompt, track, memory) and checks them
against the original PyTorch predictors. `export.py` beside it is the command.
"""

__version__ = "0.1.0"


class ExportError(Exception):
    """A problem whose message is meant for the user, without a traceback."""
