/*!
`segtrt` measures how fast and how well promptable video object segmentation (SAM 2.1, EdgeTAM) runs.

Data flows one way; only the memory bank feeds back:

```text
dataset → decode → preprocess → network (encoder → prompt | track → memory) → mask → metrics → record → files
                                             ↑____________ bank ____________|
```
*/

pub mod dataset;
pub mod decode;
pub mod ffmpeg;
pub mod geometry;
pub mod mask;
pub mod overlay;
pub mod preprocess;
pub mod prompt;
pub mod synth;
