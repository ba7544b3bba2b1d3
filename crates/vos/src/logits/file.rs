/*!
`logits/<video>__obj<object>__<tag>.npy` of a run folder: the logits of one object, `<f2`, [frames,
side, side].

numpy reads and writes the same files (`numpy.load`, `numpy.save`), and the PyTorch runner uses it.
*/

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use half::f16;

use super::npy;
use crate::files::atomic;
use crate::record::ObjectKey;

/// The name of an object's file.
pub fn file_name(key: &ObjectKey) -> String {
    format!("{}.npy", key.file_stem())
}

/// The logits of one object, frame by frame from the prompted one on, each `side` × `side`,
/// row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct LogitsFile {
    side: usize,
    values: Vec<f16>,
}

impl LogitsFile {
    /// From `values`, which are whole frames.
    ///
    /// # Errors
    /// The number of values is not a multiple of a frame.
    pub fn new(side: usize, values: Vec<f16>) -> Result<Self> {
        let each = side * side;
        ensure!(
            each > 0 && values.len().is_multiple_of(each),
            "{} logits are not a multiple of {side}x{side}",
            values.len()
        );
        Ok(Self { side, values })
    }

    /// Number of frames.
    pub fn frames(&self) -> usize {
        self.values.len() / (self.side * self.side)
    }

    /// Width and height of each.
    pub fn side(&self) -> usize {
        self.side
    }

    /// Frame `t`, 0 for the prompted one.
    pub fn frame(&self, t: usize) -> Option<&[f16]> {
        let each = self.side * self.side;
        self.values.get(t * each..(t + 1) * each)
    }

    /// Writes it to `path`, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let header = npy::header([self.frames(), self.side, self.side])?;
        atomic::write(path, |out| {
            out.write_all(&header)?;
            for value in &self.values {
                out.write_all(&value.to_le_bytes())?;
            }
            Ok(())
        })
    }

    /// Frames and side of the file at `path`, from its header and length.
    ///
    /// # Errors
    /// It cannot be read, has another kind of array, or is truncated. The message names the file.
    pub fn shape(path: &Path) -> Result<(usize, usize)> {
        open(path).map(|(_, frames, side)| (frames, side))
    }

    /// Reads `path`.
    ///
    /// # Errors
    /// Errors of [`LogitsFile::shape`], or a value is not finite.
    pub fn read(path: &Path) -> Result<Self> {
        let (mut file, frames, side) = open(path)?;
        let mut bytes = Vec::with_capacity(frames * side * side * size_of::<f16>());
        file.read_to_end(&mut bytes).with_context(|| format!("cannot read {}", path.display()))?;
        let pairs = bytes.chunks_exact(size_of::<f16>()).filter_map(|pair| pair.first_chunk());
        let values: Vec<f16> = pairs.map(|pair| f16::from_le_bytes(*pair)).collect();
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            bail!(
                "{}: the logits of frame {} hold {}, expected finite numbers; save them again",
                path.display(),
                at / (side * side),
                values[at]
            );
        }
        Self::new(side, values)
    }
}

/// The file after its header, its number of frames and their side.
fn open(path: &Path) -> Result<(BufReader<File>, usize, usize)> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let length = file.metadata().with_context(|| format!("cannot read {}", path.display()))?.len();
    let mut reader = BufReader::new(file);
    let shape = npy::read_header(&mut reader).with_context(|| path.display().to_string())?;
    let [frames, side, width] = shape;
    ensure!(
        side == width && side > 0,
        "{}: found frames of {width}x{side} logits, expected squares",
        path.display()
    );
    let values = frames.checked_mul(side).and_then(|all| all.checked_mul(side));
    let expected = values.and_then(|values| u64::try_from(values).ok()?.checked_mul(2));
    let begin = std::io::Seek::stream_position(&mut reader)?;
    ensure!(
        expected == length.checked_sub(begin),
        "{}: found {} bytes of logits, expected {} for {frames} frames of {side}x{side}; save them \
         again",
        path.display(),
        length.saturating_sub(begin),
        expected.map_or_else(|| "more than a file can hold".to_owned(), |bytes| bytes.to_string())
    );
    Ok((reader, frames, side))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(frames: usize, side: usize) -> LogitsFile {
        let values = (0..frames * side * side).map(|at| f16::from_f32(at as f32 / 8.0 - 20.0));
        LogitsFile::new(side, values.collect()).unwrap()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        let logits = ramp(3, 4);
        logits.write(&path).unwrap();
        assert_eq!(LogitsFile::read(&path).unwrap(), logits);
        assert_eq!(LogitsFile::shape(&path).unwrap(), (3, 4));
        assert_eq!(logits.frame(1).unwrap()[0], f16::from_f32(-18.0));
        assert_eq!(logits.frame(3), None);
        let key = ObjectKey { video: "v".into(), object: "000".into(), tag: "m_points".into() };
        assert_eq!(file_name(&key), "v__obj000__m_points.npy");
        assert!(LogitsFile::new(4, vec![f16::ZERO; 17]).is_err());
    }

    #[test]
    fn damage_is_named_with_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        let said = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let error = format!("{:#}", LogitsFile::read(&path).unwrap_err());
            assert!(error.contains("a.npy"), "{error}");
            error
        };
        ramp(2, 4).write(&path).unwrap();
        let good = std::fs::read(&path).unwrap();
        assert!(said(&good[..good.len() - 1]).contains("found 63 bytes of logits, expected 64"));
        assert!(said(&[&good[..], &[0]].concat()).contains("found 65 bytes"));
        let mut bad = good.clone();
        bad[128 + 2 * 17..][..2].copy_from_slice(&f16::NAN.to_le_bytes());
        assert!(said(&bad).contains("frame 1 hold NaN"));
        let wide = [&super::npy::header([2, 4, 8]).unwrap()[..], &[0; 128]].concat();
        assert!(said(&wide).contains("8x4"));
        let huge = super::npy::header([usize::MAX, 1 << 40, 1 << 40]).unwrap();
        assert!(said(&huge).contains("more than a file can hold"));
        assert!(said(b"").contains("less than a header"));
        let gone = LogitsFile::read(&dir.path().join("gone.npy")).unwrap_err();
        assert!(format!("{gone:#}").contains("gone.npy"));
    }
}
