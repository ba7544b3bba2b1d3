/*!
Finds the bundle that a model tag asks for below the folders where bundles are kept.
*/

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::Bundle;

use host::shell;

/// What the command line asks for; `None` leaves the choice to what is there.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Model name as manifests have it (`sam2.1_tiny`).
    pub model: &'a str,
    /// Side of the network input, pixels.
    pub imgsz: Option<usize>,
    /// `fp32` or `fp16`.
    pub precision: &'a str,
}

/// The input size taken where several are there and none is asked for.
const USUAL_IMGSZ: usize = 1024;

/// All bundles below `roots`, by name. Folders without a manifest are passed over; a broken
/// manifest is an error.
pub fn list(roots: &[PathBuf]) -> Result<Vec<Bundle>> {
    let mut found = Vec::new();
    for root in roots {
        if root.join("manifest.toml").is_file() {
            found.push(Bundle::open(root)?);
            continue;
        }
        let Ok(entries) = std::fs::read_dir(root) else { continue };
        let mut dirs: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        dirs.sort();
        for dir in dirs.iter().filter(|dir| dir.join("manifest.toml").is_file()) {
            found.push(Bundle::open(dir)?);
        }
    }
    Ok(found)
}

/// Picks the bundle for `wanted`: the exact size where one is asked for, else 1024, else the only
/// one there.
pub fn find(bundles: &[Bundle], roots: &[PathBuf], wanted: &Wanted<'_>) -> Result<Bundle> {
    let fits = |bundle: &&Bundle| {
        let m = &bundle.manifest.model;
        m.name == wanted.model
            && m.precision == wanted.precision
            && wanted.imgsz.is_none_or(|side| side == m.imgsz)
    };
    let candidates: Vec<&Bundle> = bundles.iter().filter(fits).collect();
    let usual = candidates.iter().find(|b| b.manifest.model.imgsz == USUAL_IMGSZ);
    match (usual, candidates.as_slice()) {
        (Some(bundle), _) if wanted.imgsz.is_none() => Ok((*bundle).clone()),
        (_, [only]) => Ok((*only).clone()),
        // The first root that has it wins, as with search paths everywhere.
        (_, [first, ..]) if wanted.imgsz.is_some() => Ok((*first).clone()),
        (_, []) => bail!("{}", missing(bundles, roots, wanted)),
        (_, several) => bail!(
            "several sizes of {} are there ({}); say which with --imgsz",
            wanted.model,
            several
                .iter()
                .map(|b| b.manifest.model.imgsz.to_string())
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

fn missing(bundles: &[Bundle], roots: &[PathBuf], wanted: &Wanted<'_>) -> String {
    let size = wanted.imgsz.unwrap_or(USUAL_IMGSZ);
    let searched = roots.iter().map(|root| place(root)).collect::<Vec<_>>().join(", ");
    let there = match bundles {
        [] => "no bundle".to_owned(),
        some => some.iter().map(Bundle::name).collect::<Vec<_>>().join(", "),
    };
    // Bundles lie beside each other: not inside one of them.
    let out = match roots.first() {
        Some(root) if root.is_dir() || !root.exists() => root,
        _ => Path::new("onnx/bundles"),
    };
    // Mixed engines are built from fp16 graphs. The segments are what engines of most platforms are
    // built from: without them whoever types this comes to build-engines and is sent back.
    let graphs = if wanted.precision == "mixed" { "fp16" } else { wanted.precision };
    format!(
        "no bundle of {} at {} in {}: searched {searched}, found {there}; {}make it with: \
         python onnx/export.py --model {} --imgsz {size} --precision {} --segments --padded-track --checkpoint FILE --out {}",
        wanted.model,
        wanted.imgsz.map_or("any size".to_owned(), |side| format!("imgsz {side}")),
        wanted.precision,
        others(bundles, wanted),
        shell::word(wanted.model),
        graphs,
        shell::path(out)
    )
}

/// A folder that was searched, and what is wrong with it where that is why nothing was found.
fn place(root: &Path) -> String {
    let why = match root {
        root if root.is_dir() => "",
        root if root.exists() => " (no folder)",
        _ => " (not there)",
    };
    format!("{}{why}", root.display())
}

/// The flags that take this model as it is there; nothing where it is not.
fn others(bundles: &[Bundle], wanted: &Wanted<'_>) -> String {
    let of_model = bundles.iter().map(|bundle| &bundle.manifest.model);
    let flags: Vec<String> = of_model
        .filter(|model| model.name == wanted.model)
        .map(|model| format!("--imgsz {} --precision {}", model.imgsz, model.precision))
        .collect();
    match flags.as_slice() {
        [] => String::new(),
        flags => format!("take what is there with {}, or ", flags.join(" or ")),
    }
}
