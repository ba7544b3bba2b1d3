"""The tensors of a trunk's layers as its file of weights has them."""

import numpy as np

from . import ExportError

# Types of a layer's weight and bias.
FLOAT, HALF, MIXED = (np.float32, np.float32), (np.float16, np.float16), (np.float16, np.float32)
LARGEST_HALF = 65504.0


class Layers:
    """`found`: name -> array."""

    def __init__(self):
        self.found = {}

    def put(self, name, weight, bias, kinds):
        """Adds NAME.weight and NAME.bias in these types."""
        for part, value, kind in zip(("weight", "bias"), (weight, bias), kinds):
            self._put(f"{name}.{part}", value, kind)

    def put_half(self, name, value):
        """Adds a tensor of another kind, in f16."""
        self._put(name, value, np.float16)

    def _put(self, name, value, kind):
        value = value.detach().float().numpy()
        if kind == np.float16 and np.abs(value).max() > LARGEST_HALF:
            raise ExportError(f"{name} has values beyond f16's largest, {LARGEST_HALF}; export with "
                              f"--encoder engine")
        self.found[name] = np.ascontiguousarray(value.astype(kind))
