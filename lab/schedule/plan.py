"""The whole plan."""

from .plan_bed import compiled, exports, test_bed
from .plan_bisect import bisect
from .plan_builds import engines
from .plan_compare import comparisons, masks
from .plan_rest import attentions, decoders, newcomer, rebuilds, sanitizers, selftests, speeds, sweeps

GROUPS = ("main", "attention", "cuda", "bisect", "exact", "warm")
PARTS = (test_bed, exports, compiled, engines, comparisons, masks, selftests, speeds, attentions, decoders,
         rebuilds, newcomer, sanitizers, sweeps, bisect)


def plan(settings, groups=("main",)):
    """All jobs of the groups, with what they need of others."""
    return [job for part in PARTS for job in part(settings) if job.group in groups]
