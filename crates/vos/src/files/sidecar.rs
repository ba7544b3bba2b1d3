/*!
`sidecar.json`: information without a column in the CSVs, so that a number can be traced and
repeated: the environment, the settings, hashes of every input and graph, and each frame's raw
times.
*/

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::record::ModelMemory;

/// File name.
pub const FILE_NAME: &str = "sidecar.json";

/// The caller's facts about the run; the store adds settings and raw times.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sidecar {
    /// Machine, operating system, library versions.
    pub environment: Map<String, Value>,
    /// The work inside and outside the timed region, as a sentence.
    pub timed_region: String,
    /// Clip or mask folder → its hash.
    pub inputs: BTreeMap<String, FileHash>,
    /// Graph and engine files → their hash.
    pub graphs: BTreeMap<String, FileHash>,
    /// Model tag → its memory, where something is known of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: BTreeMap<String, ModelMemory>,
}

impl Sidecar {
    /// Copies these facts of the environment, and the models' memory, from the sidecar in
    /// `directory`, if it has them.
    pub fn keep_environment(&mut self, directory: &Path, names: &[&str]) {
        #[derive(Deserialize)]
        struct Earlier {
            environment: Map<String, Value>,
            #[serde(default)]
            memory: BTreeMap<String, ModelMemory>,
        }
        let file = File::open(directory.join(FILE_NAME)).map(BufReader::new);
        let earlier = file.ok().and_then(|file| serde_json::from_reader::<_, Earlier>(file).ok());
        let Some(Earlier { environment, memory }) = earlier else { return };
        self.memory.extend(memory);
        for (name, value) in environment {
            if names.contains(&name.as_str()) {
                self.environment.insert(name, value);
            }
        }
    }
}

/// The hash of one file, or of a folder's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHash {
    /// sha256 in hex.
    pub sha256: String,
    /// Size, bytes.
    pub bytes: u64,
}

/// Hash of one file.
pub fn sha256_of_file(path: &Path) -> Result<FileHash> {
    sha256_of_files([path])
}

/// One hash over several files in order (a clip's frames). Lengths are hashed too, so that moving
/// bytes from one file to the next changes the hash.
pub fn sha256_of_files(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<FileHash> {
    let mut hasher = Sha256::new();
    let (mut bytes, mut files) = (0, 0);
    let mut first_length = 0;
    for path in paths {
        let path = path.as_ref();
        let length = File::open(path)
            .and_then(|mut file| io::copy(&mut file, &mut hasher))
            .with_context(|| format!("cannot read {} to hash it", path.display()))?;
        if files == 0 {
            first_length = length;
        } else {
            // A single file has the same hash as with `sha256sum`.
            if files == 1 {
                hasher.update(first_length.to_le_bytes());
            }
            hasher.update(length.to_le_bytes());
        }
        bytes += length;
        files += 1;
    }
    Ok(FileHash { sha256: format!("{:x}", hasher.finalize()), bytes })
}

/// Writes the sidecar: `head` unchanged, then one member `passes` with an entry for each item.
///
/// The entries are streamed, because the raw times of a large run do not fit into memory.
pub(super) fn write(
    out: &mut impl Write,
    head: &Map<String, Value>,
    passes: impl IntoIterator<Item = Result<Value>>,
) -> Result<()> {
    out.write_all(b"{\n")?;
    for (name, value) in head {
        let value = serde_json::to_string_pretty(value)?.replace('\n', "\n  ");
        writeln!(out, "  {}: {value},", Value::from(name.as_str()))?;
    }
    out.write_all(b"  \"passes\": [")?;
    for (index, pass) in passes.into_iter().enumerate() {
        out.write_all(if index == 0 { b"\n    " } else { b",\n    " })?;
        serde_json::to_writer(&mut *out, &pass?)?;
    }
    Ok(out.write_all(b"\n  ]\n}\n")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_the_hash_that_sha256sum_prints() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "abc").unwrap();
        let hash = sha256_of_file(&path).unwrap();
        assert_eq!(hash.bytes, 3);
        assert_eq!(hash.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn several_files_hash_by_content_order_and_boundary() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let (ab, c, a, bc) = (file("1", "ab"), file("2", "c"), file("3", "a"), file("4", "bc"));
        let hash = |paths: [&Path; 2]| sha256_of_files(paths).unwrap().sha256;
        assert_ne!(hash([&ab, &c]), hash([&a, &bc]));
        assert_ne!(hash([&ab, &c]), hash([&c, &ab]));
        let missing = sha256_of_file(&dir.path().join("gone")).unwrap_err();
        assert!(format!("{missing:#}").contains("gone to hash it"));
    }
}
