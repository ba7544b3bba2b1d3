/*!
Writes an mp4 with an `ffmpeg` child.
*/

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::ffmpeg::{Ffmpeg, tail};

/// File name while it is written.
const UNFINISHED: &str = "overlay.mp4";

/// Frames go in as raw RGB; the file gets its name when it is finished.
#[derive(Debug)]
pub(super) struct Film {
    child: Child,
    log: File,
    /// In the target's folder, so that the last step is a rename.
    temporary: TempDir,
    path: PathBuf,
}

impl Film {
    /// Starts the child. Odd sizes are padded by one black row or column, because yuv420p needs
    /// even ones. The input has one frame of `stride` of a clip with 24 a second.
    pub fn start(
        ffmpeg: &Ffmpeg,
        path: &Path,
        (width, height): (usize, usize),
        stride: usize,
    ) -> Result<Self> {
        let dir = path.parent().unwrap_or(Path::new("."));
        let temporary = tempfile::Builder::new()
            .prefix(super::UNFINISHED)
            .tempdir_in(dir)
            .with_context(|| format!("cannot write overlays into {}", dir.display()))?;
        let log = tempfile::tempfile().context("cannot keep ffmpeg's messages")?;
        let mut command = ffmpeg.command();
        command.args(["-y", "-f", "rawvideo", "-pix_fmt", "rgb24"]);
        command.args(["-framerate", &format!("24/{}", stride.max(1))]);
        command.args(["-video_size", &format!("{width}x{height}"), "-i", "pipe:0"]);
        command.args(["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-an"]);
        command.args(["-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]);
        let mut output = std::ffi::OsString::from("file:");
        output.push(temporary.path().join(UNFINISHED));
        command.arg(output);
        command.stdin(Stdio::piped()).stderr(log.try_clone()?);
        // A terminal sends Ctrl-C to the whole process group. The film is finished by its writer,
        // which closes the pipe.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start ffmpeg for {}", path.display()))?;
        Ok(Self { child, log, temporary, path: path.into() })
    }

    /// Adds one frame of interleaved RGB.
    pub fn write(&mut self, rgb: &[u8]) -> Result<()> {
        let Some(stdin) = &mut self.child.stdin else { bail!("the overlay is already finished") };
        if let Err(error) = stdin.write_all(rgb) {
            // A closed pipe has no reason; the child's messages do.
            let _ = self.child.wait();
            let messages = tail(&mut self.log);
            bail!("ffmpeg stopped while writing {}: {messages} ({error})", self.path.display());
        }
        Ok(())
    }

    /// Waits for the child and gives the file its name.
    pub fn finish(mut self) -> Result<PathBuf> {
        drop(self.child.stdin.take());
        let status = self.child.wait().context("cannot wait for ffmpeg")?;
        if !status.success() {
            let messages = tail(&mut self.log);
            bail!("ffmpeg could not write {} ({status}): {messages}", self.path.display());
        }
        std::fs::rename(self.temporary.path().join(UNFINISHED), &self.path)
            .with_context(|| format!("cannot create {}", self.path.display()))?;
        Ok(self.path.clone())
    }
}

impl Drop for Film {
    fn drop(&mut self) {
        // If unfinished, the child is stopped before its file is removed. After `finish` both calls
        // do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
