/*!
Hashes of fetched files.
*/

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The published hash of a file, in lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// SHA-256 of the content.
    Sha256(String),
    /// SHA-1 of `blob SIZE\0` and the content: the name that git gives to a file.
    GitBlob(String),
}

impl Check {
    /// Whether the file has this hash; the inner error is a phrase with both hashes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn verify(&self, path: &Path) -> Result<Result<(), String>> {
        let (name, wanted, found) = match self {
            Self::Sha256(wanted) => ("SHA-256", wanted, sha256(path)?),
            Self::GitBlob(wanted) => ("git blob", wanted, git_blob(path)?),
        };
        Ok(match found == *wanted {
            true => Ok(()),
            false => Err(format!("its {name} is {found}, expected {wanted}")),
        })
    }
}

/// SHA-256 of a file.
///
/// # Errors
/// It cannot be read.
pub fn sha256(path: &Path) -> Result<String> {
    digest(path, Sha256::new())
}

fn git_blob(path: &Path) -> Result<String> {
    let bytes = path.metadata().with_context(|| format!("cannot read {}", path.display()))?.len();
    let mut hash = Sha1::new();
    hash.update(format!("blob {bytes}\0"));
    digest(path, hash)
}

fn digest(path: &Path, mut hash: impl Digest) -> Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let mut file = File::open(path).with_context(cannot)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer).with_context(cannot)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a file begins as an HTML page does.
pub(super) fn looks_like_a_page(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(256).read_to_end(&mut start));
    let text = String::from_utf8_lossy(&start).trim_start().to_ascii_lowercase();
    read.is_ok() && (text.starts_with("<!doctype html") || text.starts_with("<html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_sha256sum_and_git() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "hello\n").unwrap();
        // From `sha256sum` and `git hash-object`.
        let sha = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let blob = "ce013625030ba8dba906f756967f9e9ca394464a";
        assert_eq!(Check::Sha256(sha.into()).verify(&path).unwrap(), Ok(()));
        assert_eq!(Check::GitBlob(blob.into()).verify(&path).unwrap(), Ok(()));
        let told = Check::GitBlob("0".into()).verify(&path).unwrap().unwrap_err();
        assert!(told.contains(blob) && told.contains("expected 0"), "{told}");
        assert!(!looks_like_a_page(&path));
        std::fs::write(&path, "\n<!DOCTYPE HTML><title>Log in").unwrap();
        assert!(looks_like_a_page(&path));
    }
}
