/*!
Takes ONNX Runtime's library out of a wheel or a release archive.
*/

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use tempfile::NamedTempFile;

use host::UsageError;

/// A wheel on PyPI.
#[derive(Clone, Copy, Debug)]
pub struct Wheel {
    /// Its file name.
    pub file: &'static str,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: &'static str,
}

/// ONNX Runtime 1.31.1 for this processor, as PyPI publishes it. It needs glibc 2.28.
pub const WHEEL: Option<Wheel> = if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
    Some(Wheel {
        file: "onnxruntime-1.31.1-cp312-cp312-manylinux_2_28_x86_64.whl",
        bytes: 23_760_988,
        sha256: "1f3dea47f2f0e5117c2404cea7d21fd253ae7836a3bf167a501cdfbb2600d536",
    })
} else if cfg!(all(target_os = "linux", target_arch = "aarch64")) {
    Some(Wheel {
        file: "onnxruntime-1.31.1-cp312-cp312-manylinux_2_28_aarch64.whl",
        bytes: 21_420_803,
        sha256: "0b9a492176886992e0e875f06bc0367e333f5fff11711a2d642e18b02f3009cc",
    })
} else {
    None
};

/// The library's name up to its version.
const LIBRARY: &str = "libonnxruntime.so";

/// Installs the library from a wheel, a release archive or itself into `lib`, in place of an
/// earlier one.
///
/// # Errors
/// A file of another kind, or one that cannot be read or written.
pub fn install(from: &Path, lib: &Path) -> Result<PathBuf> {
    let cannot = || format!("cannot read {}", from.display());
    let mut file = File::open(from).with_context(cannot)?;
    std::fs::create_dir_all(lib)
        .with_context(|| format!("cannot make the folder {}", lib.display()))?;
    let mut start = Vec::new();
    Read::by_ref(&mut file).take(4).read_to_end(&mut start).with_context(cannot)?;
    file.rewind().with_context(cannot)?;
    let found = match start.as_slice() {
        [b'P', b'K', ..] => from_wheel(file, lib),
        [0x1f, 0x8b, ..] => from_archive(file, lib),
        [0x7f, b'E', b'L', b'F'] => {
            let name = from.file_name().unwrap_or_default().to_string_lossy();
            let name = if is_library(&name) { name.into_owned() } else { LIBRARY.to_owned() };
            write(&mut file, lib, &name).map(Some)
        }
        _ => bail!(UsageError(format!(
            "{} is neither a wheel of ONNX Runtime nor its release archive (.tgz) nor {LIBRARY}",
            from.display()
        ))),
    };
    let found = found.with_context(cannot)?;
    let found = found.ok_or_else(|| anyhow!("{} holds no {LIBRARY}", from.display()))?;
    remove_others(&found, lib);
    Ok(found)
}

fn is_library(name: &str) -> bool {
    name.strip_prefix(LIBRARY).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn from_wheel(file: File, lib: &Path) -> Result<Option<PathBuf>> {
    let mut wheel = zip::ZipArchive::new(file)?;
    let mut found = None;
    for at in 0..wheel.len() {
        let mut member = wheel.by_index(at)?;
        let name = member.name()?.rsplit('/').next().unwrap_or_default().to_owned();
        if is_library(&name) {
            found = Some(write(&mut member, lib, &name)?);
        }
    }
    Ok(found)
}

fn from_archive(file: File, lib: &Path) -> Result<Option<PathBuf>> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut found = None;
    for member in archive.entries()? {
        let mut member = member?;
        let path = member.path()?.into_owned();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Its short names are links.
        if member.header().entry_type().is_file() && is_library(&name) {
            found = Some(write(&mut member, lib, &name)?);
        }
    }
    Ok(found)
}

/// Writes a file that appears when it is complete.
fn write(from: &mut impl Read, lib: &Path, name: &str) -> Result<PathBuf> {
    let to = lib.join(name);
    let cannot = || format!("cannot write {}; is the disk full?", to.display());
    let mut new = NamedTempFile::new_in(lib).with_context(cannot)?;
    std::io::copy(from, &mut new).with_context(cannot)?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    new.as_file().set_permissions(readable).with_context(cannot)?;
    new.persist(&to).with_context(cannot)?;
    Ok(to)
}

/// Removes other versions: the highest name would be opened.
fn remove_others(kept: &Path, lib: &Path) {
    for entry in std::fs::read_dir(lib).into_iter().flatten().flatten() {
        if is_library(&entry.file_name().to_string_lossy())
            && entry.path() != kept
            && let Err(error) = std::fs::remove_file(entry.path())
        {
            log::warn!("cannot remove {}: {error}", entry.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const CONTENT: &[u8] = b"\x7fELF library";

    fn wheel(dir: &Path, member: &str) -> PathBuf {
        let path = dir.join("onnxruntime.whl");
        let mut file = zip::ZipWriter::new(File::create(&path).unwrap());
        for name in ["onnxruntime/LICENSE", member, "onnxruntime/capi/libonnxruntime_providers.so"]
        {
            file.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            file.write_all(CONTENT).unwrap();
        }
        file.finish().unwrap();
        path
    }

    fn archive(dir: &Path) -> PathBuf {
        let path = dir.join("onnxruntime.tgz");
        let gz = flate2::write::GzEncoder::new(File::create(&path).unwrap(), Default::default());
        let mut tar = tar::Builder::new(gz);
        let mut header = tar::Header::new_gnu();
        header.set_size(CONTENT.len() as u64);
        header.set_mode(0o755);
        header.set_cksum();
        tar.append_data(&mut header, "x/lib/libonnxruntime.so.1.9.0", CONTENT).unwrap();
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        tar.append_link(&mut link, "x/lib/libonnxruntime.so", "libonnxruntime.so.1.9.0").unwrap();
        tar.into_inner().unwrap().finish().unwrap();
        path
    }

    fn names(lib: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(lib).unwrap().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_library_comes_out_of_each_kind_of_file_and_replaces_an_earlier_one() {
        let dir = tempfile::tempdir().unwrap();
        let lib = dir.path().join("lib");
        let found = install(&wheel(dir.path(), "onnxruntime/capi/libonnxruntime.so.1.31.1"), &lib);
        assert_eq!(found.unwrap(), lib.join("libonnxruntime.so.1.31.1"));
        assert_eq!(std::fs::read(lib.join("libonnxruntime.so.1.31.1")).unwrap(), CONTENT);
        let found = install(&archive(dir.path()), &lib).unwrap();
        assert_eq!(
            (names(&lib), found),
            (vec!["libonnxruntime.so.1.9.0".to_owned()], lib.join("libonnxruntime.so.1.9.0"))
        );
        let itself = dir.path().join("mine.so");
        std::fs::write(&itself, CONTENT).unwrap();
        install(&itself, &lib).unwrap();
        assert_eq!(names(&lib), ["libonnxruntime.so"]);
    }

    #[test]
    fn other_files_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let lib = dir.path().join("lib");
        let text = dir.path().join("notes.txt");
        std::fs::write(&text, "hello").unwrap();
        let error = format!("{:#}", install(&text, &lib).unwrap_err());
        assert!(error.contains("notes.txt is neither a wheel"), "{error}");
        let error =
            format!("{:#}", install(&wheel(dir.path(), "x/libother.so"), &lib).unwrap_err());
        assert!(error.contains("holds no libonnxruntime.so"), "{error}");
        let cut = dir.path().join("cut.whl");
        std::fs::write(&cut, b"PK\x03\x04cut").unwrap();
        let error = format!("{:#}", install(&cut, &lib).unwrap_err());
        assert!(error.contains("cut.whl"), "{error}");
        assert!(names(&lib).is_empty());
    }
}
