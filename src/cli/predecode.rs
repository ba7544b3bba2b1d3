/*!
Arguments of `segtrt predecode`.
*/

use std::path::PathBuf;

use clap::Args;

use super::ShuffleArgs;
use vos::geometry::GeometryKind;
use vos::predecode::Values;

/// Which clips, for which network input, and where they go.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt predecode --split-dir demo/split --imgsz 256 --values u8 --out-dir demo/frames\n\
    then:    segtrt bench --split-dir demo/split --models edgetam_mini_points --predecoded demo/frames\n\n\
    A file is written again only where it is missing, damaged, or of other frames or settings; a run that was stopped goes \
    on where it was. Rows measured with such frames say so (docs/experiments.md)."
)]
pub struct PredecodeArgs {
    /// The split: SA-V layout (JPEGImages_24fps, Annotations_6fps) or DAVIS layout.
    #[arg(long)]
    pub split_dir: PathBuf,
    /// Stem of the manifest in the split folder; all clips where there is none.
    #[arg(long, default_value = "sav_val")]
    pub split_name: String,
    /// Side of the network input in pixels.
    #[arg(long, default_value_t = 1024)]
    pub imgsz: usize,
    /// How frames are brought to the network's square.
    #[arg(long, value_enum, default_value = "stretch")]
    pub geometry: GeometryKind,
    /// What is stored of each pixel and channel.
    #[arg(long, value_enum, default_value = "f16")]
    pub values: Values,
    /// Clips to take, 0 for all.
    #[arg(long, default_value_t = 0)]
    pub limit_videos: usize,
    /// In which order clips are taken.
    #[command(flatten)]
    pub shuffle: ShuffleArgs,
    /// Where files go [default: SPLIT_DIR/predecoded].
    #[arg(long)]
    pub out_dir: Option<PathBuf>,
    /// Most frames in memory at once [default: two for each thread].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_frames_in_mem: Option<u32>,
    /// Threads [default: all processors].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Write what is up to date too.
    #[arg(long)]
    pub force: bool,
    /// Print the rows as JSON.
    #[arg(long)]
    pub json: bool,
}
