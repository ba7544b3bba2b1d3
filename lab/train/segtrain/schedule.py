"""What changes during training, by the share that is done: clips and learning rate.

Single frames first: outlining the clicked object must work before following it can be learnt.
Clips grow from two frames to the length after which a tracker's own mistakes feed on themselves;
of the longest only the last frames teach, the ones before are run as inference runs them.
"""

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """`until` this share; clips of `lengths` frames, `scenes` of them a step, the first `quiet`
    tracked frames untaught."""

    until: float
    lengths: tuple
    scenes: int
    quiet: int = 0


STAGES = (
    Stage(0.10, (1,), 64),
    Stage(0.20, (2, 3), 64),
    Stage(0.45, (4, 6), 64),
    Stage(0.65, (8, 12), 48),
    Stage(0.85, (16, 24), 40, quiet=6),
    Stage(1.00, (24, 32), 32, quiet=10),
)
# For a trained network: clips that are long enough for objects to meet and part again. One length
# a stage, because recording a step of another length takes a tenth of a minute.
FINISH = (
    Stage(0.40, (16,), 48, quiet=2),
    Stage(0.75, (24,), 40, quiet=6),
    Stage(1.00, (32,), 32, quiet=8),
)
SINGLE_WARM_UP, CLIPS_WARM_UP = 60, 40  # steps
FLOOR = 0.01


def stage(done, stages=STAGES):
    """The stage at share `done`."""
    return next((s for s in stages if done < s.until), stages[-1])


def learning_rate(step, done, single, clips, clips_from, stages=STAGES):
    """A warm-up and a cosine for single frames (peak `single`), and both once more for clips.

    `clips_from`: the step at which the first clip was taught, None before.
    """
    end = stages[0].until if stages[0].lengths == (1,) else 0.0
    if clips_from is None:
        return single * min(1.0, (step + 1) / SINGLE_WARM_UP) * _cosine(done / end, 0.1)
    warm = min(1.0, (step - clips_from + 1) / CLIPS_WARM_UP)
    return clips * warm * _cosine((done - end) / (1 - end), FLOOR)


def _cosine(share, floor):
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))


def clip_length(stage, step, seed):
    """Frames of the clips of step `step`."""
    return random.Random(seed * 1_000_003 + step).choice(stage.lengths)
