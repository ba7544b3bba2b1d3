/*!
Programs that are called where they are there: nsys, ffmpeg.
*/

use super::check::Check;
use crate::ffmpeg::Ffmpeg;
use crate::nsys::Nsys;

/// What encodes overlays.
const ENCODER: &str = "libx264";

/// Nsight Systems.
pub fn nsys() -> Check {
    let name = "nsys";
    match Nsys::find() {
        Ok(nsys) => Check::ok(name, format!("{}, {}", nsys.version, nsys.path.display())),
        Err(error) => {
            let text = error.to_string();
            // The error's own advice goes where advice belongs.
            let (found, advice) =
                text.split_once(". ").or_else(|| text.split_once("; ")).unwrap_or((&text, ""));
            Check::missing(
                name,
                found,
                format!(
                    "{advice} (only segtrt profile needs it, and segtrt nsys for .nsys-rep files)"
                ),
            )
        }
    }
}

/// ffmpeg, with what encodes overlays.
pub fn ffmpeg() -> Check {
    let name = "ffmpeg";
    match Ffmpeg::find() {
        Ok(ffmpeg) if ffmpeg.has_encoder(ENCODER) => Check::ok(name, format!("with {ENCODER}")),
        Ok(_) => Check::warning(
            name,
            format!("without {ENCODER}: overlays are written as PNG files"),
            "install a build of ffmpeg with x264 for overlays as mp4",
        ),
        Err(_) => Check::missing(
            name,
            "not on PATH: overlays are written as PNG files, and videos as mp4 files cannot be read",
            "apt-get install ffmpeg",
        ),
    }
}
