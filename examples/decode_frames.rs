/*!
Decodes JPEG files on request and tells how long it took: the Rust half of
`benches/python/compare_jpeg.py`, kept in one process so that both sides are timed in turn.

    decode_frames FILE…        frames of one size

Each line on standard input, a number of threads, is answered by the nanoseconds in which so many
threads read and decoded all files into memory that was there before, as the pipeline's workers do.
`save PATH` writes the first frame's bytes, RGB.
*/

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use vos::decode;

fn main() -> Result<()> {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let first = files.first().context("give the JPEG files")?;
    let size = decode::probe_size(first)?;
    let mut frames = vec![vec![0_u8; 3 * size.0 * size.1]; files.len()];
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if let Some(path) = line.strip_prefix("save ") {
            std::fs::write(path, &frames[0]).with_context(|| format!("cannot write {path}"))?;
            writeln!(out, "{} {}", size.0, size.1)?;
        } else {
            let threads: usize = line.trim().parse().context("expected a number of threads")?;
            writeln!(out, "{}", nanoseconds(&files, &mut frames, size, threads)?)?;
        }
        out.flush()?;
    }
    Ok(())
}

fn nanoseconds(
    files: &[PathBuf],
    frames: &mut [Vec<u8>],
    size: (usize, usize),
    threads: usize,
) -> Result<u128> {
    let places: Vec<Mutex<&mut Vec<u8>>> = frames.iter_mut().map(Mutex::new).collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(file), Some(place)) = (files.get(at), places.get(at)) else { return };
                    let Ok(mut pixels) = place.lock() else { return };
                    if let Err(error) = decode::jpeg_into(file, size, pixels.as_mut_slice())
                        && let Ok(mut failed) = failed.lock()
                    {
                        *failed = Some(format!("{error}"));
                    }
                }
            });
        }
    });
    let taken = started.elapsed().as_nanos();
    let failed = failed.into_inner().unwrap_or_default();
    ensure!(failed.is_none(), "{}", failed.unwrap_or_default());
    Ok(taken)
}
