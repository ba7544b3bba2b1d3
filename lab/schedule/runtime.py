"""ONNX Runtime's shared library, as Python's package brings it."""

import importlib.util
from pathlib import Path


def onnxruntime_library():
    """That of the onnxruntime which this Python has; None without one. The package is not imported.
    """
    spec = importlib.util.find_spec("onnxruntime")
    if not (spec and spec.origin):
        return None
    return max((Path(spec.origin).parent / "capi").glob("libonnxruntime.so.1*"), default=None)
