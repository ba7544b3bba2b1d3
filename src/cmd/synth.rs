/*!
`segtrt synth`.
*/

use anyhow::Result;

use super::Outcome;
use crate::cli::SynthArgs;
use crate::synth::{SynthOptions, write_split};

/// Writes a synthetic split and says where it is.
pub fn run(args: SynthArgs) -> Result<Outcome> {
    let SynthArgs { out, videos, objects, frames, size: (width, height), seed } = args;
    write_split(&SynthOptions { out: out.clone(), videos, objects, frames, width, height, seed })?;
    println!(
        "wrote {videos} clips of {frames} frames, {objects} objects each, to {}",
        out.display()
    );
    Ok(Outcome::Done)
}
