/*!
What a dry run says of each model: memory, and the range of FPS that the roofline allows.
*/

use serde_json::{Value, json};

use super::planned::{ModelBuild, Resolved};
use crate::estimate::{FpsRange, MemoryNeed, mib};
use host::screen_table;
use vos::bundle::{Bundle, Role};
use vos::roofline::{self, Peaks};

/// One model.
pub struct ModelEstimate {
    name: String,
    memory: MemoryNeed,
    frame_ms: Option<f64>,
    fps: Option<FpsRange>,
}

/// For each model that is planned; the peaks are the data sheet's.
fn estimates(resolved: &Resolved) -> (Option<Peaks>, Vec<ModelEstimate>) {
    let peaks = Peaks::of_platform(&resolved.platform);
    let of = |model: &ModelBuild| {
        let Bundle { manifest, .. } = &model.bundle;
        let bounds = peaks.as_ref().map(|peaks| roofline::stages(manifest, model.precision, peaks));
        let frame_ms = bounds.as_deref().and_then(roofline::frame_ms);
        let cap = model.workspace_mb();
        let unified = resolved.platform.unified;
        ModelEstimate {
            name: model.name.clone(),
            memory: MemoryNeed::of_bundle(&model.bundle, model.precision, cap, unified),
            frame_ms,
            fps: frame_ms.map(|ms| FpsRange::of(&manifest.model.name, manifest.model.imgsz, ms)),
        }
    };
    let models = resolved.models.iter().filter(|model| is_whole(model));
    let estimates = models.map(of).collect();
    (peaks, estimates)
}

/// Whether all of the model is planned, not some of its graphs.
fn is_whole(model: &ModelBuild) -> bool {
    model.plans.iter().any(|plan| plan.job.role == Role::Prompt)
}

/// For a terminal; none where only some graphs are planned.
pub fn text(resolved: &Resolved) -> Option<String> {
    let (peaks, models) = estimates(resolved);
    if models.is_empty() {
        return None;
    }
    let platform = &resolved.platform;
    let mut table = screen_table::dense(
        ["estimate, not measured", "memory MiB", "least ms of a frame", "FPS"],
        [1, 2, 3],
    );
    let mut notes = Vec::new();
    for model in &models {
        table.add_row([
            model.name.clone(),
            (model.memory.bytes() >> 20).to_string(),
            screen_table::number(model.frame_ms, 2),
            model.fps.as_ref().map_or_else(|| "-".to_owned(), FpsRange::text),
        ]);
        if model.memory.bytes() > platform.memory_mb << 20 {
            notes.push(format!(
                "{} needs about {} and the smallest {} has {} MiB: {}",
                model.name,
                mib(model.memory.bytes()),
                platform.title,
                platform.memory_mb,
                model.memory.text()
            ));
        }
        let from = model.fps.as_ref().and_then(|fps| fps.least_from.as_ref());
        notes.extend(from.map(|from| format!("{}: the lower end is {from}", model.name)));
        if peaks.is_some() && model.frame_ms.is_none() {
            notes.push(format!(
                "{}: its bundle counts no bytes, so there is no FPS; add them: python3 \
                 onnx/segexport/work.py BUNDLE",
                model.name
            ));
        }
    }
    notes.push(match &peaks {
        Some(peaks) => format!(
            "the upper end of FPS is 100 % of the roofline, with {:.1} TFLOP/s and {} ({})",
            peaks.gflops / 1e3,
            peaks
                .mb_per_s
                .map_or("any bandwidth".to_owned(), |rate| format!("{:.0} GB/s", rate / 1e3)),
            peaks.source
        ),
        None => format!(
            "engines/platforms.toml has no peaks of the {}, so there is no FPS",
            platform.title
        ),
    });
    notes.push(
        "memory adds up weights, activations, the workspace cap, buffers and libraries; libraries \
         and host memory were measured on an H200"
            .to_owned(),
    );
    let notes: Vec<String> = notes.into_iter().map(|note| format!("estimate: {note}")).collect();
    Some(format!("{table}\n{}", notes.join("\n")))
}

/// For a program.
pub fn json(resolved: &Resolved) -> Value {
    let (peaks, models) = estimates(resolved);
    let models = models.into_iter().map(|model| {
        json!({
            "model": model.name, "memory": model.memory, "memory_bytes": model.memory.bytes(),
            "frame_least_ms": model.frame_ms, "fps": model.fps,
        })
    });
    json!({"measured": false, "peaks": peaks, "models": models.collect::<Vec<_>>()})
}
