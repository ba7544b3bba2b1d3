/*!
`segtrt synth`.
*/

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::Outcome;
use crate::commands::headings::{DATA, OUTPUT};
use host::UsageError;
use vos::synth::{MASK_STRIDE, SynthOptions, check, write_split};

/// Flags of `segtrt synth`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt synth --out demo/split --videos 2 --objects 2 --frames 24 \
                  --size 640x360 --seed 7"
)]
pub struct SynthArgs {
    /// Folder of the new split.
    #[arg(long, help_heading = OUTPUT)]
    pub out: PathBuf,
    /// Number of clips.
    #[arg(long, help_heading = DATA, default_value_t = 2)]
    pub videos: usize,
    /// Objects per clip.
    #[arg(long, help_heading = DATA, default_value_t = 2)]
    pub objects: usize,
    /// Frames per clip.
    #[arg(long, help_heading = DATA, default_value_t = 24)]
    pub frames: usize,
    /// Frame size in pixels, WIDTHxHEIGHT.
    #[arg(long, help_heading = DATA, default_value = "640x360", value_parser = parse_size)]
    pub size: (usize, usize),
    /// Seed; the same seed gives the same bytes.
    #[arg(long, help_heading = DATA, default_value_t = 0)]
    pub seed: u64,
    /// Give all objects of a clip the same outline, size and texture: only the prompt tells them
    /// apart.
    #[arg(long, help_heading = DATA)]
    pub alike: bool,
    /// Write the masks of every K-th frame; 4 gives SA-V's 6 masks a second.
    #[arg(long, help_heading = DATA, value_name = "K", default_value_t = MASK_STRIDE)]
    pub mask_stride: usize,
    /// Print the written files as JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

fn parse_size(text: &str) -> Result<(usize, usize), String> {
    let parsed =
        text.split_once(['x', 'X']).and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    parsed.ok_or_else(|| format!("{text:?} is not WIDTHxHEIGHT; write for example 640x360"))
}

/// Writes a synthetic split and says where it is.
pub fn run(args: SynthArgs) -> Result<Outcome> {
    let SynthArgs { out, videos, objects, frames, seed, alike, mask_stride, json, .. } = args;
    let (width, height) = args.size;
    let options = SynthOptions {
        out: out.clone(),
        videos,
        objects,
        frames,
        width,
        height,
        seed,
        alike,
        mask_stride,
    };
    check(&options).map_err(|error| UsageError(error.to_string()))?;
    let summary = write_split(&options)?;
    if json {
        let document = serde_json::json!({
            "split_dir": out, "videos": videos, "objects": videos * objects, "frames": summary.frames,
            "masks": summary.masks, "width": width, "height": height, "seed": seed,
            "alike": alike,
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
