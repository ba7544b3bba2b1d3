"""Training of small networks: edgetam_mini on synthetic clips, and test networks on given clips.

Importing this package also puts `onnx/`, where the exporter's `segexport` lies, on Python's path.
The package is separate from the exporter because a bundle needs weights, not the way they were
found.
"""

import sys
from pathlib import Path

_EXPORTER = Path(__file__).resolve().parents[3] / "onnx"
if str(_EXPORTER) not in sys.path:
    sys.path.insert(0, str(_EXPORTER))
