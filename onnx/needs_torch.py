"""What most of the exporter's tests need; without it a test's module that imports this first is
skipped, loudly."""

import sys
import unittest

try:
    import torch
    import onnx, onnxruntime, safetensors, scipy
except ImportError as missing:
    print(f"SKIPPED: {missing}; the exporter's tests need it: pip install -r onnx/requirements.txt",
          file=sys.stderr)
    raise unittest.SkipTest(str(missing)) from missing
