/*!
The timing cache as a file: what earlier builds measured, replayed only on the very stack that
measured it. Which files there are: [`timing_files`](super::timing_files).

TensorRT for RTX takes any bytes as a cache, and 8.x warns and goes on with a foreign one; so the
file says for which release and GPU it is and carries its own hash.
*/

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use vos::files::atomic;

const MAGIC: &[u8] = b"segtrt timing cache 1\n";

#[derive(Serialize, Deserialize)]
struct Header {
    tensorrt: String,
    device: String,
    sha256: String,
}

/// Reads the cache of this release and GPU.
///
/// `Ok(None)`: no file. `Err`: why a file that is there is not used, as a phrase; a build then
/// starts without one.
pub fn read(path: &Path, tensorrt: &str, device: &str) -> Result<Option<Vec<u8>>, String> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
    };
    let damaged = || format!("{} is damaged or no timing cache of segtrt", path.display());
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(damaged)?;
    let end = rest.iter().position(|&byte| byte == b'\n').ok_or_else(damaged)?;
    let header: Header = serde_json::from_slice(&rest[..end]).map_err(|_| damaged())?;
    let cache = &rest[end + 1..];
    if hash(cache) != header.sha256 {
        return Err(damaged());
    }
    if header.tensorrt != tensorrt || header.device != device {
        return Err(format!(
            "{} is of {} on {}, this is {tensorrt} on {device}",
            path.display(),
            header.tensorrt,
            header.device
        ));
    }
    Ok(Some(cache.to_vec()))
}

/// Writes the cache of this release and GPU.
pub fn write(path: &Path, tensorrt: &str, device: &str, cache: &[u8]) -> Result<()> {
    let header =
        Header { tensorrt: tensorrt.to_owned(), device: device.to_owned(), sha256: hash(cache) };
    atomic::write(path, |out| {
        out.write_all(MAGIC)?;
        serde_json::to_writer(&mut *out, &header)?;
        out.write_all(b"\n")?;
        Ok(out.write_all(cache)?)
    })
}

/// Runs `work` while no other build has the files beside `path` in hand: builds that end at the
/// same time wait for one another.
///
/// # Errors
/// Of `work`, or the folder cannot be locked.
pub fn locked<T>(path: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    // The folder itself is locked: a file for it would be left behind. Released when the handle
    // goes.
    let _lock = std::fs::File::open(folder)
        .and_then(|handle| handle.lock().map(|()| handle))
        .with_context(|| format!("cannot lock {}", folder.display()))?;
    work()
}

fn hash(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_stack_that_measured_gets_its_cache_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("timing");
        assert_eq!(read(&path, "TensorRT 8.6.0", "H200"), Ok(None));
        write(&path, "TensorRT 8.6.0", "H200", b"\x00\nmeasured").unwrap();
        let back = read(&path, "TensorRT 8.6.0", "H200").unwrap().unwrap();
        assert_eq!(back, b"\x00\nmeasured");
        let why = read(&path, "TensorRT 10.3.0", "H200").unwrap_err();
        assert!(why.contains("TensorRT 8.6.0 on H200, this is TensorRT 10.3.0"), "{why}");
        assert!(read(&path, "TensorRT 8.6.0", "Orin").is_err());
    }

    #[test]
    fn a_flipped_bit_or_a_foreign_file_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("timing");
        write(&path, "a", "b", b"measured").unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(read(&path, "a", "b").unwrap_err().contains("damaged"));
        std::fs::write(&path, "ftrt").unwrap();
        assert!(read(&path, "a", "b").unwrap_err().contains("damaged"));
    }
}
