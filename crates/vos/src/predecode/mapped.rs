/*!
A file as memory, read-only.

The one place that knows which library maps files. A file that is shortened by somebody while it is
mapped ends the process that reads it; files are replaced by renaming, which leaves a map of the old
one whole, and they are read in a worker process, whose death costs one object.
*/

use std::path::Path;

use mmap_io::MemoryMappedFile;

/// A mapped file.
pub struct Mapped(MemoryMappedFile);

impl Mapped {
    /// Maps `path`.
    ///
    /// # Errors
    /// The system's words. An empty file cannot be mapped.
    pub fn open(path: &Path) -> Result<Self, String> {
        MemoryMappedFile::open_ro(path).map(Self).map_err(|error| error.to_string())
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        // A read-only map always has its bytes; without them the file's checks fail and say so.
        self.0.as_slice_bytes(0, self.0.len()).unwrap_or_default()
    }
}
