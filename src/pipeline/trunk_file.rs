/*!
The trunk of an engine folder, before it is laid out on a device.
*/

use std::path::{Path, PathBuf};

use super::trunk_room::Room;
use crate::bundle::trunk::Trunk;
use crate::engine::EngineManifest;

/// A trunk beside the engines of a folder.
pub struct TrunkFile {
    pub(super) dir: PathBuf,
    pub(super) manifest: EngineManifest,
    pub(super) trunk: Trunk,
}

impl TrunkFile {
    /// Of the engines in `dir`; the file is opened when the trunk is laid out, and let go of then.
    pub fn new(dir: &Path, manifest: &EngineManifest, trunk: &Trunk) -> Self {
        Self { dir: dir.to_owned(), manifest: manifest.clone(), trunk: trunk.clone() }
    }

    /// Bytes of shared memory that it works in.
    pub fn scratch_bytes(&self) -> u64 {
        Room::of(&self.trunk).bytes() as u64
    }
}
