/*!
The two files between the phases, byte for byte as Python's `json.dump(…, indent=2)` would write
them.
*/

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use host::shell;
use vos::files::atomic;

const METADATA: &str = "metadata.json";
const CONFIG: &str = "inference_config.json";

/// What the scan of a split found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// The chosen clips, in order.
    pub video_ids: Vec<String>,
    /// Clip → [`VideoData`]; a clip without an object that can be prompted is left out.
    pub video_data: Map<String, Value>,
    /// The split.
    pub split_dir: String,
    /// Side of the network input, pixels.
    pub imgsz: usize,
}

/// One clip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VideoData {
    /// Frame files in order.
    pub frames: Vec<String>,
    /// Object → [`ObjectData`].
    pub objects: Map<String, Value>,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectData {
    /// The prompted frame.
    pub prompt_idx: usize,
    /// The annotated frames.
    pub frame_indices: Vec<usize>,
    /// Height and width of the prompt mask, pixels.
    pub prompt_mask_shape: [usize; 2],
}

/// How the second phase is to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InferenceConfig {
    /// The predecessor's probe of cuDNN; nothing here uses cuDNN.
    pub cudnn_benchmark: bool,
    /// Where these files lie.
    pub preprocessed_dir: String,
    /// The flags of the first phase.
    pub args: Map<String, Value>,
}

impl Metadata {
    /// Writes `dir/metadata.json`.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn write(&self, dir: &Path) -> Result<PathBuf> {
        write(&dir.join(METADATA), self)
    }

    /// Reads it back.
    ///
    /// # Errors
    /// It is not there, or damaged.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(METADATA);
        if !path.exists() {
            bail!(
                "Preprocessed metadata not found: {}; run the first phase: segtrt \
                 jetson-benchmark --skip-inference --preprocessed-dir {}",
                path.display(),
                shell::path(dir)
            );
        }
        read(&path)
    }

    /// A clip's entry.
    ///
    /// # Errors
    /// It is not of the form that was written.
    pub fn video(&self, video: &str) -> Result<Option<VideoData>> {
        let Some(value) = self.video_data.get(video) else { return Ok(None) };
        let data = serde_json::from_value(value.clone());
        Ok(Some(data.with_context(|| {
            format!("the entry of {video} in {METADATA} is damaged; run the first phase again")
        })?))
    }
}

impl InferenceConfig {
    /// Writes `dir/inference_config.json`.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn write(&self, dir: &Path) -> Result<PathBuf> {
        write(&dir.join(CONFIG), self)
    }

    /// Reads it back; none where it is missing, as the predecessor took it.
    ///
    /// # Errors
    /// It is damaged.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(CONFIG);
        path.exists().then(|| read(&path)).transpose()
    }
}

fn write(path: &Path, value: &impl Serialize) -> Result<PathBuf> {
    let text = python_json(value)?;
    atomic::write(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(path.to_owned())
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| anyhow!("cannot read {}: {error}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is damaged; run the first phase again", path.display()))
}

/// As `json.dumps(value, indent=2)`: what is not printable ASCII stands only inside strings, and is
/// escaped there.
fn python_json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ' '..='~' | '\n' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_bytes_are_pythons() {
        let object =
            ObjectData { prompt_idx: 0, frame_indices: vec![0, 4], prompt_mask_shape: [480, 854] };
        let mut objects = Map::new();
        objects.insert("000".into(), serde_json::to_value(object).unwrap());
        let video = VideoData { frames: vec!["/d/é\u{7f}😀/00000.jpg".into()], objects };
        let mut video_data = Map::new();
        video_data.insert("b".into(), serde_json::to_value(video).unwrap());
        let metadata = Metadata {
            video_ids: vec!["b".into(), "a".into()],
            video_data,
            split_dir: "/d".into(),
            imgsz: 1024,
        };
        // What Python 3 prints for the same value.
        let expected = "{\n  \"video_ids\": [\n    \"b\",\n    \"a\"\n  ],\n  \"video_data\": {\n    \"b\": \
                        {\n      \"frames\": [\n        \"/d/\\u00e9\\u007f\\ud83d\\ude00/00000.jpg\"\n      \
                        ],\n      \"objects\": \
                        {\n        \"000\": {\n          \"prompt_idx\": 0,\n          \"frame_indices\": \
                        [\n            0,\n            4\n          \
                        ],\n          \"prompt_mask_shape\": [\n            480,\n            \
                        854\n          ]\n        }\n      }\n    }\n  \
                        },\n  \"split_dir\": \"/d\",\n  \"imgsz\": 1024\n}";
        assert_eq!(python_json(&metadata).unwrap(), expected);
        assert_eq!(
            python_json(&json!({"a": [], "b": {}})).unwrap(),
            "{\n  \"a\": [],\n  \"b\": {}\n}"
        );
        let dir = tempfile::tempdir().unwrap();
        metadata.write(dir.path()).unwrap();
        assert_eq!(Metadata::read(dir.path()).unwrap(), metadata);
        assert_eq!(metadata.video("b").unwrap().unwrap().frames.len(), 1);
        assert!(metadata.video("a").unwrap().is_none());
    }

    #[test]
    fn what_is_missing_or_damaged_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let error = Metadata::read(dir.path()).unwrap_err().to_string();
        assert!(error.starts_with("Preprocessed metadata not found: "), "{error}");
        assert!(InferenceConfig::read(dir.path()).unwrap().is_none());
        std::fs::write(dir.path().join(METADATA), "{").unwrap();
        let error = format!("{:#}", Metadata::read(dir.path()).unwrap_err());
        assert!(error.contains("run the first phase again"), "{error}");
    }
}
