/*!
`segtrt synth`.
*/

use anyhow::Result;

use super::Outcome;
use crate::cli::SynthArgs;
use host::UsageError;
use vos::synth::{SynthOptions, check, write_split};

/// Writes a synthetic split and says where it is.
pub fn run(args: SynthArgs) -> Result<Outcome> {
    let SynthArgs { out, videos, objects, frames, size: (width, height), seed, json } = args;
    let options = SynthOptions { out: out.clone(), videos, objects, frames, width, height, seed };
    check(&options).map_err(|error| UsageError(error.to_string()))?;
    let summary = write_split(&options)?;
    if json {
        let document = serde_json::json!({
            "split_dir": out, "videos": videos, "objects": videos * objects, "frames": summary.frames,
            "masks": summary.masks, "width": width, "height": height, "seed": seed,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(Outcome::Done);
    }
    println!(
        "wrote {videos} clips of {frames} frames, {objects} objects each, to {}",
        out.display()
    );
    Ok(Outcome::Done)
}
