/*!
Finds the bundle for a model tag in the bundle folders.
*/

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::Bundle;

use crate::model_tag::ModelTag;
use host::share::BUNDLES;
use host::shell;

/// The requested bundle; `None` accepts any.
#[derive(Clone, Debug)]
pub struct WantedBundle<'a> {
    /// Model name as manifests have it (`sam2.1_tiny`).
    pub model: &'a str,
    /// Side of the network input, pixels.
    pub imgsz: Option<usize>,
    /// `fp32` or `fp16`.
    pub precision: &'a str,
}

/// The input size that is used if several exist and none is requested.
const USUAL_IMGSZ: usize = 1024;

/// All bundles in `roots`, by name. Folders without a manifest are skipped; a broken manifest is an
/// error. A copy of a bundle in a later root, with the same name and manifest, is left out.
pub fn list(roots: &[PathBuf]) -> Result<Vec<Bundle>> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut is_new = |dir: &Path| {
        let text = std::fs::read(dir.join("manifest.toml")).unwrap_or_default();
        // A folder named by "." has no name of its own.
        let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        seen.insert((real.file_name().map(OsStr::to_owned), text))
    };
    for root in roots {
        if root.join("manifest.toml").is_file() {
            let bundle = Bundle::open(root)?;
            found.extend(is_new(root).then_some(bundle));
            continue;
        }
        let Ok(entries) = std::fs::read_dir(root) else { continue };
        let mut dirs: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        dirs.sort();
        for dir in dirs.iter().filter(|dir| dir.join("manifest.toml").is_file()) {
            let bundle = Bundle::open(dir)?;
            found.extend(is_new(dir).then_some(bundle));
        }
    }
    Ok(found)
}

/// The bundle for `wanted`: of the requested size, else 1024, else the only one. The first root with it wins.
pub fn find(bundles: &[Bundle], roots: &[PathBuf], wanted: &WantedBundle<'_>) -> Result<Bundle> {
    let fits = |bundle: &&Bundle| {
        let m = &bundle.manifest.model;
        m.name == wanted.model
            && m.precision == wanted.precision
            && wanted.imgsz.is_none_or(|side| side == m.imgsz)
    };
    let side = |bundle: &Bundle| bundle.manifest.model.imgsz;
    let candidates: Vec<&Bundle> = bundles.iter().filter(fits).collect();
    let usual = candidates.iter().find(|b| b.manifest.model.imgsz == USUAL_IMGSZ);
    match (usual, candidates.as_slice()) {
        (Some(bundle), _) if wanted.imgsz.is_none() => Ok((*bundle).clone()),
        (_, [first, others @ ..]) if others.iter().all(|other| side(other) == side(first)) => {
            Ok((*first).clone())
        }
        (_, []) => bail!("{}", missing(bundles, roots, wanted)),
        (_, several) => bail!(
            "{} has several sizes ({}); choose one with --imgsz",
            wanted.model,
            several
                .iter()
                .map(|b| b.manifest.model.imgsz.to_string())
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

fn missing(bundles: &[Bundle], roots: &[PathBuf], wanted: &WantedBundle<'_>) -> String {
    let size = wanted.imgsz.unwrap_or(USUAL_IMGSZ);
    let searched = roots.iter().map(|root| place(root)).collect::<Vec<_>>().join(", ");
    let there = match bundles {
        [] => "no bundle".to_owned(),
        some => some.iter().map(Bundle::name).collect::<Vec<_>>().join(", "),
    };
    // Bundles are next to each other, not inside one another.
    let out = match roots.first() {
        Some(root) if root.is_dir() || !root.exists() => root,
        _ => Path::new(BUNDLES),
    };
    // Mixed engines are built from fp16 graphs. Most platforms build from the segments, so the
    // command exports them.
    let graphs = if wanted.precision == "mixed" { "fp16" } else { wanted.precision };
    let (model, dir) = (shell::word(wanted.model), shell::path(out));
    let how = match ModelTag::is_published(wanted.model) {
        true => {
            let out =
                if out == Path::new(BUNDLES) { String::new() } else { format!(" --out {dir}") };
            format!(
                "get it with: segtrt fetch {model} --imgsz {size} --precision {graphs}{out} (a \
                 checkpoint of your own: --checkpoint FILE)"
            )
        }
        // Another precision of a bundle that is there has its size and its weights.
        false => {
            let like = bundles.iter().find(|bundle| bundle.manifest.model.name == wanted.model);
            let side = wanted.imgsz.or(like.map(|bundle| bundle.manifest.model.imgsz));
            let side = side.map_or_else(String::new, |side| format!(" --imgsz {side}"));
            let checkpoint = like.and_then(Bundle::checkpoint);
            let checkpoint = checkpoint.map_or("FILE".into(), |file| shell::path(&file));
            format!(
                "export it with: python3 onnx/export.py --model {model}{side} --precision \
                 {graphs} --segments --padded-track --checkpoint {checkpoint} --out {dir}"
            )
        }
    };
    format!(
        "no bundle of {} at {} in {}: searched {searched}, found {there}; {}{how}",
        wanted.model,
        wanted.imgsz.map_or("any size".to_owned(), |side| format!("imgsz {side}")),
        wanted.precision,
        others(bundles, wanted),
    )
}

/// A searched folder, and why nothing was found in it.
fn place(root: &Path) -> String {
    let why = match root {
        root if root.is_dir() => "",
        root if root.exists() => " (not a folder)",
        _ => " (missing)",
    };
    format!("{}{why}", root.display())
}

/// The flags for the existing bundles of this model; empty without one.
fn others(bundles: &[Bundle], wanted: &WantedBundle<'_>) -> String {
    let of_model = bundles.iter().map(|bundle| &bundle.manifest.model);
    let flags: Vec<String> = of_model
        .filter(|model| model.name == wanted.model)
        .map(|model| format!("--imgsz {} --precision {}", model.imgsz, model.precision))
        .collect();
    match flags.as_slice() {
        [] => String::new(),
        flags => format!("use an existing one with {}, or ", flags.join(" or ")),
    }
}
