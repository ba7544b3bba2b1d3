/*!
Flags of `segtrt track`.
*/

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::words::{BoxWords, ClickWords, PathWords, parse_box, parse_click, parse_path};
use crate::commands::bench::{BackendChoice, parse_precision};
use crate::commands::headings::{DATA, GPU, MODEL, OUTPUT};

/// A clip, prompts, a model and where the files go.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  segtrt track dog.mp4 --click 320,180\n  segtrt track dog.mp4 \
                        --click 320,180 --click 350,240,- --box 2:10,20,90,200 --model edgetam\n  \
                        segtrt track frames/ --mask 1:person.png --frame 12 --show-fps --out \
                        person\n\nA prompt is of object 1, or of the object whose number stands \
                        before a colon: 2:320,180. X and Y count pixels from the top left corner. \
                        A minus behind a click says: not this. Prompts of one object are given to \
                        the network together; all prompts are on one frame (--frame), and \
                        tracking goes forward from it. Earlier frames are not tracked.\n\nOUT \
                        gets overlay.mp4 (without ffmpeg a folder of PNG frames), masks/ (palette \
                        PNG, the index is the object's number) and frames.jsonl (a line for each \
                        frame and object). A video is decoded at 24 frames a second. \
                        docs/how-to/own-clips.md explains the files."
)]
pub struct TrackArgs {
    /// Video file (needs ffmpeg), or folder of JPEG frames.
    #[arg(value_name = "VIDEO", help_heading = DATA)]
    pub video: PathBuf,
    /// Click on the object; with a minus at the end on something else. May be repeated.
    #[arg(
        long,
        help_heading = DATA,
        value_name = "[ID:]X,Y[,-]",
        value_parser = parse_click,
        allow_hyphen_values = true
    )]
    pub click: Vec<ClickWords>,
    /// Box around the object: left, top, right, bottom.
    #[arg(
        long = "box",
        help_heading = DATA,
        value_name = "[ID:]X0,Y0,X1,Y1",
        value_parser = parse_box,
        allow_hyphen_values = true
    )]
    pub boxes: Vec<BoxWords>,
    /// PNG of the frame's size; every pixel that is not 0 is the object.
    #[arg(long, help_heading = DATA, value_name = "[ID:]FILE", value_parser = parse_path)]
    pub mask: Vec<PathWords>,
    /// Frame of the prompts, counted from 0.
    #[arg(long, help_heading = DATA, value_name = "N", default_value_t = 0)]
    pub frame: usize,
    /// Frames to track from the prompted one on, 0 for all.
    #[arg(long, help_heading = DATA, value_name = "N", default_value_t = 0)]
    pub max_frames: usize,
    /// Folder of true masks (00000.png, …), which the overlay outlines in white.
    #[arg(long, help_heading = DATA, value_name = "[ID:]DIR", value_parser = parse_path)]
    pub truth: Vec<PathWords>,
    /// Model by its name in fetch [default: the first that is there of edgetam, sam2.1_tiny,
    /// sam2.1_small, sam2.1_base_plus, sam2.1_large, edgetam_mini].
    #[arg(long, help_heading = MODEL)]
    pub model: Option<String>,
    /// Image side of the network input, in pixels [default: 1024, or the only size found].
    #[arg(long, help_heading = MODEL)]
    pub imgsz: Option<usize>,
    /// Precision: fp32 or fp16; engines also mixed [default: fp32; for engines the platform's, or
    /// the only one found].
    #[arg(long, help_heading = MODEL, value_parser = parse_precision)]
    pub precision: Option<String>,
    /// What runs the network.
    #[arg(long, help_heading = MODEL, value_enum, default_value = "onnxruntime")]
    pub backend: BackendChoice,
    /// Shared library of ONNX Runtime, or its folder.
    #[arg(long, help_heading = MODEL)]
    pub ort_lib: Option<PathBuf>,
    /// Threads of ONNX Runtime [default: all processors].
    #[arg(long, help_heading = MODEL, value_parser = RangedU64ValueParser::<usize>::new().range(..=1024))]
    pub threads: Option<usize>,
    /// Folder of bundles, or one bundle; may be repeated [default: as bench].
    #[arg(long, help_heading = MODEL, env = "SEGTRT_ONNX_DIR", value_delimiter = ':')]
    pub onnx_dir: Vec<PathBuf>,
    /// Folder of engines written by build-engines, or one engine folder [default: as bench].
    #[arg(long, help_heading = GPU)]
    pub engines: Option<PathBuf>,
    /// Number of the GPU, in the order of the driver.
    #[arg(long, help_heading = GPU, default_value_t = 0)]
    pub device: usize,
    /// TensorRT's library, or its folder [default: as bench].
    #[arg(long, help_heading = GPU)]
    pub tensorrt_lib: Option<PathBuf>,
    /// Folder of the files [default: VIDEO's name with _track, here].
    #[arg(long, help_heading = OUTPUT, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Opacity of the masks in the overlay, from 0 (outline only) to 1.
    #[arg(
        long,
        help_heading = OUTPUT,
        value_name = "0..1",
        default_value_t = 0.5,
        value_parser = parse_opacity
    )]
    pub opacity: f32,
    /// Write the network's frame rate into a corner of the overlay.
    #[arg(long, help_heading = OUTPUT)]
    pub show_fps: bool,
    /// Write masks and lines only.
    #[arg(long, help_heading = OUTPUT)]
    pub no_overlay: bool,
    /// Print speed and files as one JSON document.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

fn parse_opacity(text: &str) -> Result<f32, String> {
    let value: Option<f32> = text.parse().ok();
    value
        .filter(|value| (0.0..=1.0).contains(value))
        .ok_or_else(|| format!("{text:?} is not a number from 0 to 1"))
}
