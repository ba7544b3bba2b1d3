/*!
Files of weights that lie beside graphs, and beside the plans that are built of them: what this
program's own kernels compute with.
*/

use anyhow::{Context, Result, bail};

use super::Bundle;
use super::decoder::{self, Decoder};
use super::manifest::Manifest;
use super::memory_encoder::{self, MemoryEncoder};
use super::trunk::{self, Trunk};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightsFile<'m> {
    /// What it is called among the graphs: `encoder_trunk`, `track_decoder`, `memory_encoder`.
    pub graph: &'static str,
    /// The same in words, behind "the": "encoder's trunk".
    pub what: &'static str,
    /// Its name beside the manifest.
    pub file: &'m str,
    /// SHA-256 of it.
    pub sha256: &'m str,
}

/// Every one that a folder may have: its name, and what it is of.
pub const KNOWN: [(&str, &str); 3] =
    [(trunk::FILE, TRUNK), (decoder::FILE, DECODER), (memory_encoder::FILE, MEMORY)];

const TRUNK: &str = "encoder's trunk";
const DECODER: &str = "mask decoder";
const MEMORY: &str = "memory encoder";

impl Trunk {
    /// The file of its weights.
    pub fn weights_file(&self) -> WeightsFile<'_> {
        let Self { file, sha256, .. } = self;
        WeightsFile { graph: trunk::GRAPH, what: TRUNK, file, sha256 }
    }
}

impl Decoder {
    /// The file of its weights.
    pub fn weights_file(&self) -> WeightsFile<'_> {
        let Self { file, sha256, .. } = self;
        WeightsFile { graph: decoder::GRAPH, what: DECODER, file, sha256 }
    }
}

impl MemoryEncoder {
    /// The file of its weights.
    pub fn weights_file(&self) -> WeightsFile<'_> {
        let Self { file, sha256, .. } = self;
        WeightsFile { graph: memory_encoder::GRAPH, what: MEMORY, file, sha256 }
    }
}

/// A manifest's `file` lies beside it: one that points elsewhere would have a stranger's bundle
/// name any file of this machine.
///
/// # Errors
/// A path, or no name at all.
pub fn check_beside(file: &str) -> Result<()> {
    if matches!(file, "" | "." | "..") || file.contains(['/', '\0']) {
        bail!("it names {file:?}; expected the name of a file beside it, without a path");
    }
    Ok(())
}

impl Manifest {
    /// The files that it names, and the parts of the bundle's own name, are plain names.
    ///
    /// # Errors
    /// As those of [`check_beside`].
    pub fn check_names(&self) -> Result<()> {
        let graphs = self.graphs.iter().map(|graph| graph.file.as_str());
        graphs
            .chain(self.weights_files().map(|weights| weights.file))
            .try_for_each(check_beside)?;
        [&self.model.name, &self.model.precision]
            .into_iter()
            .try_for_each(|name| check_beside(name))
    }

    /// All of a bundle's.
    pub fn weights_files(&self) -> impl Iterator<Item = WeightsFile<'_>> {
        let trunk = self.trunk.iter().map(Trunk::weights_file);
        let decoder = self.decoder.iter().map(Decoder::weights_file);
        trunk.chain(decoder).chain(self.memory_encoder.iter().map(MemoryEncoder::weights_file))
    }
}

impl Bundle {
    /// The whole file of weights that is called so among the graphs, checked against the manifest.
    ///
    /// # Errors
    /// The bundle has none, or it is missing, damaged or not the manifest's.
    pub fn weights(&self, graph: &str) -> Result<Vec<u8>> {
        let bytes = match graph {
            trunk::GRAPH => self.trunk_weights()?.map(|weights| weights.file().to_vec()),
            decoder::GRAPH => self.decoder_weights()?.map(|weights| weights.file().to_vec()),
            memory_encoder::GRAPH => self.memory_weights()?.map(|weights| weights.file().to_vec()),
            _ => None,
        };
        bytes.with_context(|| format!("the bundle {} has no {graph}", self.name()))
    }

    /// That all files of weights are there, and those of the manifest.
    ///
    /// # Errors
    /// As those of [`Self::weights`].
    pub fn verify_weights(&self) -> Result<()> {
        self.manifest.weights_files().try_for_each(|file| self.weights(file.graph).map(drop))
    }
}
