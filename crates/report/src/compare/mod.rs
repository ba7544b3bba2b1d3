/*!
Compares implementations: the ratio of their speeds with an interval, and the proof that their masks
agree.

Measuring and judging are separate steps. The binary runs the sides in turn, each in its own
processes, and keeps every run folder. [`runs`] reads run folders of any origin. [`judge`] compares
masks, scores and speeds and decides which ratios are valid. [`document`] writes the results. All
limits are in [`thresholds`]; docs/reference/verdicts.md has the same tables.
*/

pub mod document;
pub mod iou_format;
pub mod judge;
pub mod runs;
pub mod sweep;
pub mod thresholds;
pub mod utc_date;
