/*!
A run folder: the files of one run of `segtrt bench` or of the PyTorch runner.
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::masks::MaskFile;
use super::sidecar::{self, PassRecord};
use vos::files::{self, summary_csv};
use vos::record::ObjectKey;

/// The sidecar and the summary of a run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    /// Path of the folder.
    pub path: PathBuf,
    /// The settings that were written.
    pub configuration: Map<String, Value>,
    /// Hash of the settings; none in folders of old versions.
    pub configuration_sha256: Option<String>,
    /// Machine and libraries.
    pub environment: Map<String, Value>,
    /// The timed region as a sentence.
    pub timed_region: String,
    /// `<video>/frames` and `<video>/masks` with their sha256.
    pub inputs: BTreeMap<String, String>,
    /// The summary's rows.
    pub rows: Vec<SummaryRow>,
    /// The recorded passes.
    pub passes: Vec<PassRecord>,
}

/// A row of the summary: fields that the sidecar does not have. An empty cell is `None` or an empty
/// text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SummaryRow {
    /// Clip.
    pub video: String,
    /// Object.
    pub object: String,
    /// Model tag.
    pub model: String,
    /// `ok`, `skipped` or `failed`.
    pub status: String,
    /// Why the status is not plainly ok.
    pub reason: String,
    /// Side of the network input, pixels.
    pub imgsz: String,
    /// `fp32`, `tf32` (PyTorch in fp32 with TF32 matmuls), `mixed`, `fp16` or `bf16`.
    pub precision: String,
    /// Backend that ran the network.
    pub backend: String,
    /// CPU or GPU.
    pub device: String,
    /// How frames become squares.
    pub geometry: String,
    /// How prompts are generated.
    pub prompt_policy: String,
    /// `latency` or `throughput`.
    pub mode: String,
    /// The pipeline's fidelity, in one string.
    pub fidelity: String,
    /// Time to build the model, ms.
    pub setup_ms: Option<f64>,
    /// Device memory that the program allocated, MiB.
    pub gpu_alloc_mib: Option<f64>,
    /// Device memory of the process, MiB.
    pub gpu_reserved_mib: Option<f64>,
    /// Host memory, MiB.
    pub rss_mib: Option<f64>,
}

/// A run of the PyTorch runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PyTorch<'a> {
    /// `meta`: the original code; `transformers`: another implementation.
    pub implementation: &'a str,
    /// `eager`, `compile` or `vos_optimized`.
    pub mode: &'a str,
}

impl SummaryRow {
    /// Clip, object and model.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            video: self.video.clone(),
            object: self.object.clone(),
            tag: self.model.clone(),
        }
    }

    /// Whether a CPU ran the network, according to the row.
    pub fn is_on_cpu(&self) -> bool {
        self.device.to_lowercase().starts_with("cpu")
    }
}

impl RunFolder {
    /// Reads the folder.
    ///
    /// # Errors
    /// A file is missing or damaged, or there is no row.
    pub fn read(path: &Path) -> Result<Self> {
        let file = sidecar::read(&path.join("sidecar.json"))?;
        let mut rows = rows(&path.join(summary_csv::FILE_NAME))?;
        if file.configuration.get("tf32").and_then(Value::as_bool) == Some(true) {
            // PyTorch calls it fp32, but TF32 matmuls have 11 bits. On a CPU the flag has no
            // effect.
            let is_tf32 = |row: &&mut SummaryRow| row.precision == "fp32" && !row.is_on_cpu();
            for row in rows.iter_mut().filter(is_tf32) {
                row.precision = "tf32".to_owned();
            }
        }
        if rows.is_empty() {
            bail!("{} has no rows; measure again", path.display());
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

    /// Whether its memories came from another run's logits.
    pub fn is_teacher_forced(&self) -> bool {
        self.configuration.contains_key("teacher")
    }

    /// Whether it saved its logits, so that it can be a teacher.
    pub fn has_logits(&self) -> bool {
        let saved = self.configuration.get("save_logits") == Some(&Value::Bool(true));
        saved && !self.is_teacher_forced() && self.path.join(files::LOGITS).is_dir()
    }

    /// PyTorch's implementation of the network and its mode, from the settings; none if another
    /// program wrote the folder.
    pub fn pytorch(&self) -> Option<PyTorch<'_>> {
        let text = |name: &str| self.configuration.get(name).and_then(Value::as_str);
        let mode = text("run_mode").unwrap_or_default();
        let implementation = text("implementation").unwrap_or_default();
        (text("provider")? == "pytorch").then_some(PyTorch { implementation, mode })
    }

    /// Frames in a batch of the encoder, from the settings; 1 if they name none, as PyTorch's do.
    pub fn encode_batch(&self) -> usize {
        let options = self.configuration.get("gpu").and_then(|gpu| gpu.get("options"));
        let frames = options.and_then(|options| options.get("encode_batch")?.as_u64());
        frames.map_or(1, |frames| usize::try_from(frames).unwrap_or(1).max(1))
    }

    /// The entry of a model tag in the configuration's `models`.
    pub fn model_entry(&self, model: &str) -> Option<&Map<String, Value>> {
        let models = self.configuration.get("models")?.as_array()?;
        models
            .iter()
            .filter_map(Value::as_object)
            .find(|entry| entry.get("tag").and_then(Value::as_str) == Some(model))
    }

    /// The source of a model's weights, if the folder names it.
    pub fn weights(&self, model: &str) -> Option<&str> {
        let entry = self.model_entry(model).and_then(|entry| entry.get("weights"));
        entry.or_else(|| self.configuration.get("weights"))?.as_str()
    }
}

fn rows(path: &Path) -> Result<Vec<SummaryRow>> {
    let damaged = || format!("{} is damaged; measure again", path.display());
    let mut reader = csv::Reader::from_path(path).with_context(|| {
        format!(
            "cannot read {}; name a folder that segtrt bench or the PyTorch runner wrote",
            path.display()
        )
    })?;
    let header = reader.headers().with_context(damaged)?.clone();
    let place = |name: &str| header.iter().position(|column| column == name);
    for needed in ["video", "object", "model", "imgsz", "precision", "status"] {
        if place(needed).is_none() {
            bail!(
                "{} has no column {needed:?}, so another program or an old version wrote it; \
                 measure again",
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
        Ok(SummaryRow {
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
