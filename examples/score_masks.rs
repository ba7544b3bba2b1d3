/*!
Scores masks on request and tells how long each took: the Rust half of
`benches/python/compare_metrics.py`, kept in one process so that both sides are timed in turn.

    score_masks PAIRS.json     pairs of COCO RLEs: [{"truth": …, "prediction": …}, …]

Each line on standard input, `KIND INDEX`, is answered by `J F NANOSECONDS`.
*/

use std::io::{BufRead, Write};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;
use vos::mask::Mask;
use vos::metrics::{MetricsKind, score_frame};
use vos::rle::Rle;

#[derive(serde::Deserialize)]
struct Pair {
    truth: Rle,
    prediction: Rle,
}

fn main() -> Result<()> {
    let path = std::env::args().nth(1).context("give the JSON file with the pairs")?;
    let text = std::fs::read(&path).with_context(|| format!("cannot read {path}"))?;
    let pairs: Vec<Pair> = serde_json::from_slice(&text).with_context(|| format!("in {path}"))?;
    let masks = pairs.iter().map(|pair| Ok((pair.truth.to_mask()?, pair.prediction.to_mask()?)));
    let masks: Vec<(Mask, Mask)> = masks.collect::<Result<_>>()?;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (kind, index) = line.split_once(' ').context("expected KIND INDEX")?;
        let kind = MetricsKind::from_str(kind, true).map_err(anyhow::Error::msg)?;
        let index: usize = index.trim().parse()?;
        let (truth, prediction) = masks.get(index).context("no pair of that index")?;
        let started = Instant::now();
        let score = score_frame(kind, truth, prediction);
        let nanoseconds = started.elapsed().as_nanos();
        writeln!(out, "{:?} {:?} {nanoseconds}", score.j, score.f)?;
        out.flush()?;
    }
    Ok(())
}
