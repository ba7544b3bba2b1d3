/*!
The frames of a pass with equal work, which should take equal time.

An object's frames are counted from its own first one, wherever in the clip that lies: until its
memory is full, each frame attends to more than the last. Objects that are tracked together share
each frame's time, so a frame is other work as well when another object begins, until that one's
memory is full too, and when one ends.
*/

use crate::record::FrameTimes;

/// The longest stretch of frames over which the same number of objects was tracked, all with full
/// memories; a memory is full after `filling` frames. Of two that are as long the first. One object
/// that ends on the frame before another begins is not seen.
pub(super) fn stretch(frames: &[FrameTimes], filling: usize) -> &[FrameTimes] {
    let mut longest: &[FrameTimes] = &[];
    let mut full_from = filling;
    let mut begin = 0_usize;
    for company in frames.chunk_by(|a, b| a.objects == b.objects) {
        let before = begin.checked_sub(1).and_then(|at| frames.get(at));
        let now = company.first().and_then(|frame| frame.objects);
        if before.is_some_and(|before| now > before.objects) {
            full_from = begin + filling;
        }
        let full = company.get(full_from.saturating_sub(begin)..).unwrap_or_default();
        if full.len() > longest.len() {
            longest = full;
        }
        begin += company.len();
    }
    longest
}

/// Whether objects began or ended in the middle of the pass.
pub(super) fn changes(frames: &[FrameTimes]) -> bool {
    frames.windows(2).any(|pair| matches!(pair, [a, b] if a.objects != b.objects))
}
