/*!
The predecessor's scheme for boards with little memory: prepare everything in one phase, measure in
another.

```text
1  scan → check prompts → engines or bundles → (frames) ─→ metadata.json, inference_config.json
2  for each model: a fresh bench ─→ its own rows ─→ jetson_benchmark_summary.csv
```

The second phase decides nothing: it measures what the first wrote down, and where the split has changed
since it says so.
*/

mod memory;
mod metadata;
mod preset;
mod setup;
mod summary;

pub use memory::{MemoryWatch, SystemMemory, Watched};
pub use metadata::{InferenceConfig, Metadata, ObjectData, VideoData};
pub use preset::{Preset, PresetValues};
pub use setup::{Scan, scan};
pub use summary::{FILE_NAME as SUMMARY_FILE, ModelRows, Summary};
