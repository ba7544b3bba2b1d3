/*!
Predecoded frames on their way to the device: out of the mapped file, or through pinned memory.
*/

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::PassError;
use cuda::{Gpu, MappedFile, Pinned, Stream, View};
use tensorrt::DataType;
use vos::bundle::Contract;
use vos::predecode::{PreparedClip, Values};
use vos::preprocess::tables;
use vos::ranges::within;
use vos::record::FrameTransfer;
use vos::stage::Stage;

/// How the frames of a clip reach the network's input.
pub struct PreparedRoute {
    path: PathBuf,
    mapped: Option<Arc<MappedFile>>,
    half: bool,
    /// The way in the rows.
    pub transfer: FrameTransfer,
    tables: [[f32; 256]; 3],
}

impl PreparedRoute {
    /// The shortest way that frames and platform allow, to a network that takes `image`.
    pub fn new(gpu: &Gpu, prepared: &PreparedClip, image: DataType, contract: &Contract) -> Self {
        let half = image == DataType::Half;
        let direct = half && prepared.header.values == Values::F16;
        let mapped = direct.then(|| MappedFile::register(gpu, prepared.path()));
        let mapped = mapped.and_then(|mapped| {
            mapped.inspect_err(|error| log::info!("frames go through pinned memory: {error}")).ok()
        });
        let transfer = match (&mapped, direct) {
            (Some(_), _) => FrameTransfer::Mapped,
            (None, true) => FrameTransfer::Pinned,
            (None, false) => FrameTransfer::Converted,
        };
        let path = prepared.path().to_owned();
        Self { path, mapped, half, transfer, tables: tables(contract.mean, contract.std) }
    }

    /// Whether it is of this clip.
    pub fn is_of(&self, prepared: &PreparedClip) -> bool {
        self.path == prepared.path()
    }
}

/// A pass's predecoded frames.
#[derive(Clone, Copy)]
pub struct Prepared<'a> {
    /// The frames.
    pub clip: &'a PreparedClip,
    /// Their way.
    pub route: &'a PreparedRoute,
}

/// One frame on its way.
pub struct InputBuffer {
    pinned: Option<Pinned>,
    /// Place in the mapped file, and size.
    mapped: Option<(Arc<MappedFile>, usize, usize)>,
}

impl InputBuffer {
    /// Pinned memory for `bytes` bytes, unless frames go out of the mapped file.
    pub fn new(gpu: &Gpu, route: &PreparedRoute, bytes: usize) -> Result<Self> {
        let needed = route.transfer != FrameTransfer::Mapped;
        let pinned = needed.then(|| Pinned::new(gpu, bytes)).transpose()?;
        Ok(Self { pinned, mapped: None })
    }

    /// Takes frame `index`, on any thread.
    pub fn take(&mut self, prepared: Prepared<'_>, index: usize) -> Result<(), PassError> {
        self.find(prepared, index).map_err(PassError::Other)
    }

    fn find(&mut self, Prepared { clip, route }: Prepared<'_>, index: usize) -> Result<()> {
        if let Some(file) = &route.mapped {
            let (offset, bytes) = clip.place(index)?;
            self.mapped = Some((Arc::clone(file), offset, bytes));
            return Ok(());
        }
        let pinned = self.pinned.as_mut().context("a frame has no pinned memory")?;
        let frame = clip.frame(index)?;
        frame.write_input(clip.header.side, &route.tables, route.half, pinned.bytes()?)
    }

    /// Enqueues the copy to the network's input.
    pub fn enqueue(&mut self, image: &View, stream: &Stream) -> Result<()> {
        within(Stage::Upload, || match (&self.mapped, &mut self.pinned) {
            (Some((file, offset, bytes)), _) => Ok(file.upload(*offset, *bytes, image, stream)?),
            (None, Some(pinned)) => Ok(pinned.upload(image.len(), image, stream)?),
            (None, None) => anyhow::bail!("a frame was not taken"),
        })
    }
}
