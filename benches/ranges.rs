/*!
What an NVTX range costs: `cargo bench --bench ranges`; with a tool's library in NVTX_INJECTION64_PATH, what
it costs under that tool.
*/

use vos::ranges::{Range, enter};
use vos::stage::Stage;

fn main() {
    divan::main();
}

#[divan::bench]
fn one_range() {
    drop(divan::black_box(enter(divan::black_box(Stage::Track))));
}

/// A frame's worth: the outer range and six stages.
#[divan::bench]
fn one_frame() {
    let _pipeline = enter(Range::Pipeline);
    for range in [
        Stage::Decode,
        Stage::Preprocess,
        Stage::Encoder,
        Stage::Track,
        Stage::Postprocess,
        Stage::Memory,
    ] {
        drop(divan::black_box(enter(divan::black_box(range))));
    }
}
