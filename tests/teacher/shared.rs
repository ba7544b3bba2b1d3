//! A run with logits, measured once, and ways to change a copy of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use report::compare::runs::RunFolder;
use vos::logits::LogitsFile;
use vos::mask::Mask;

use crate::support::{bench, synth};

/// Frames of the clip.
pub const FRAMES: usize = 24;

/// A split of one clip with one object, and a run over it that saved its masks and logits.
pub struct Base {
    pub split: PathBuf,
    pub run: PathBuf,
    _dir: tempfile::TempDir,
}

/// Measured once for all tests; to be copied, not changed.
pub fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), 1, 1, FRAMES);
        let run = dir.path().join("run");
        bench(&split, &run).args(["--save-masks", "--save-logits"]).assert().success();
        Base { split, run, _dir: dir }
    })
}

/// The files of logits of a run, by name.
pub fn logits_files(run: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(run.join("logits")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Turns the logits of frame `t` of every object over: what was the object is the background.
pub fn turn_over(run: &Path, t: usize) {
    for path in logits_files(run) {
        let file = LogitsFile::read(&path).unwrap();
        let values = (0..file.frames()).flat_map(|frame| {
            let turned = frame == t;
            file.frame(frame).unwrap().iter().map(move |&v| if turned { -v } else { v })
        });
        LogitsFile::new(file.side(), values.collect()).unwrap().write(&path).unwrap();
    }
}

/// The masks of the first object of a run.
pub fn masks(run: &Path) -> Vec<Mask> {
    let run = RunFolder::read(run).unwrap();
    let file = run.masks(&run.rows[0].key()).unwrap();
    file.frames.iter().map(|frame| frame.decode().unwrap()).collect()
}

/// The sidecar of a run.
pub fn sidecar(run: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(run.join("sidecar.json")).unwrap()).unwrap()
}
