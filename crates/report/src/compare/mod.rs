/*!
One implementation against another: speed with an interval, and the proof that both computed the
same thing.

Measuring and judging are separate steps. The program runs the sides in turn, each in processes of
its own, and keeps every run folder; [`runs`] reads run folders, whoever made them; [`judge`]
compares masks, scores and speeds and says what may be believed; [`document`] writes it down. All
limits stand in [`thresholds`], and docs/comparing.md shows the same tables.
*/

pub mod date;
pub mod document;
pub mod iou_text;
pub mod judge;
pub mod runs;
pub mod sweep;
pub mod thresholds;
