/*!
A tar whose bytes depend on its files' names and contents alone: no time, no owner, no permissions
of this machine.
*/

use std::fs::File;
use std::io::{self, Read, Write};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use super::Sum;
use super::contents::{Entry, PackedFrom};

/// Writes the entries below `folder`; `sums` are theirs, in the same order.
pub fn write(out: impl Write, folder: &str, entries: &[Entry], sums: &[Sum]) -> Result<()> {
    let mut builder = Builder::new(out);
    for (entry, sum) in entries.iter().zip(sums) {
        append(&mut builder, folder, entry, sum)?;
    }
    builder.into_inner()?.flush()?;
    Ok(())
}

fn append(builder: &mut Builder<impl Write>, folder: &str, entry: &Entry, sum: &Sum) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(sum.bytes);
    header.set_mode(if entry.executable { 0o755 } else { 0o644 });
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    let name = format!("{folder}/{}", entry.name);
    match &entry.source {
        PackedFrom::Made(bytes) => builder.append_data(&mut header, name, bytes.as_slice())?,
        PackedFrom::File(path) => {
            let file =
                File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            let mut reader =
                Hashing { inner: file.take(sum.bytes), hasher: Sha256::new(), bytes: 0 };
            builder.append_data(&mut header, name, &mut reader)?;
            if reader.bytes != sum.bytes || format!("{:x}", reader.hasher.finalize()) != sum.sha256
            {
                bail!("{} changed while it was packed; pack again", path.display());
            }
        }
    }
    Ok(())
}

/// Hashes what passes.
struct Hashing<R> {
    inner: R,
    hasher: Sha256,
    bytes: u64,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_between_hashing_and_packing_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("graph.onnx");
        let entry = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Entry {
                name: "g".into(),
                source: PackedFrom::File(path.clone()),
                executable: false,
                sha256: None,
            }
        };
        let sum = Sum { sha256: format!("{:x}", Sha256::digest(b"weights")), bytes: 7 };
        write(io::sink(), "x", &[entry(b"weights")], std::slice::from_ref(&sum)).unwrap();
        for changed in [&b"Weights"[..], b"short"] {
            let error = write(io::sink(), "x", &[entry(changed)], std::slice::from_ref(&sum));
            assert!(format!("{:#}", error.unwrap_err()).contains("changed while it was packed"));
        }
    }
}
