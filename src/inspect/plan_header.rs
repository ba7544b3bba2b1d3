/*!
The first bytes of a plan: which product and release wrote it, and how long it should be.

```text
 0  magic   "ftrt" TensorRT 8.6 on, "vtrt" TensorRT for RTX; "ptrt" what TensorRT wrote before 8.6
 8  u64     number of sections
16  u64     length of the whole plan
24  4 x u8  major, minor, patch and build of the release
```

NVIDIA says where the release stands (TensorRT issue 3073); the rest was read from plans of TensorRT
for RTX 1.7.1 and from the checks that TensorRT 8.6.0 makes of its own plans. Other releases may
differ: a header that does not fit is not shown.
*/

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

/// What the first bytes tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanHeader {
    /// "TensorRT 8.6.0 (build 12)", or the product alone where it writes no release.
    pub written_by: String,
    /// Length of the whole plan, bytes; none in plans before 8.6.
    pub bytes: Option<u64>,
}

/// The first bytes of a file, at most 32.
pub fn first_bytes(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(32).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}

impl PlanHeader {
    /// Reads a header; none for bytes that are none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let product = match bytes.get(..4)? {
            b"ftrt" => "TensorRT",
            b"vtrt" => "TensorRT for RTX",
            b"ptrt" => {
                let written_by = "TensorRT before 8.6".to_owned();
                return Some(Self { written_by, bytes: None });
            }
            _ => return None,
        };
        let length = bytes.get(16..24)?.try_into().ok().map(u64::from_le_bytes)?;
        let [major, minor, patch, build] = *bytes.get(24..28)? else { return None };
        let written_by = format!("{product} {major}.{minor}.{patch} (build {build})");
        Some(Self { written_by, bytes: Some(length) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(magic: &[u8; 4], length: u64, release: [u8; 4]) -> Vec<u8> {
        [&magic[..], &[0; 4], &2_u64.to_le_bytes(), &length.to_le_bytes(), &release, &[9; 4]]
            .concat()
    }

    #[test]
    fn product_release_and_length_are_read() {
        for (magic, release, text) in [
            (b"ftrt", [8, 6, 0, 12], "TensorRT 8.6.0 (build 12)"),
            (b"ftrt", [10, 3, 0, 30], "TensorRT 10.3.0 (build 30)"),
            (b"vtrt", [1, 7, 1, 116], "TensorRT for RTX 1.7.1 (build 116)"),
        ] {
            let found = PlanHeader::read(&header(magic, 5000, release)).unwrap();
            assert_eq!((found.written_by.as_str(), found.bytes), (text, Some(5000)));
        }
        assert_eq!(PlanHeader::read(b"ptrt1234").unwrap().bytes, None);
    }

    #[test]
    fn anything_else_is_no_header() {
        for bytes in [
            &b""[..],
            b"ft",
            b"ftrt",
            b"{\"a\": 1}",
            &header(b"xtrt", 1, [1; 4]),
            &header(b"ftrt", 1, [1; 4])[..27],
        ] {
            assert_eq!(PlanHeader::read(bytes), None);
        }
    }
}
