/*!
The timing cache as a file: what earlier builds measured, replayed only on the very stack that
measured it. Which files there are: [`timing_files`](super::timing_files).

TensorRT for RTX takes any bytes as a cache, and 8.x warns and goes on with a foreign one; so the
file says for which release, GPU, driver and CUDA it is and carries its own hash. A driver brings
its own compiler and clocks, so times of another one are no guide to the fastest kernel.
*/

use std::fmt::{Display, Formatter};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use vos::files::atomic;

const MAGIC: &[u8] = b"segtrt timing cache 1\n";

/// What a timing cache is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'a> {
    /// "TensorRT 8.6.0".
    pub tensorrt: &'a str,
    /// The GPU's name.
    pub device: &'a str,
    /// "driver 580.95.05 with CUDA 13.0".
    pub driver: &'a str,
}

impl Display for Stack<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}, {}", self.tensorrt, self.device, self.driver)
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    tensorrt: String,
    device: String,
    /// Files of older versions have none, and are of no known driver.
    #[serde(default = "unknown")]
    driver: String,
    sha256: String,
}

fn unknown() -> String {
    "an unknown driver".to_owned()
}

/// Reads the cache of this stack.
///
/// `Ok(None)`: no file. `Err`: why a file that is there is not used, as a phrase; a build then
/// starts without one.
pub fn read(path: &Path, stack: Stack<'_>) -> Result<Option<Vec<u8>>, String> {
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
    let Header { tensorrt, device, driver, .. } = &header;
    let of = Stack { tensorrt, device, driver };
    if of != stack {
        return Err(format!("{} is of {of}; this is {stack}", path.display()));
    }
    Ok(Some(cache.to_vec()))
}

/// Writes the cache of this stack.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, stack: Stack<'_>, cache: &[u8]) -> Result<()> {
    let header = Header {
        tensorrt: stack.tensorrt.to_owned(),
        device: stack.device.to_owned(),
        driver: stack.driver.to_owned(),
        sha256: hash(cache),
    };
    atomic::write(path, |out| {
        out.write_all(MAGIC)?;
        serde_json::to_writer(&mut *out, &header)?;
        out.write_all(b"\n")?;
        Ok(out.write_all(cache)?)
    })
}

/// Runs `work` under a lock on the folder of `path`: builds that end at the same time wait for one
/// another.
///
/// # Errors
/// Of `work`, or the folder cannot be locked.
pub fn locked<T>(path: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    // The lock is on the folder, as a lock file would remain. Closing the handle releases it.
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

    const STACK: Stack<'_> = Stack {
        tensorrt: "TensorRT 8.6.0",
        device: "H200",
        driver: "driver 580.95.05 with CUDA 13.0",
    };

    #[test]
    fn only_the_stack_that_measured_gets_its_cache_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("timing");
        assert_eq!(read(&path, STACK), Ok(None));
        write(&path, STACK, b"\x00\nmeasured").unwrap();
        let back = read(&path, STACK).unwrap().unwrap();
        assert_eq!(back, b"\x00\nmeasured");
        for (other, said) in [
            (Stack { tensorrt: "TensorRT 10.3.0", ..STACK }, "this is TensorRT 10.3.0 on H200"),
            (Stack { device: "Orin", ..STACK }, "on Orin"),
            (Stack { driver: "driver 590.1 with CUDA 13.0", ..STACK }, "driver 590.1"),
            (Stack { driver: "driver 580.95.05 with CUDA 13.1", ..STACK }, "CUDA 13.1"),
        ] {
            let why = read(&path, other).unwrap_err();
            assert!(why.contains("is of TensorRT 8.6.0 on H200, driver 580.95.05"), "{why}");
            assert!(why.contains(said), "no {said:?} in: {why}");
        }
    }

    #[test]
    fn a_cache_of_an_older_version_is_of_no_known_driver() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("timing");
        let sha256 = hash(b"measured");
        let header = serde_json::json!({
            "tensorrt": STACK.tensorrt, "device": STACK.device, "sha256": sha256,
        });
        std::fs::write(&path, [MAGIC, format!("{header}\nmeasured").as_bytes()].concat()).unwrap();
        assert!(read(&path, STACK).unwrap_err().contains("an unknown driver; this is"));
    }

    #[test]
    fn a_flipped_bit_or_a_foreign_file_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("timing");
        write(&path, STACK, b"measured").unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(read(&path, STACK).unwrap_err().contains("damaged"));
        std::fs::write(&path, "ftrt").unwrap();
        assert!(read(&path, STACK).unwrap_err().contains("damaged"));
    }
}
