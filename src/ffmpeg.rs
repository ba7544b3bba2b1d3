/*!
The `ffmpeg` program as a child: video files to frames, frames to video files.

A child instead of a library keeps FFmpeg's headers and versions out of the
build; where the program is missing only video input and mp4 output are lost.
*/

use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use tempfile::TempDir;

use crate::on_path;

/// Where the program is.
#[derive(Clone, Debug)]
pub struct Ffmpeg {
    program: PathBuf,
}

/// Why `ffmpeg` did not help.
#[derive(Debug, thiserror::Error)]
pub enum FfmpegError {
    /// No such program.
    #[error(
        "ffmpeg is not on PATH, and it is needed to take frames out of a video file; install it (for \
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
        /// The end of what it printed.
        message: String,
    },
    /// The system would not start it, or not give it a file.
    #[error("cannot run ffmpeg for {}: {source}", file.display())]
    Io {
        /// The video file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl FfmpegError {
    /// A stable short name for the status column.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing => "ffmpeg_missing",
            Self::Failed { .. } | Self::Io { .. } => "ffmpeg_failed",
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

    /// A particular program.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// A command that says nothing but errors and reads nothing from the terminal.
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

    /// All frames of `film` at 24 fps as `frame_000001.jpg` … in a folder that vanishes when dropped.
    ///
    /// # Errors
    /// `ffmpeg` cannot be started or cannot read the file; nothing is left behind then.
    pub fn extract_frames(&self, film: &Path) -> Result<TempDir, FfmpegError> {
        let io = |source| FfmpegError::Io { file: film.into(), source };
        let dir = tempfile::Builder::new().prefix("sv_frames_").tempdir().map_err(io)?;
        let mut log = tempfile::tempfile().map_err(io)?;
        let mut command = self.command();
        // `file:` keeps a colon in a file's name from being taken for a protocol.
        let mut input = std::ffi::OsString::from("file:");
        input.push(std::path::absolute(film).map_err(io)?);
        command.arg("-i").arg(input).args(["-vf", "fps=24", "-q:v", "2", "frame_%06d.jpg"]);
        // Not as part of the pattern: a percent sign in the folder's name would be taken for a number.
        command.current_dir(dir.path());
        command.stderr(log.try_clone().map_err(io)?);
        let status = command.status().map_err(io)?;
        if status.success() {
            return Ok(dir);
        }
        Err(FfmpegError::Failed { file: film.into(), status, message: tail(&mut log) })
    }
}

/// The last lines of what a child printed.
pub(crate) fn tail(log: &mut std::fs::File) -> String {
    let mut bytes = Vec::new();
    let text = match log.rewind().and_then(|()| log.read_to_end(&mut bytes)) {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return format!("its messages cannot be read: {error}"),
    };
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.as_slice() {
        [] => "it printed nothing".into(),
        lines => lines[lines.len().saturating_sub(3)..].join("; "),
    }
}
