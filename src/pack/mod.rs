/*!
One tar that the owner of a board unpacks to get engines and measurements with one command: graphs,
platform table, and a script (`run.sh`) that builds, tests and measures there, where TensorRT and
its GPU are.

[`plan`] decides what goes in, [`contents`] lists it file by file, [`archive`] writes it: the same
input gives the same bytes.
*/

mod archive;
mod clips;
mod contents;
mod plan;
mod readme;

use std::path::Path;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use contents::{Entry, PackedFrom};
pub use plan::{PackPlan, Wanted, plan};
use vos::files::{atomic, sha256_of_file};

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The folder that unpacking makes.
    pub folder: String,
    /// Files in it.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: u64,
    /// Links that led out of the split, in sentences.
    pub warnings: Vec<String>,
}

/// Writes the pack, whole or not at all.
///
/// # Errors
/// A graph that is not the one of its manifest, a file that cannot be read, no space for the pack;
/// a pack that is there already unless `force`.
pub fn write(plan: &PackPlan, out: &Path, force: bool) -> Result<Packed> {
    if out.exists() && !force {
        bail!("{} exists; choose another --out, or replace it with --force", out.display());
    }
    let (mut entries, warnings) = contents::list(plan)?;
    let mut sums = Vec::with_capacity(entries.len());
    for entry in &entries {
        let sum = sum(entry)?;
        if let Some(expected) = entry.sha256.as_ref().filter(|expected| **expected != sum.sha256) {
            bail!(
                "{} is not the {} of its manifest: sha256 found {}, expected {expected}; export \
                 the model again or restore the file",
                entry.origin(),
                if entry.name.ends_with(".onnx") { "graph" } else { "file" },
                sum.sha256
            );
        }
        sums.push(sum);
    }
    let listed =
        entries.iter().zip(&sums).map(|(entry, sum)| format!("{}  {}\n", sum.sha256, entry.name));
    let list = listed.collect::<String>().into_bytes();
    sums.push(Sum { sha256: String::new(), bytes: list.len() as u64 });
    entries.push(Entry::made("SHA256SUMS", list));
    let folder = format!("segtrt-pack-{}", plan.platform.name);
    let bytes = sums.iter().map(|sum| sum.bytes).sum();
    let packed = Packed { files: entries.len(), bytes, folder, warnings };
    atomic::write(out, |file| archive::write(file, &packed.folder, &entries, &sums))?;
    Ok(packed)
}

/// Hash and size of one file of a pack.
struct Sum {
    sha256: String,
    bytes: u64,
}

fn sum(entry: &Entry) -> Result<Sum> {
    Ok(match &entry.source {
        PackedFrom::Made(bytes) => {
            Sum { sha256: format!("{:x}", Sha256::digest(bytes)), bytes: bytes.len() as u64 }
        }
        // Reading a pipe would wait for ever.
        PackedFrom::File(path) if !path.is_file() => {
            bail!("cannot pack {}: it is no regular file", path.display())
        }
        PackedFrom::File(path) => {
            let hash =
                sha256_of_file(path).with_context(|| format!("cannot pack {}", entry.name))?;
            Sum { sha256: hash.sha256, bytes: hash.bytes }
        }
    })
}
