/*!
Optional programs: nsys and ffmpeg.
*/

use super::check::Check;
use super::worker::FoundGpu;
use report::nsys::Nsys;
use vos::ffmpeg::Ffmpeg;

/// The encoder of overlays.
const ENCODER: &str = "libx264";

/// With a driver for CUDA 13.0, Nsight Systems 2023.4.4 recorded and made no report, 2024.2.3 made
/// reports. Older releases and newer drivers are taken to be no better.
const TOO_NEW_FOR_2023: u32 = 13;

/// Nsight Systems.
pub fn nsys(gpus: &Result<Vec<FoundGpu>, String>) -> Check {
    let name = "nsys";
    match Nsys::find() {
        Ok(nsys) => {
            let driver =
                gpus.as_ref().ok().and_then(|gpus| Some(gpus.first()?.driver_cuda.as_str()));
            let found = format!("{}, {}", nsys.version, nsys.path.display());
            match driver.filter(|driver| is_too_old(&nsys.version, driver)) {
                None => Check::ok(name, found),
                Some(driver) => Check::warning(
                    name,
                    format!(
                        "{found}: may make no reports with this driver, which is for CUDA {driver}"
                    ),
                    "2023.4.4 was seen to record and then make no report with a driver for CUDA \
                     13.0, where 2024.2.3 did; install a newer one and name it with NSYS_CMD",
                ),
            }
        }
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

/// Whether an nsys of this version (`2023.4.4.54-…`) is likely to make no reports with a driver for
/// this CUDA (`13.0`).
fn is_too_old(version: &str, driver_cuda: &str) -> bool {
    let number = |text: &str| text.split('.').next().and_then(|first| first.parse::<u32>().ok());
    number(version).is_some_and(|year| year <= 2023)
        && number(driver_cuda).is_some_and(|major| major >= TOO_NEW_FOR_2023)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_nsys_that_was_seen_to_fail_is_told_from_others() {
        assert!(is_too_old("2023.4.4.54-234433681190v0", "13.0"));
        assert!(!is_too_old("2023.4.4.54-234433681190v0", "12.4"));
        assert!(!is_too_old("2024.2.3.38-242334140272v0", "13.0"));
        assert!(!is_too_old("unknown", "13.0") && !is_too_old("2023.4", ""));
    }
}
