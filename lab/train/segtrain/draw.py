"""Random numbers for scenes: one generator, results on the training device.

Training draws on the device itself (no copies, no waiting). The held-out clips draw on
the CPU, so that they are the same clips on every device.
"""

import torch


class Draw:
    """A seeded stream of random tensors."""

    def __init__(self, seed, device, on_cpu=False):
        self.device = torch.device(device)
        self.generator = torch.Generator("cpu" if on_cpu else self.device)
        self.generator.manual_seed(seed)
        self._constants = {}

    def constant(self, values):
        """A tensor of fixed numbers; made once, because every copy to a device waits for it."""
        if values not in self._constants:
            self._constants[values] = torch.tensor(values, device=self.device)
        return self._constants[values]

    def between(self, low, high, *shape):
        """Uniform in [low, high)."""
        unit = torch.rand(shape, generator=self.generator, device=self.generator.device)
        return low + (high - low) * unit.to(self.device)

    def normal(self, *shape):
        """Standard normal."""
        return torch.randn(shape, generator=self.generator, device=self.generator.device).to(self.device)

    def below(self, bound, *shape):
        """Uniform integer in 0..bound; `bound` a number or a tensor of that shape."""
        return (self.between(0, 1, *shape) * bound).long()

    def chance(self, share, *shape):
        """True with probability `share`."""
        return self.between(0, 1, *shape) < share

    def sign(self, *shape):
        """-1 or 1."""
        return self.chance(0.5, *shape).float() * 2 - 1
