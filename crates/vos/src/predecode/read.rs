/*!
Reads predecoded frames for the bench: maps the file, checks all of it, and converts one frame at a
time to the network's input.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use half::f16;
use half::slice::HalfFloatSliceExt;
use mmap_io::MemoryMappedFile;
use sha2::{Digest, Sha256};
use zerocopy::FromBytes;

use super::error::{CacheError, command};
use super::format::{FrameSource, HEADER_BYTES, Header, SUFFIX, TRAILER_BYTES, file_name};
use crate::dataset::Clip;
use crate::files::sha256_of_files;
use crate::geometry::Geometry;
use crate::stored_values::Values;
use host::shell;

/// One clip's predecoded frames.
pub struct PreparedClip {
    path: PathBuf,
    map: Mapped,
    /// The file's header.
    pub header: Header,
    frame_bytes: usize,
}

/// One frame of the clip.
#[derive(Clone, Copy, Debug)]
pub struct PreparedFrame<'a> {
    values: Values,
    side: usize,
    /// Three planes.
    bytes: &'a [u8],
}

/// Requirements of a bench.
#[derive(Clone, Copy, Debug)]
pub struct WantedFrames<'a> {
    /// The clip.
    pub clip: &'a Clip,
    /// How its frames become squares.
    pub geometry: &'a Geometry,
    /// Kind of the values.
    pub values: Values,
    /// Mean and standard deviation of the network's training.
    pub normalisation: [[f32; 3]; 2],
}

impl PreparedClip {
    /// Maps a file and checks its header and length, not yet its contents.
    ///
    /// # Errors
    /// It is missing, unreadable, or another kind of file.
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        let damaged = |reason: String| CacheError::Damaged { path: path.to_owned(), reason };
        let length = match std::fs::metadata(path) {
            Ok(meta) if meta.is_file() => meta.len(),
            Ok(_) => return Err(damaged("it is not a file".to_owned())),
            Err(error) => {
                let (path, reason) = (path.to_owned(), error.to_string());
                return Err(CacheError::Unreadable { path, reason });
            }
        };
        if length < (HEADER_BYTES + TRAILER_BYTES) as u64 {
            return Err(damaged(format!("it has {length} bytes, less than its header")));
        }
        let map = Mapped::open(path)
            .map_err(|reason| CacheError::Unreadable { path: path.to_owned(), reason })?;
        let page = map.bytes().get(..HEADER_BYTES).unwrap_or_default();
        let header = Header::parse(page).map_err(damaged)?;
        let sizes = header.frame_bytes().zip(header.file_bytes());
        let Some((frame_bytes, expected)) = sizes.filter(|(frame, _)| *frame > 0) else {
            return Err(damaged("its header states impossible sizes".to_owned()));
        };
        if map.bytes().len() != expected {
            let found = map.bytes().len();
            return Err(damaged(format!(
                "it has {found} bytes, expected {expected} by its header"
            )));
        }
        Ok(Self { path: path.to_owned(), map, header, frame_bytes })
    }

    /// Opens the matching file in `dir` and checks all of it: settings, source files, every byte.
    ///
    /// It is missing, damaged, or has other settings or sources.
    pub fn for_bench(dir: &Path, wanted: &WantedFrames<'_>) -> Result<Self, CacheError> {
        let WantedFrames { clip, geometry, values, normalisation } = *wanted;
        let path = dir.join(file_name(&clip.video, geometry.side(), geometry.kind(), values));
        let command = command(dir, geometry.side(), geometry.kind(), values);
        if !path.exists() {
            return Err(CacheError::Missing { path, command });
        }
        let prepared = Self::open(&path)?;
        let source = source_of(clip).map_err(|error| {
            let reason = format!("{error:#}");
            CacheError::Unreadable { path: path.clone(), reason }
        })?;
        let expected = Header::new(clip, geometry, values, normalisation, source);
        if let Some(what) = prepared.header.differs(&expected) {
            return Err(CacheError::Stale { path, what, command });
        }
        prepared.verify()?;
        Ok(prepared)
    }

    /// Compares the contents with the checksum at the end and looks for values that are not finite,
    /// which would look like an error of the network. Every byte is read, so the frames are in
    /// memory afterwards if there is space.
    ///
    /// They differ, or there is such a value.
    pub fn verify(&self) -> Result<(), CacheError> {
        let bytes = self.map.bytes();
        let (content, trailer) = bytes.split_at(bytes.len() - TRAILER_BYTES);
        let damaged = |reason| CacheError::Damaged { path: self.path.clone(), reason };
        if Sha256::digest(content).as_slice() != trailer {
            let reason = "its checksum differs from its contents";
            return Err(damaged(reason.to_owned()));
        }
        if self.header.values == Values::U8 {
            return Ok(());
        }
        let finite = |pair: &[u8]| f16::from_le_bytes([pair[0], pair[1]]).is_finite();
        let frames = content[HEADER_BYTES..].chunks_exact(self.frame_bytes);
        match frames.enumerate().find(|(_, frame)| !frame.chunks_exact(2).all(finite)) {
            Some((frame, _)) => {
                Err(damaged(format!("frame {frame} has values that are not finite")))
            }
            None => Ok(()),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Place and size of frame `index` in the file, bytes.
    ///
    /// # Errors
    /// The clip has fewer frames.
    pub fn place(&self, index: usize) -> Result<(usize, usize)> {
        self.frame(index)?;
        Ok((HEADER_BYTES + index * self.frame_bytes, self.frame_bytes))
    }

    /// Frame `index` of the clip.
    ///
    /// # Errors
    /// The clip has fewer frames.
    pub fn frame(&self, index: usize) -> Result<PreparedFrame<'_>> {
        let begin = HEADER_BYTES + index.saturating_mul(self.frame_bytes);
        let bytes = self.map.bytes().get(begin..begin.saturating_add(self.frame_bytes));
        let bytes = bytes.filter(|_| index < self.header.frames).with_context(|| {
            format!("{} has {} frames, not {index}", self.path.display(), self.header.frames)
        })?;
        Ok(PreparedFrame { values: self.header.values, side: self.header.side, bytes })
    }
}

impl PreparedFrame<'_> {
    /// Writes the network's input, `3 * side * side` values; `tables` has the network's value for
    /// each channel and byte.
    ///
    /// # Errors
    /// The frame's side differs from the network's.
    pub fn widen(&self, side: usize, tables: &[[f32; 256]; 3], out: &mut Vec<f32>) -> Result<()> {
        if side != self.side {
            bail!("the predecoded frame has side {}, the network {side}", self.side);
        }
        let plane = side * side;
        out.resize(3 * plane, 0.0);
        match self.values {
            Values::U8 => {
                let planes = out.chunks_exact_mut(plane).zip(self.bytes.chunks_exact(plane));
                for ((out, bytes), table) in planes.zip(tables) {
                    for (value, &byte) in out.iter_mut().zip(bytes) {
                        *value = table[usize::from(byte)];
                    }
                }
            }
            Values::F16 => match <[f16]>::ref_from_bytes(self.bytes) {
                // Frames are aligned in the file; on a big-endian CPU bytes are converted one by
                // one.
                Ok(halves) if cfg!(target_endian = "little") => halves.convert_to_f32_slice(out),
                _ => {
                    for (value, pair) in out.iter_mut().zip(self.bytes.chunks_exact(2)) {
                        *value = f16::from_le_bytes([pair[0], pair[1]]).to_f32();
                    }
                }
            },
        }
        Ok(())
    }
}

impl PreparedFrame<'_> {
    /// Writes the network's input as little-endian numbers of 4 bytes, or of 2 with `half`.
    ///
    /// # Errors
    /// The frame's side differs from the network's, or `out` has another size.
    pub fn write_input(
        &self,
        side: usize,
        tables: &[[f32; 256]; 3],
        half: bool,
        out: &mut [u8],
    ) -> Result<()> {
        let bytes = if half { size_of::<f16>() } else { size_of::<f32>() };
        if side != self.side || out.len() != 3 * side * side * bytes {
            bail!("the predecoded frame has side {}, the network {side}", self.side);
        }
        let plane = side * side;
        match (self.values, half) {
            (Values::F16, true) => out.copy_from_slice(self.bytes),
            (Values::F16, false) => {
                for (to, pair) in out.chunks_exact_mut(bytes).zip(self.bytes.chunks_exact(2)) {
                    to.copy_from_slice(
                        &f16::from_le_bytes([pair[0], pair[1]]).to_f32().to_le_bytes(),
                    );
                }
            }
            (Values::U8, _) => {
                let planes =
                    out.chunks_exact_mut(plane * bytes).zip(self.bytes.chunks_exact(plane));
                for ((out, stored), table) in planes.zip(tables) {
                    let halves = table.map(|value| f16::from_f32(value).to_le_bytes());
                    for (to, &byte) in out.chunks_exact_mut(bytes).zip(stored) {
                        match half {
                            true => to.copy_from_slice(&halves[usize::from(byte)]),
                            false => to.copy_from_slice(&table[usize::from(byte)].to_le_bytes()),
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// The hash of a clip's frame files.
pub(super) fn source_of(clip: &Clip) -> Result<FrameSource> {
    let hash = sha256_of_files(clip.frames.files())?;
    Ok(FrameSource { sha256: hash.sha256, bytes: hash.bytes })
}

/// The kind of values in `dir`, from its file names.
///
/// # Errors
/// There are no files, or files of both kinds.
pub fn values_in(dir: &Path) -> Result<Values> {
    let entries = std::fs::read_dir(dir).with_context(|| {
        format!(
            "cannot list {}; write predecoded frames with: segtrt predecode --split-dir SPLIT \
             --out-dir {}",
            dir.display(),
            shell::path(dir)
        )
    })?;
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let has = |values: &Values| {
        let end = format!("_{}{SUFFIX}", values.name());
        names.iter().any(|name| name.ends_with(&end))
    };
    let there: Vec<Values> = Values::ALL.into_iter().filter(has).collect();
    match there.as_slice() {
        [only] => Ok(*only),
        [] => bail!(
            "{} has no predecoded frames (*{SUFFIX}); write them with: segtrt predecode \
             --split-dir SPLIT --out-dir {}",
            dir.display(),
            shell::path(dir)
        ),
        _ => bail!(
            "{} has u8 and f16 frames, but a bench uses one kind; keep a folder for each",
            dir.display()
        ),
    }
}

/// A read-only memory-mapped file.
///
/// If a mapped file is truncated, the reading process dies. So files are replaced by renaming,
/// which leaves a map of the old one intact, and they are read in a worker process, whose death
/// costs one object.
struct Mapped(MemoryMappedFile);

impl Mapped {
    /// Maps `path`.
    ///
    /// # Errors
    /// The system's message. An empty file cannot be mapped.
    fn open(path: &Path) -> Result<Self, String> {
        MemoryMappedFile::open_ro(path).map(Self).map_err(|error| error.to_string())
    }

    /// All bytes.
    fn bytes(&self) -> &[u8] {
        // A read-only map always has its bytes; if not, the file's checks fail with a message.
        self.0.as_slice_bytes(0, self.0.len()).unwrap_or_default()
    }
}
