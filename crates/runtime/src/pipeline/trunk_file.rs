/*!
The trunk of an engine folder, before it is laid out on a device.
*/

use std::cell::Cell;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::trunk_room::Room;
use crate::engine::{EngineManifest, open_trunk};
use vos::bundle::trunk::Trunk;
use vos::bundle::{KeyWeights, TrunkWeights};

/// A trunk beside the engines of a folder.
pub struct TrunkFile {
    dir: PathBuf,
    pub(super) manifest: EngineManifest,
    pub(super) trunk: Trunk,
    /// From when the keys' weights were read to when the trunk is laid out: reading and hashing hundreds of megabytes twice would double the wait.
    opened: Cell<Option<TrunkWeights>>,
}

impl TrunkFile {
    /// Of the engines in `dir`; the file is opened for the keys' weights or when the trunk is laid out, and let go of then.
    pub fn new(dir: &Path, manifest: &EngineManifest, trunk: &Trunk) -> Self {
        let (dir, manifest, trunk) = (dir.to_owned(), manifest.clone(), trunk.clone());
        Self { dir, manifest, trunk, opened: Cell::new(None) }
    }

    /// The weights of the memory attention's keys beside those of the blocks, for which the file stays open.
    ///
    /// # Errors
    /// Weights that are missing or damaged, or a file without keys.
    pub(super) fn keys(&self) -> Result<KeyWeights> {
        let file = self.open()?;
        let keys = file.keys().context("the trunk's file has no keys")?.clone();
        self.opened.set(Some(file));
        Ok(keys)
    }

    /// The weights of its blocks.
    ///
    /// # Errors
    /// Weights that are missing or damaged.
    pub(super) fn open(&self) -> Result<TrunkWeights> {
        self.opened.take().map_or_else(|| open_trunk(&self.dir, &self.manifest), Ok)
    }

    /// Bytes of shared memory that it works in.
    pub fn scratch_bytes(&self) -> u64 {
        Room::of(&self.trunk).bytes() as u64
    }
}
