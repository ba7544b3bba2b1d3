/*!
Compares a clip's masks on the GPU and on the CPU: a bench without errors may still have computed
wrong masks.

The limit is wide on purpose: small masks and diverging memories lower the IoU of correct engines.
The test finds installations that compute something else. `segtrt compare` has the narrow limits.
*/

use std::fmt;

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use report::compare::iou_format;
use report::compare::runs::MaskFile;
use vos::stats;

/// Mean IoU over all frames in which either has a mask, below which the GPU's masks are others.
const LEAST_MEAN: f64 = 0.9;

/// How near masks are to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Mean IoU over all frames of all objects in which either has a mask.
    pub mean: f64,
    /// The lowest of them.
    pub lowest: f64,
    /// How many they are.
    pub masks: usize,
}

impl fmt::Display for Agreement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mean, lowest, masks } = *self;
        write!(
            out,
            "IoU with the CPU's masks {} in the mean and {} at least, {masks} masks",
            iou_format::mean(mean),
            iou_format::frame(lowest)
        )
    }
}

impl Agreement {
    /// # Errors
    /// The masks are too far from each other.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.mean >= LEAST_MEAN,
            "{self}; {LEAST_MEAN} are expected in the mean: the GPU computes something else"
        );
        Ok(())
    }
}

/// Compares the folders `masks` of two benches over the same clips, object by object and frame by
/// frame.
///
/// # Errors
/// Masks that are missing, damaged, or of other frames; or none has a pixel.
pub fn same_masks(cpu: &Path, gpu: &Path) -> Result<Agreement> {
    let mut ious = Vec::new();
    for name in names(&cpu.join("masks"))? {
        let read = |run: &Path| -> Result<MaskFile> {
            let path = run.join("masks").join(&name);
            let text = std::fs::read(&path)
                .with_context(|| format!("the bench left no {}", path.display()))?;
            serde_json::from_slice(&text)
                .with_context(|| format!("{} is no file of masks", path.display()))
        };
        ious.extend(agreement(&read(cpu)?, &read(gpu)?).with_context(|| name.clone())?);
    }
    let (Some(mean), Some(lowest)) = (stats::mean(&ious), ious.iter().copied().reduce(f64::min))
    else {
        bail!("no mask of either has a pixel: nothing could be compared");
    };
    Ok(Agreement { mean, lowest, masks: ious.len() })
}

/// Files of masks in a folder, by name.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("the bench left no {}", folder.display()))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".json")).collect();
    names.sort();
    Ok(names)
}

/// IoU of each frame in which either has a mask.
fn agreement(one: &MaskFile, other: &MaskFile) -> Result<Vec<f64>> {
    let of = |file: &MaskFile| file.frames.iter().map(|frame| frame.frame).collect::<Vec<_>>();
    ensure!(
        of(one) == of(other),
        "{} frames have masks of the CPU, {} of the GPU",
        one.frames.len(),
        other.frames.len()
    );
    let mut ious = Vec::new();
    for (one, other) in one.frames.iter().zip(&other.frames) {
        let (one, other, frame) = (one.decode()?, other.decode()?, one.frame);
        ensure!(one.same_size(&other), "the masks of frame {frame} differ in size");
        match one.intersection_union(&other) {
            (_, 0) => {}
            (both, either) => ious.push(both as f64 / either as f64),
        }
    }
    Ok(ious)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::mask::Mask;
    use vos::rle::Rle;

    /// A run whose masks of four frames cover these columns of ten.
    fn run(columns: [usize; 4]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("masks")).unwrap();
        let frames = columns.iter().enumerate().map(|(frame, columns)| {
            let mask = Rle::plain(&Mask::from_fn(10, 4, |x, _| x < *columns));
            serde_json::json!({ "frame": frame, "mask": mask })
        });
        let file = serde_json::json!({ "frames": frames.collect::<Vec<_>>() });
        let path = dir.path().join("masks/synth_000__obj000__mini.json");
        std::fs::write(path, file.to_string()).unwrap();
        dir
    }

    fn told(cpu: [usize; 4], gpu: [usize; 4]) -> Result<String, String> {
        let agreement = same_masks(run(cpu).path(), run(gpu).path());
        let checked = agreement.and_then(|found| found.check().map(|()| found.to_string()));
        checked.map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn masks_of_the_gpu_are_those_of_the_cpu_or_the_step_fails() {
        let same = told([8, 8, 0, 5], [8, 8, 0, 5]).unwrap();
        assert_eq!(
            same,
            "IoU with the CPU's masks 1.00000 in the mean and 1.0000 at least, 3 masks"
        );
        let near = told([10, 10, 10, 10], [10, 10, 10, 8]).unwrap();
        assert!(near.contains("0.95000 in the mean and 0.8000 at least, 4 masks"), "{near}");
        let other = told([8, 8, 8, 8], [8, 2, 2, 2]).unwrap_err();
        assert!(other.contains("the GPU computes something else"), "{other}");
        let empty = told([8, 8, 8, 8], [0, 0, 0, 0]).unwrap_err();
        assert!(empty.contains("IoU with the CPU's masks 0.00000 in the mean"), "{empty}");
        assert!(told([0; 4], [0; 4]).unwrap_err().contains("nothing could be compared"));
    }

    #[test]
    fn masks_that_are_not_there_are_named() {
        let (cpu, gpu) = (run([8; 4]), tempfile::tempdir().unwrap());
        let error = format!("{:#}", same_masks(cpu.path(), gpu.path()).unwrap_err());
        assert!(
            error.contains("the bench left no") && error.contains("synth_000__obj000"),
            "{error}"
        );
        assert!(same_masks(gpu.path(), cpu.path()).is_err(), "nothing was compared");
    }
}
