/*!
Clips that are decoded and resized before the run: one file a clip, written once, checked before
use, mapped into memory while measuring.

```text
clip → write (decode → resize → u8 or f16 planes) → VIDEO__SIDE_GEOMETRY_VALUES.frames → map → network input
```

Such a file saves work that a live camera would need. So a row that used one states it in its
`fidelity` and its run's configuration.
*/

mod error;
mod format;
mod read;
mod write;

pub use crate::stored_values::Values;
pub use error::CacheError;
pub use format::{FrameSource, Header, file_name};
pub use read::{PreparedClip, PreparedFrame, WantedFrames, values_in};
pub use write::{ClipOutcome, Done, Options, predecode, remove_litter};
