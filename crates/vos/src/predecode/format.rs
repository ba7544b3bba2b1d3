/*!
The file of one clip's predecoded frames.

```text
0       magic "SEGTRTFR", version (u32), length of the JSON (u32), the JSON, zeros to 4096
4096    frames, one after another: 3 planes of side x side values each (R, G, B), rows from the top
end-32  sha256 of everything before
```

Numbers are little-endian. Frames begin at a page, so that a mapped file can be used directly.
*/

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::dataset::Clip;
use crate::geometry::{Geometry, GeometryKind};
use crate::preprocess::pillow;
use crate::stored_values::Values;

/// The first bytes of the file.
const MAGIC: [u8; 8] = *b"SEGTRTFR";
/// Raised when the meaning of the bytes changes.
const VERSION: u32 = 1;
/// Offset of the first frame: one page.
pub(super) const HEADER_BYTES: usize = 4096;
/// Size of a sha256.
pub(super) const TRAILER_BYTES: usize = 32;
/// Size of magic, version and length.
const FIXED_BYTES: usize = 16;
/// The only resize filter.
const FILTER: &str = pillow::NAME;
/// The decoder of [`crate::decode::jpeg`].
const DECODER: &str = "libjpeg-turbo";

/// Suffix of the files.
pub(super) const SUFFIX: &str = ".frames";

/// The name of a clip's file.
pub fn file_name(video: &str, side: usize, geometry: GeometryKind, values: Values) -> String {
    format!("{video}__{side}_{}_{}{SUFFIX}", geometry.name(), values.name())
}

/// Origin of the frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameSource {
    /// sha256 of the clip's frame files, as in a run's sidecar.
    pub sha256: String,
    /// Their total size, bytes.
    pub bytes: u64,
}

/// A file's header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Clip.
    pub video: String,
    /// Number of frames.
    pub frames: usize,
    /// Side of a frame's square, pixels.
    pub side: usize,
    /// Kind of a value.
    pub values: Values,
    /// How the video was fitted into the square.
    pub geometry: GeometryKind,
    /// Width and height of the video, pixels.
    pub video_size: [usize; 2],
    /// The part of the square that shows the video: x, y, width, height.
    pub content: [usize; 4],
    /// The resize filter.
    pub filter: String,
    /// The decoder of the JPEG files or the video, with its version.
    pub decoder: String,
    /// Mean and standard deviation of each channel for normalised f16 values; none for bytes.
    pub normalised: Option<[[f32; 3]; 2]>,
    /// The source files of the frames.
    pub source: FrameSource,
    /// The program that wrote the file.
    pub made_by: String,
}

impl Header {
    /// For a clip's frames.
    pub fn new(
        clip: &Clip,
        geometry: &Geometry,
        values: Values,
        normalisation: [[f32; 3]; 2],
        source: FrameSource,
    ) -> Self {
        let (width, height) = geometry.video_size();
        let content = geometry.content();
        Self {
            video: clip.video.clone(),
            frames: clip.frames.len(),
            side: geometry.side(),
            values,
            geometry: geometry.kind(),
            video_size: [width, height],
            content: [content.x, content.y, content.width, content.height],
            filter: FILTER.to_owned(),
            decoder: clip.frames.decoder().unwrap_or(DECODER).to_owned(),
            normalised: (values == Values::F16).then_some(normalisation),
            source,
            made_by: format!("segtrt {}", env!("CARGO_PKG_VERSION")),
        }
    }

    /// Bytes of one frame; none where the sizes are beyond reason.
    pub(super) fn frame_bytes(&self) -> Option<usize> {
        self.side.checked_mul(self.side)?.checked_mul(3)?.checked_mul(self.values.bytes())
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> Option<usize> {
        self.frame_bytes()?.checked_mul(self.frames)?.checked_add(HEADER_BYTES + TRAILER_BYTES)
    }

    /// The first page of the file.
    ///
    /// # Errors
    /// The description does not fit into the page.
    pub(super) fn to_bytes(&self) -> anyhow::Result<Vec<u8>> {
        let json = serde_json::to_vec(self)?;
        if json.len() > HEADER_BYTES - FIXED_BYTES {
            anyhow::bail!("the clip's name is too long: {} bytes of description", json.len());
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(u32::try_from(json.len())?.to_le_bytes());
        bytes.extend(json);
        bytes.resize(HEADER_BYTES, 0);
        Ok(bytes)
    }

    /// Reads the first page back.
    ///
    /// # Errors
    /// The fault as a sentence.
    pub(super) fn parse(page: &[u8]) -> Result<Self, String> {
        let number = |at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?))
        };
        if page.get(..MAGIC.len()) != Some(&MAGIC[..]) {
            return Err("it does not begin like a file of predecoded frames".to_owned());
        }
        let version = number(8).ok_or("it ends in its header")?;
        if version != VERSION {
            return Err(format!(
                "it has version {version} of the format, this program reads {VERSION}"
            ));
        }
        let length = number(12).ok_or("it ends in its header")? as usize;
        let json = page.get(FIXED_BYTES..FIXED_BYTES + length.min(HEADER_BYTES));
        let json = json.ok_or("its header is longer than a page")?;
        serde_json::from_slice(json).map_err(|error| format!("its header is unreadable: {error}"))
    }

    /// The first difference between a file and the wanted header; `None` if they agree.
    pub fn differs(&self, wanted: &Self) -> Option<String> {
        let fields = |header: &Self| match serde_json::to_value(header) {
            Ok(Value::Object(mut fields)) => {
                // Versions of this program with the same format write the same pixels.
                fields.remove("made_by");
                fields
            }
            _ => Map::new(),
        };
        let (mine, theirs) = (fields(self), fields(wanted));
        let found = theirs.iter().find(|(name, value)| mine.get(*name) != Some(value))?;
        let (name, value) = found;
        Some(match name.as_str() {
            "source" => "the clip's frame files have changed since".to_owned(),
            _ => format!(
                "{name} is {} and should be {value}",
                mine.get(name).unwrap_or(&Value::Null)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Frames;

    fn header(values: Values) -> Header {
        let geometry = Geometry::new(GeometryKind::Letterbox, 160, 120, 256);
        let source = FrameSource { sha256: "ab".repeat(32), bytes: 12 };
        let frames = Frames::Jpegs(vec!["0.jpg".into(), "1.jpg".into(), "2.jpg".into()]);
        let (objects, remarks) = (Vec::new(), Vec::new());
        let clip = Clip { video: "clip".into(), frames, objects, remarks };
        Header::new(&clip, &geometry, values, [[0.5; 3], [0.25; 3]], source)
    }

    #[test]
    fn a_header_reads_back_and_knows_its_file() {
        for values in Values::ALL {
            let header = header(values);
            let page = header.to_bytes().unwrap();
            assert_eq!((page.len(), Header::parse(&page).unwrap()), (4096, header.clone()));
            let expected = 4096 + 3 * 3 * 256 * 256 * values.bytes() + 32;
            assert_eq!(header.file_bytes(), Some(expected));
        }
        assert_eq!(header(Values::U8).normalised, None, "bytes are not normalised yet");
    }

    #[test]
    fn damage_is_told_and_never_panics() {
        let page = header(Values::F16).to_bytes().unwrap();
        for cut in 0..200 {
            assert!(Header::parse(&page[..cut]).is_err(), "{cut}");
        }
        let mut other = page.clone();
        other[8] = 9;
        assert!(Header::parse(&other).unwrap_err().contains("version 9"));
        other = page.clone();
        other[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Header::parse(&other).is_err());
        other = page;
        other[20] = b'}';
        assert!(Header::parse(&other).unwrap_err().contains("unreadable"));
        let huge = Header { side: usize::MAX, ..header(Values::U8) };
        assert_eq!(huge.file_bytes(), None);
    }

    #[test]
    fn the_first_difference_is_named() {
        let (a, mut b) = (header(Values::F16), header(Values::F16));
        b.made_by = "segtrt 9".into();
        assert_eq!(a.differs(&b), None);
        b.side = 512;
        assert_eq!(a.differs(&b).unwrap(), "side is 256 and should be 512");
        b = a.clone();
        b.source.bytes = 13;
        assert!(a.differs(&b).unwrap().contains("have changed"));
    }
}
