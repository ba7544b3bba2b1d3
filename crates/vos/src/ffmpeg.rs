/*!
Runs `ffmpeg` as a child: video files to frames, frames to video files.

A child instead of a library keeps FFmpeg's headers and versions out of the build. Without the
program only video input and mp4 output are missing.
*/

use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

mod raw_frames;

pub use raw_frames::RawFrames;

use host::on_path;

/// The program.
#[derive(Clone, Debug)]
pub struct Ffmpeg {
    program: PathBuf,
}

/// Why `ffmpeg` failed.
#[derive(Debug, thiserror::Error)]
pub enum FfmpegError {
    /// The program is missing.
    #[error(
        "ffmpeg is not on PATH, and video files need it; install it (for \
         example `apt-get install ffmpeg`), or put JPEGs into JPEGImages_24fps/<video>/"
    )]
    Missing,
    /// The program ran and failed.
    #[error("ffmpeg failed on {} ({status}): {message}", file.display())]
    Failed {
        /// The video file.
        file: PathBuf,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its messages.
        message: String,
    },
    /// The program succeeded, but its messages or output show that the file is incomplete.
    #[error(
        "{} is damaged: {reason}; replace the file, or put its frames as JPEGs into \
         JPEGImages_24fps/<video>/",
        file.display()
    )]
    Damaged {
        /// The video file.
        file: PathBuf,
        /// What was found.
        reason: String,
    },
    /// There is no space for the decoded frames.
    #[error(
        "no space for the frames of {} in {} ({} MiB so far): {source}; set TMPDIR to a folder \
         with more",
        file.display(), folder.display(), bytes >> 20
    )]
    NoRoom {
        /// The video file.
        file: PathBuf,
        /// The folder for the frames.
        folder: PathBuf,
        /// Size of the frames so far, bytes.
        bytes: u64,
        /// The system's message.
        source: std::io::Error,
    },
    /// The system could not start it, or not open a file for it.
    #[error("cannot run ffmpeg for {}: {source}", file.display())]
    Io {
        /// The video file.
        file: PathBuf,
        /// The system's message.
        source: std::io::Error,
    },
}

impl FfmpegError {
    /// A stable short name for the status column.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing => "ffmpeg_missing",
            Self::Failed { .. } | Self::Io { .. } => "ffmpeg_failed",
            Self::Damaged { .. } => "damaged_video",
            Self::NoRoom { .. } => "no_room_for_frames",
        }
    }
}

impl Ffmpeg {
    /// The `ffmpeg` on PATH.
    ///
    /// # Errors
    /// [`FfmpegError::Missing`] when there is none.
    pub fn find() -> Result<Self, FfmpegError> {
        let program = on_path::find("ffmpeg").into_iter().next().ok_or(FfmpegError::Missing)?;
        Ok(Self { program })
    }

    /// The program at this path.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// A command that prints only errors and reads nothing from the terminal.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-hide_banner", "-loglevel", "error", "-nostdin"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Whether this build can encode with `encoder`.
    pub fn has_encoder(&self, encoder: &str) -> bool {
        let output = self.command().args(["-encoders"]).stdout(Stdio::piped()).output();
        output.is_ok_and(|output| {
            String::from_utf8_lossy(&output.stdout)
                .lines()
                .any(|line| line.split_whitespace().nth(1) == Some(encoder))
        })
    }

    /// Its version as printed, `5.1.9-0+deb12u1`; `unknown` if it prints none.
    pub fn version(&self) -> String {
        let output = self.command().arg("-version").stdout(Stdio::piped()).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let text = text.unwrap_or_default();
        let version = text.split_whitespace().skip_while(|word| *word != "version").nth(1);
        // The version becomes part of a name with slashes as separators.
        version.unwrap_or("unknown").replace('/', "_")
    }

    /// The frames of `video` at 24 a second, the first `most` of them or all, on disk while the value lives.
    ///
    /// # Errors
    /// `ffmpeg` cannot be started or reports an error, or there is no space; no file remains then.
    pub fn frames(&self, video: &Path, most: Option<usize>) -> Result<RawFrames, FfmpegError> {
        RawFrames::decode(self, video, most)
    }
}

/// The last lines of a child's output.
pub fn tail(log: &mut std::fs::File) -> String {
    let mut bytes = Vec::new();
    let text = match log.rewind().and_then(|()| log.read_to_end(&mut bytes)) {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return format!("its messages cannot be read: {error}"),
    };
    let lines = text.lines().map(|line| without_address(line.trim()));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [] => "it printed nothing".into(),
        lines => lines[lines.len().saturating_sub(3)..].join("; "),
    }
}

/// `[in#0 @ 0x5581b0ed2d40] Error …` without the brackets, which say nothing to a reader.
fn without_address(line: &str) -> &str {
    let inner = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    inner.filter(|(inner, _)| inner.contains(" @ 0x")).map_or(line, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_left_out() {
        assert_eq!(without_address("[in#0 @ 0x55] Error: [x] y"), "Error: [x] y");
        assert_eq!(without_address("[x] y"), "[x] y");
    }
}
