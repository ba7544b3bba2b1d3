/*!
RepViT (Wang et al., 2024, as EdgeTAM's image encoder has it) on the device. A block:

```text
x ─ depthwise 3x3 ─→ y ─ × gate of y's means, where the block has squeeze-and-excite ─→ y ─┐
                     └─ 1x1, where columns change ─→ y ─→ z = y + down GELU(up y) ←────────┘
```

| file | holds |
|---|---|
| `packed.rs`, `weights.rs` | the kernels' order of weights; weights on the device |
| `fused.rs`, `launches.rs` | blocks of one launch; launches of others' parts |
| `executor.rs` | which launches compute a block, and memory between them |
| `stem.rs` | image to tokens |
| `encoder.rs` | all of it |

Blocks of 48, 96 or 192 columns are one launch, also those that halve the map
(`cuda/repvit_block.cu`). On Hopper clusters share those of 384 columns on large maps
(`cuda/repvit_block_hopper.cu`). Others take a launch for each of their parts (`cuda/repvit.cu`).
Squeeze-and-excite needs sums of the whole map: the block before adds them up if it is one launch,
else a launch of its own. Maps are f16 and channels-last, sums f32.

TensorRT runs stem and neck where a bundle has no weights for their kernels (`cuda/repvit_stem.cu`,
`cuda/neck.cu`).
*/

mod encoder;
mod executor;
mod fused;
mod launches;
mod packed;
pub(crate) mod selftest;
mod stem;
mod weights;

use crate::images::Topic;
use crate::neck;

pub use encoder::RepVitEncoder;
pub use executor::{RepVitExecutor, RepVitSource};
pub(crate) use packed::packed;

/// The kernels of blocks, stem and neck.
const MODULES: [Topic; 5] =
    [Topic::Repvit, Topic::RepvitBlock, Topic::RepvitBlockHopper, Topic::RepvitStem, neck::MODULE];
/// Bytes of an f16.
const HALF: usize = 2;
/// What vector loads need.
const ALIGNMENT: usize = 16;
