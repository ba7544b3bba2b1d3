/*!
What an NVTX range costs: `cargo bench --bench ranges`; with a tool's library in NVTX_INJECTION64_PATH, what
it costs under that tool.
*/

use vos::ranges::{Range, enter};

fn main() {
    divan::main();
}

#[divan::bench]
fn one_range() {
    drop(divan::black_box(enter(divan::black_box(Range::Track))));
}

/// A frame's worth: the outer range and six stages.
#[divan::bench]
fn one_frame() {
    let _pipeline = enter(Range::Pipeline);
    for range in [
        Range::Decode,
        Range::Preprocess,
        Range::Encoder,
        Range::Track,
        Range::Postprocess,
        Range::Memory,
    ] {
        drop(divan::black_box(enter(divan::black_box(range))));
    }
}
