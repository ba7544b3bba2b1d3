/*!
Logits files: a teacher's are opened before an object's first pass, and the object's are written
after it.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::clip_run::{ClipPass, Span};
use super::object_error::ObjectError;
use super::plan::BenchPlan;
use vos::files::LOGITS;
use vos::logits::{Exchange, LogitsFile, file_name};
use vos::record::ObjectKey;

/// The file of an object in a run folder.
pub fn path_of(run: &Path, key: &ObjectKey) -> PathBuf {
    run.join(LOGITS).join(file_name(key))
}

/// What the objects of a pass take and hand out.
pub struct Teachers {
    save: bool,
    /// One for each object; none in a run of its own.
    files: Vec<Option<LogitsFile>>,
}

impl Teachers {
    /// Reads the teacher's logits of these objects, where there is a teacher.
    ///
    /// # Errors
    /// A file that is missing or damaged, or that is of other frames. The plan was checked before
    /// the run; this is for folders that change meanwhile.
    pub fn open<'k>(
        plan: &BenchPlan,
        side: usize,
        objects: impl Iterator<Item = (&'k ObjectKey, Span)>,
    ) -> Result<Self, ObjectError> {
        let one = |(key, span): (&ObjectKey, Span)| match &plan.teacher {
            Some(run) => read(&path_of(run, key), side, span.frames()).map(Some),
            None => Ok(None),
        };
        let files: Result<_> = objects.map(one).collect();
        Ok(Self { save: plan.save_logits, files: files.map_err(ObjectError::Teacher)? })
    }

    /// One for each object.
    pub fn exchanges(&self) -> Vec<Exchange<'_>> {
        let files = self.files.iter();
        files.map(|file| Exchange { save: self.save, teacher: file.as_ref() }).collect()
    }
}

fn read(path: &Path, side: usize, frames: usize) -> Result<LogitsFile> {
    let logits = LogitsFile::read(path)?;
    ensure!(
        (logits.frames(), logits.side()) == (frames, side),
        "{}: found {} frames of {}x{} logits, expected {frames} of {side}x{side}",
        path.display(),
        logits.frames(),
        logits.side(),
        logits.side()
    );
    Ok(logits)
}

/// Writes the logits that a pass handed out.
pub fn write(out_dir: &Path, key: &ObjectKey, side: usize, pass: &ClipPass) -> Result<()> {
    let logits = LogitsFile::new(side, pass.logits.clone())?;
    ensure!(
        logits.frames() == pass.times.len(),
        "{} frames of logits came for {} frames",
        logits.frames(),
        pass.times.len()
    );
    let folder = out_dir.join(LOGITS);
    std::fs::create_dir_all(&folder).with_context(|| {
        format!("cannot make {}; choose a writable --out-dir", folder.display())
    })?;
    logits.write(&path_of(out_dir, key))
}
