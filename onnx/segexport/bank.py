"""Which memories and pointers a tracked frame sees: the rules, without any tensor.

Meta's `_prepare_memory_conditioned_features`, forward tracking, memory stride 1, no
limit on conditioning frames.
"""

from dataclasses import dataclass

MAX_MEMORIES, MAX_POINTERS = 7, 16


@dataclass(frozen=True)
class Selection:
    """`memories`: (frame, tidx) pairs; `pointers`: (frame, distance); `time_scale`: M - 1."""

    memories: list
    pointers: list
    time_scale: int

    def pointer_times(self):
        """ptr_t of each pointer: distance / (M - 1)."""
        return [distance / self.time_scale for _, distance in self.pointers]


def select(frame, conditioning, num_frames):
    """Selection for tracked frame `frame`, given the conditioning frames before it.

    Every earlier frame that is not conditioning is taken as tracked. A conditioning
    frame's memory has temporal row 6; frame t-k has row k-1. Pointers: conditioning
    frames first, then t-1, t-2, ... within M = min(num_frames, 16) - the original's
    quirk: in clips shorter than 16 frames both reach and time scale shrink.
    """
    reach = min(num_frames, MAX_POINTERS)
    tracked = lambda t: min(conditioning) < t < frame and t not in conditioning
    memories = [(t, MAX_MEMORIES - 1) for t in conditioning]
    for back in range(MAX_MEMORIES - 1, 0, -1):
        if tracked(frame - back):
            memories.append((frame - back, back - 1))
    pointers = [(t, frame - t) for t in conditioning if t <= frame]
    pointers += [(frame - d, d) for d in range(1, reach) if tracked(frame - d)]
    return Selection(memories, pointers, max(reach - 1, 1))
