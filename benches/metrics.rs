/*!
Scores and their parts at the sizes that the datasets come in: `cargo bench --bench metrics`.

`benches/python/compare_metrics.py` sets the Python evaluator beside it.
*/

use divan::Bencher;
use vos::mask::Mask;
use vos::metrics::{MetricsKind, score_frame};
use vos::morphology::{dilate, disk, square};
use vos::rle::Rle;

const SIZES: [(usize, usize); 3] = [(854, 480), (1280, 720), (1920, 1080)];

fn main() {
    divan::main();
}

/// A lobed shape that covers a good part of the image, shifted by a few pixels.
fn shape((width, height): (usize, usize), shift: f64) -> Mask {
    Mask::from_fn(width, height, |x, y| {
        let dx = (x as f64 - shift) / width as f64 - 0.5;
        let dy = (y as f64 - shift) / height as f64 - 0.5;
        dx.hypot(dy) < 0.3 + 0.05 * (dy.atan2(dx) * 9.0).sin()
    })
}

#[divan::bench(args = SIZES)]
fn official_frame(bencher: Bencher, size: (usize, usize)) {
    let (truth, prediction) = (shape(size, 0.0), shape(size, 6.0));
    bencher.bench(|| score_frame(MetricsKind::Official, &truth, &prediction));
}

#[divan::bench(args = SIZES)]
fn predecessor_frame(bencher: Bencher, size: (usize, usize)) {
    let (truth, prediction) = (shape(size, 0.0), shape(size, 6.0));
    bencher.bench(|| score_frame(MetricsKind::Predecessor, &truth, &prediction));
}

#[divan::bench(args = SIZES)]
fn dilate_whole_mask_by_disk(bencher: Bencher, size: (usize, usize)) {
    let (mask, element) = (shape(size, 0.0), disk(8));
    bencher.bench(|| dilate(&mask, &element));
}

#[divan::bench(args = SIZES)]
fn dilate_whole_mask_by_square(bencher: Bencher, size: (usize, usize)) {
    let (mask, element) = (shape(size, 0.0), square(8));
    bencher.bench(|| dilate(&mask, &element));
}

#[divan::bench(args = SIZES)]
fn rle_encode(bencher: Bencher, size: (usize, usize)) {
    let mask = shape(size, 0.0);
    bencher.bench(|| Rle::compressed(&mask));
}

#[divan::bench(args = SIZES)]
fn rle_decode(bencher: Bencher, size: (usize, usize)) {
    let rle = Rle::compressed(&shape(size, 0.0));
    bencher.bench(|| rle.to_mask());
}
