/*!
A run folder: what one process measured once, as `segtrt bench` and the PyTorch runner leave it.
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::masks::MaskFile;
use super::sidecar::{self, PassRecord};
use vos::files::{self, summary_csv};
use vos::logits;
use vos::record::ObjectKey;

/// The sidecar and the summary of a run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    /// Where it lies.
    pub path: PathBuf,
    /// The settings, as far as they were written.
    pub configuration: Map<String, Value>,
    /// What tells these settings from others; none in folders of old programs.
    pub configuration_sha256: Option<String>,
    /// The machine and the libraries.
    pub environment: Map<String, Value>,
    /// What lies inside the timed region, in words.
    pub timed_region: String,
    /// `<video>/frames` and `<video>/masks` with their sha256.
    pub inputs: BTreeMap<String, String>,
    /// The summary's rows.
    pub rows: Vec<Row>,
    /// The recorded passes.
    pub passes: Vec<PassRecord>,
}

/// A row of the summary: what the sidecar does not have. Empty cells are `None`, or an empty text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Clip.
    pub video: String,
    /// Object.
    pub object: String,
    /// Model tag.
    pub model: String,
    /// `ok`, `skipped` or `failed`.
    pub status: String,
    /// Why it is not plainly ok.
    pub reason: String,
    /// Side of the network input, pixels.
    pub imgsz: String,
    /// `fp32`, `tf32` (PyTorch in fp32 with TF32 products), `mixed`, `fp16` or `bf16`.
    pub precision: String,
    /// What ran the network.
    pub backend: String,
    /// Processor or GPU.
    pub device: String,
    /// How frames become squares.
    pub geometry: String,
    /// How prompts are made.
    pub prompt_policy: String,
    /// `latency` or `throughput`.
    pub mode: String,
    /// What was run, in one string.
    pub fidelity: String,
    /// Time to build the model, ms.
    pub setup_ms: Option<f64>,
    /// Device memory of the program's own blocks, MiB.
    pub gpu_alloc_mib: Option<f64>,
    /// Device memory of the process, MiB.
    pub gpu_reserved_mib: Option<f64>,
    /// Host memory, MiB.
    pub rss_mib: Option<f64>,
}

impl Row {
    /// Clip, object and model.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            video: self.video.clone(),
            object: self.object.clone(),
            model: self.model.clone(),
        }
    }

    /// A processor ran the network, as far as the row tells.
    pub fn is_on_cpu(&self) -> bool {
        self.device.to_lowercase().starts_with("cpu")
    }
}

impl RunFolder {
    /// Reads the folder.
    ///
    /// # Errors
    /// A file of it is missing or damaged, or it holds no row.
    pub fn read(path: &Path) -> Result<Self> {
        let file = sidecar::read(&path.join("sidecar.json"))?;
        let mut rows = rows(&path.join(summary_csv::FILE_NAME))?;
        if file.configuration.get("tf32").and_then(Value::as_bool) == Some(true) {
            // PyTorch calls it fp32; its products have eleven bits. On a processor the flag does
            // nothing, and fp32 is fp32.
            let is_tf32 = |row: &&mut Row| row.precision == "fp32" && !row.is_on_cpu();
            for row in rows.iter_mut().filter(is_tf32) {
                row.precision = "tf32".to_owned();
            }
        }
        if rows.is_empty() {
            bail!("{} holds no row; measure again", path.display());
        }
        Ok(Self {
            path: path.to_owned(),
            configuration: file.configuration,
            configuration_sha256: file.configuration_sha256,
            environment: file.environment,
            timed_region: file.timed_region,
            inputs: file.inputs,
            rows,
            passes: file.passes,
        })
    }

    /// The model tags in the order of the rows.
    pub fn models(&self) -> Vec<&str> {
        let mut models: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !models.contains(&row.model.as_str()) {
                models.push(&row.model);
            }
        }
        models
    }

    /// The masks of an object.
    ///
    /// # Errors
    /// The run was made without `--save-masks`, or the file is damaged.
    pub fn masks(&self, key: &ObjectKey) -> Result<MaskFile> {
        MaskFile::read(&self.path.join(files::MASKS), key)
    }

    /// Its memories were written from another run's logits.
    pub fn is_teacher_forced(&self) -> bool {
        self.configuration.contains_key("teacher")
    }

    /// It saved its own logits, for others to be taught by.
    pub fn has_logits(&self) -> bool {
        let saved = self.configuration.get("save_logits") == Some(&Value::Bool(true));
        saved && !self.is_teacher_forced() && self.path.join(logits::FOLDER).is_dir()
    }

    /// Frames that the encoder took at once, by the settings: 1 where they name none, as PyTorch's
    /// do.
    pub fn encode_batch(&self) -> usize {
        let options = self.configuration.get("gpu").and_then(|gpu| gpu.get("options"));
        let frames = options.and_then(|options| options.get("encode_batch")?.as_u64());
        frames.map_or(1, |frames| usize::try_from(frames).unwrap_or(1).max(1))
    }

    /// What the configuration says of a model tag: its entry of `models`.
    pub fn model_entry(&self, model: &str) -> Option<&Map<String, Value>> {
        let models = self.configuration.get("models")?.as_array()?;
        models
            .iter()
            .filter_map(Value::as_object)
            .find(|entry| entry.get("tag").and_then(Value::as_str) == Some(model))
    }

    /// Whose weights a model had, where the folder says.
    pub fn weights(&self, model: &str) -> Option<&str> {
        let entry = self.model_entry(model).and_then(|entry| entry.get("weights"));
        entry.or_else(|| self.configuration.get("weights"))?.as_str()
    }
}

fn rows(path: &Path) -> Result<Vec<Row>> {
    let damaged = || format!("{} is damaged; measure again", path.display());
    let mut reader = csv::Reader::from_path(path).with_context(|| {
        format!(
            "cannot read {}; name a folder that bench or the PyTorch runner wrote",
            path.display()
        )
    })?;
    let header = reader.headers().with_context(damaged)?.clone();
    let place = |name: &str| header.iter().position(|column| column == name);
    for needed in ["video", "object", "model", "imgsz", "precision", "status"] {
        if place(needed).is_none() {
            bail!(
                "{} has no column {needed:?}: it was written by another program, or by an old one; measure again",
                path.display()
            );
        }
    }
    let read = |record: csv::Result<csv::StringRecord>| {
        let record = record.with_context(damaged)?;
        let text = |name: &str| {
            place(name).and_then(|at| record.get(at)).unwrap_or_default().trim().to_owned()
        };
        let number = |name: &str| text(name).parse::<f64>().ok().filter(|value| value.is_finite());
        Ok(Row {
            video: text("video"),
            object: text("object"),
            model: text("model"),
            status: text("status"),
            reason: text("reason"),
            imgsz: text("imgsz"),
            precision: text("precision"),
            backend: text("backend"),
            device: text("device"),
            geometry: text("geometry"),
            prompt_policy: text("prompt_policy"),
            mode: text("mode"),
            fidelity: text("fidelity"),
            setup_ms: number("setup_ms"),
            gpu_alloc_mib: number("gpu_peak_alloc_MiB"),
            gpu_reserved_mib: number("gpu_peak_reserved_MiB"),
            rss_mib: number("cpu_peak_rss_MiB"),
        })
    };
    reader.records().map(read).collect()
}
