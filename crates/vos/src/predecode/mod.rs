/*!
Clips decoded and resized ahead of time: one file a clip, made once, checked before use, mapped into
memory while measuring.

```text
clip → write (decode → resize → u8 or f16 planes) → VIDEO__SIDE_GEOMETRY_VALUES.frames → map → network input
```

What such a file saves is work that a live camera would have to do, so a row that was measured with
one says so in its `fidelity` and in its run's configuration.
*/

mod error;
mod format;
mod mapped;
mod read;
mod write;

pub use crate::stored_values::Values;
pub use error::CacheError;
pub use format::{Header, Source};
pub use read::{PreparedClip, PreparedFrame, Wanted, values_in};
pub use write::{Done, Options, Outcome, file_name, predecode, remove_litter};
