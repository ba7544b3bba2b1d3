/*!
The peaks of a GPU as measured: cuBLASLt's fastest fp16 matmul and a copy on the device.
*/

use anyhow::{Context, Result};
use half::f16;
use zerocopy::IntoBytes;

use cuda::cublaslt::{CublasLt, Matmul, MatmulShape};
use cuda::{Element, Gpu, Stream, View};
use vos::noise::Noise;
use vos::stats::Timing;

/// Rows and columns of the largest matmul, which fills every tensor core of today's GPUs.
const LARGEST: usize = 8192;
/// Rows and columns of the smallest.
const SMALLEST: usize = 64;
/// Bytes that are copied at most: more than any cache holds.
const MOST_COPIED: usize = 512 << 20;
/// Part of the free memory that each measurement may take.
const PART_OF_FREE: usize = 4;
/// Random numbers that fill the operands again and again; zeros would take less power.
const DRAWN: usize = 1 << 18;
/// Runs before the timed ones, and timed ones.
const RUNS: [usize; 2] = [3, 20];
/// Timed runs of each of cuBLASLt's algorithms, to choose one.
const BRIEF: usize = 3;

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredPeaks {
    /// The GPU's name.
    pub device: String,
    /// Its compute capability, 90 for 9.0.
    pub sm: u32,
    /// Rows and columns of the square matmul.
    pub gemm_size: usize,
    /// Its rate, GFLOP/s: fp16, fp32 accumulation.
    pub gflops: f64,
    /// The library that computed it.
    pub library: String,
    /// Bytes of a copy.
    pub copied_bytes: usize,
    /// Bytes read and written by it, MB/s.
    pub mb_per_s: f64,
}

/// Measures both.
///
/// # Errors
/// No cuBLASLt, too little memory, or another error of the driver.
pub fn measure(gpu: &Gpu) -> Result<MeasuredPeaks> {
    let stream = gpu.stream()?;
    let room = usize::try_from(gpu.memory_info()?.0).unwrap_or(usize::MAX) / PART_OF_FREE;
    let (copied_bytes, mb_per_s) = copy(gpu, &stream, room)?;
    let lt = CublasLt::open(gpu).context("the matmul of the peak needs cuBLASLt")?;
    let (gemm_size, gflops) = gemm(gpu, &stream, &lt, room)?;
    let facts = gpu.facts();
    Ok(MeasuredPeaks {
        device: facts.name.clone(),
        sm: facts.sm,
        gemm_size,
        gflops,
        library: lt.to_string(),
        copied_bytes,
        mb_per_s,
    })
}

/// Size and rate of a copy.
fn copy(gpu: &Gpu, stream: &Stream, room: usize) -> Result<(usize, f64)> {
    let bytes = (room / 2).min(MOST_COPIED);
    let (from, to) = (View::new(gpu, bytes)?, View::new(gpu, bytes)?);
    from.fill(0x5a, stream)?;
    let ms = median_ms(gpu, stream, RUNS, || Ok(to.copy_from(&from, stream)?))?;
    Ok((bytes, 2.0 * bytes as f64 / ms / 1e3))
}

/// Size and rate of the largest matmul that fits.
fn gemm(gpu: &Gpu, stream: &Stream, lt: &CublasLt, room: usize) -> Result<(usize, f64)> {
    let mut n = LARGEST;
    while n > SMALLEST && 3 * n * n * Element::F16.bytes() > room {
        n /= 2;
    }
    let shape = MatmulShape { m: n, n, k: n, output: Element::F16, residual: false };
    let matmul = Matmul::new(lt, shape)?;
    let (a, weight) = (random(gpu, stream, n, "a")?, random(gpu, stream, n, "weight")?);
    let out = View::new(gpu, Element::F16.bytes() * n * n)?;
    let bias = View::new(gpu, Element::F16.bytes() * n)?;
    bias.fill(0, stream)?;
    let workspace = View::new(gpu, matmul.most_workspace_bytes().max(1))?;
    let run = || Ok(matmul.enqueue(&a, &weight, &bias, &out, &workspace, stream)?);
    let mut best = (0, f64::INFINITY);
    for at in 0..matmul.candidates() {
        matmul.choose(at)?;
        let ms = median_ms(gpu, stream, [1, BRIEF], run)?;
        if ms < best.1 {
            best = (at, ms);
        }
    }
    matmul.choose(best.0)?;
    let ms = median_ms(gpu, stream, RUNS, run)?;
    Ok((n, shape.operations() / ms / 1e6))
}

/// A square matrix of normal f16 numbers.
fn random(gpu: &Gpu, stream: &Stream, n: usize, name: &str) -> Result<View> {
    let view = View::new(gpu, Element::F16.bytes() * n * n)?;
    let drawn: Vec<f16> = Noise::new(0, name).halves(DRAWN.min(n * n), 1.0);
    let bytes = drawn.as_bytes();
    for at in (0..view.len()).step_by(bytes.len()) {
        let length = bytes.len().min(view.len() - at);
        view.part(at, length)?.upload(&bytes[..length], stream)?;
    }
    Ok(view)
}

/// Median time of `enqueue`, ms.
fn median_ms(
    gpu: &Gpu,
    stream: &Stream,
    [warmup, runs]: [usize; 2],
    enqueue: impl Fn() -> Result<()>,
) -> Result<f64> {
    for _ in 0..warmup {
        enqueue()?;
    }
    let (start, end) = (gpu.event()?, gpu.event()?);
    let mut samples = Vec::with_capacity(runs);
    for _ in 0..runs {
        start.record(stream)?;
        enqueue()?;
        end.record(stream)?;
        stream.synchronize()?;
        samples.push(end.ms_since(&start)?);
    }
    let timing = Timing::of(&samples).context("nothing was timed")?;
    anyhow::ensure!(timing.median_ms > 0.0, "the driver's events gave no time");
    Ok(timing.median_ms)
}
