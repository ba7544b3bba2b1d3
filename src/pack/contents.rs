/*!
The files of a pack, in the order in which they are written: by name, so that the same input gives
the same bytes.
*/

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::plan::PackPlan;
use super::{clips, readme};
use host::shell;
use vos::dataset;
use vos::model_tag::ModelTag;
use vos::precision::Precision;
use vos::prompt::PromptKind;

/// The script that runs on the board.
const RUN: &str = include_str!("run.sh");

/// An ELF file's number for that processor.
const X86_64: u16 = 62;

/// Where a file's bytes come from.
pub enum PackedFrom {
    /// A file on disk.
    File(PathBuf),
    /// Made here.
    Made(Vec<u8>),
}

/// One file of a pack.
pub struct Entry {
    /// Its path in the pack, with slashes.
    pub name: String,
    /// Its bytes.
    pub source: PackedFrom,
    /// It can be run.
    pub executable: bool,
    /// The hash that its manifest promises.
    pub sha256: Option<String>,
}

impl Entry {
    /// A file made here.
    pub fn made(name: &str, bytes: Vec<u8>) -> Self {
        Self {
            name: name.to_owned(),
            source: PackedFrom::Made(bytes),
            executable: false,
            sha256: None,
        }
    }

    fn file(name: String, path: PathBuf) -> Self {
        Self { name, source: PackedFrom::File(path), executable: false, sha256: None }
    }

    fn executable(self) -> Self {
        Self { executable: true, ..self }
    }

    /// The file on disk, for messages.
    pub fn origin(&self) -> String {
        match &self.source {
            PackedFrom::File(path) => path.display().to_string(),
            PackedFrom::Made(_) => self.name.clone(),
        }
    }
}

/// All files but the list of their sums, and what should be known of them.
pub fn list(plan: &PackPlan) -> Result<(Vec<Entry>, Vec<String>)> {
    let mut warnings = Vec::new();
    let mut entries = vec![
        Entry::made("README.txt", readme::text(plan).into_bytes()),
        Entry::made("platforms.toml", plan.table.clone().into_bytes()),
        Entry::made("run.sh", RUN.as_bytes().to_vec()).executable(),
        Entry::made("settings.sh", settings(plan).into_bytes()),
    ];
    for bundle in &plan.bundles {
        let folder = format!("onnx/{}", bundle.name());
        entries
            .push(Entry::file(format!("{folder}/manifest.toml"), bundle.dir.join("manifest.toml")));
        for graph in &bundle.manifest.graphs {
            let entry =
                Entry::file(format!("{folder}/{}", graph.file), bundle.dir.join(&graph.file));
            entries.push(Entry { sha256: Some(graph.sha256.clone()), ..entry });
        }
        for weights in bundle.manifest.weights_files() {
            let entry =
                Entry::file(format!("{folder}/{}", weights.file), bundle.dir.join(weights.file));
            entries.push(Entry { sha256: Some(weights.sha256.to_owned()), ..entry });
        }
    }
    if let Some(binary) = &plan.binary {
        if !binary.is_file() {
            bail!(
                "--binary {}: no such file; expected a segtrt built for the board",
                binary.display()
            );
        }
        if plan.platform.tegra && is_for_x86_64(binary)? {
            bail!(
                "--binary {}: found a program for x86-64, expected one for aarch64; make dist \
                 MACHINES=aarch64 makes target/aarch64-unknown-linux-gnu/release/segtrt",
                binary.display()
            );
        }
        entries.push(Entry::file("segtrt".to_owned(), binary.clone()).executable());
    }
    if let Some(clips) = &plan.clips {
        // Anything else than a split would only be noticed on the board.
        let split = dataset::open(clips, "sav_val").context("--with-clips")?;
        if split.videos().is_empty() {
            bail!("--with-clips {}: the split has no clip", clips.display());
        }
        let found = clips::list(clips)?;
        warnings = found.warnings;
        let files = found.files.into_iter();
        entries.extend(files.map(|(name, path)| Entry::file(format!("clips/{name}"), path)));
    }
    if let Some(odd) = entries.iter().find(|entry| entry.name.contains(['\\', '\n', '\r'])) {
        bail!("cannot pack {:?}: SHA256SUMS cannot hold such a name; rename the file", odd.name);
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(twice) = entries.windows(2).find(|pair| pair[0].name == pair[1].name) {
        bail!(
            "{} would be in the pack twice: {} and {}",
            twice[0].name,
            twice[0].origin(),
            twice[1].origin()
        );
    }
    Ok((entries, warnings))
}

/// Whether the head of an ELF file names that processor.
fn is_for_x86_64(program: &Path) -> Result<bool> {
    let mut head = Vec::new();
    let file = File::open(program).and_then(|file| file.take(20).read_to_end(&mut head));
    file.with_context(|| format!("cannot read {}", program.display()))?;
    Ok(head.starts_with(b"\x7fELF") && head.get(18..20) == Some(&X86_64.to_le_bytes()))
}

/// What `run.sh` reads: shell variables.
fn settings(plan: &PackPlan) -> String {
    let tags: Vec<String> = plan
        .models
        .iter()
        .filter_map(|model| ModelTag::parse(model, PromptKind::Points).map(|tag| tag.text))
        .collect();
    let values = [
        ("PACK_VERSION", env!("CARGO_PKG_VERSION").to_owned()),
        ("RUST_VERSION", env!("CARGO_PKG_RUST_VERSION").to_owned()),
        ("NEEDS", readme::needs(plan)),
        ("PLATFORM", plan.platform.name.clone()),
        ("TITLE", plan.platform.title.clone()),
        ("MODELS", plan.models.join(",")),
        ("TAGS", tags.join(",")),
        ("IMGSZ", plan.imgsz.to_string()),
        ("PRECISION", Precision::name(plan.precision).to_owned()),
        ("MAX_OBJECTS", plan.max_objects.to_string()),
    ];
    values.map(|(name, value)| format!("{name}={}\n", shell::word(&value))).concat()
}
