"""What changes during training: learning rate and clip length, by the share that is done.

Short clips first: segmenting a clicked object must work before following it can be
learnt. The number of frames in a batch stays the same, so memory and time do too.
"""

import math
import random

# (up to this share of the training, possible clip lengths)
CURRICULUM = ((0.25, (2,)), (0.4, (4,)), (0.85, (4, 6, 8)), (1.0, (12, 16)))


def learning_rate(step, done, peak, warm_up):
    """Linear warm-up over `warm_up` steps, then a cosine from `peak` to a hundredth of it."""
    floor = 0.01
    cosine = floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return peak * min(1.0, (step + 1) / warm_up) * cosine


def clip_length(step, done, seed, longest):
    """Frames of the clips of step `step`, at most `longest`."""
    lengths = next(lengths for end, lengths in CURRICULUM if done <= end or end == 1.0)
    return min(longest, random.Random(seed * 1_000_003 + step).choice(lengths))
