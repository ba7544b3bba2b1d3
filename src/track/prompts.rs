/*!
Checks the prompts of the command line against the clip, before a model is loaded.
*/

use anyhow::{Result, anyhow, bail};

use super::job::{TrackJob, Wanted};
use host::UsageError;
use host::{counted, shell};
use vos::bundle::{Axis, Manifest, Role};
use vos::decode;
use vos::mask::Mask;
use vos::prompt::{Click, Prompt};

/// The prompts of all objects, in their order.
///
/// # Errors
/// [`UsageError`]: the frame is past the end, a click or box is outside it, a mask has another size
/// or is empty. Any other error: a mask cannot be read.
pub fn of(job: &TrackJob, size: (usize, usize), frames: usize) -> Result<Vec<Prompt>> {
    if job.frame >= frames {
        usage(format!(
            "--frame {}: {} has {}, so the last one is --frame {}",
            job.frame,
            job.clip.display(),
            counted(frames, "frame"),
            frames.saturating_sub(1)
        ))?;
    }
    job.objects.iter().map(|object| one(object, size)).collect()
}

fn one(object: &Wanted, (width, height): (usize, usize)) -> Result<Prompt> {
    let id = object.id;
    let there = format!(
        "frames are {width}x{height}, x is 0 to {}, y is 0 to {}",
        width.saturating_sub(1),
        height.saturating_sub(1)
    );
    if let Some(path) = &object.mask {
        return mask(object, path, (width, height)).map(Prompt::Mask);
    }
    let inside = |x: f32, y: f32| x < width as f32 && y < height as f32 && x >= 0.0 && y >= 0.0;
    for Click { x, y, .. } in &object.clicks.clicks {
        if !inside(*x, *y) {
            usage(format!("--click {x},{y} (object {id}) is outside the frame: {there}"))?;
        }
    }
    // A box may end at the frame's edge, which is one past the last pixel.
    let edge = format!("frames are {width}x{height}, so it ends at {width},{height} at most");
    if let Some([left, top, right, bottom]) = object.clicks.bbox
        && !(inside(left, top) && right <= width as f32 && bottom <= height as f32)
    {
        usage(format!(
            "--box {left},{top},{right},{bottom} (object {id}) is outside the frame: {edge}"
        ))?;
    }
    Ok(Prompt::Clicks(object.clicks.clone()))
}

fn mask(object: &Wanted, path: &std::path::Path, size: (usize, usize)) -> Result<Mask> {
    // The error names the file, and its source is in its text.
    let unreadable = |error| {
        let (id, (width, height)) = (object.id, size);
        anyhow!(
            "--mask of object {id}: {error}; expected a PNG of {width}x{height} pixels, 0 where \
             the object is not"
        )
    };
    // The header first: a file of another size is not decoded.
    let found = decode::mask_png_size(path).map_err(unreadable)?;
    if found != size {
        usage(format!(
            "--mask {}: it is {}x{}, the frames are {}x{}; give a mask of the frames' size",
            path.display(),
            found.0,
            found.1,
            size.0,
            size.1
        ))?;
    }
    let mask = decode::mask_png(path).map_err(unreadable)?.mask(None);
    if mask.is_empty() {
        usage(format!(
            "--mask {} is empty: no pixel differs from 0; mark the object's pixels",
            path.display()
        ))?;
    }
    Ok(mask)
}

/// A sentence for the first positive click that the object's mask on the prompted frame leaves out.
pub fn missed(id: u8, prompt: &Prompt, mask: &Mask) -> Option<String> {
    let Prompt::Clicks(clicks) = prompt else { return None };
    let outside = |click: &&Click| {
        let (x, y) = (click.x as usize, click.y as usize);
        let inside = x < mask.width() && y < mask.height();
        click.positive && !(inside && mask.get(x, y))
    };
    clicks.clicks.iter().find(outside).map(|Click { x, y, .. }| {
        format!(
            "the mask of object {id} leaves out its click {x},{y}; click well inside the object, \
             or add a click or a box"
        )
    })
}

/// Refuses prompts with more points than the model's graph or engine takes. `most`: the engine's limit.
///
/// # Errors
/// The object and the command that makes room.
pub fn check_room(job: &TrackJob, manifest: &Manifest, most: Option<usize>) -> Result<()> {
    for object in job.objects.iter().filter(|object| object.mask.is_none()) {
        let points = object.clicks.points();
        let takes = |what: &str, limit: usize, advice: String| {
            UsageError(format!(
                "object {} has {} (a box counts as two), but {what} of {} takes {limit}; {advice}",
                object.id,
                counted(points, "point"),
                job.model.dir.display()
            ))
        };
        if let Some(limit) = fixed_points(manifest)
            && limit != points
        {
            let model = &manifest.model;
            let advice = format!(
                "export the model again for any number: python3 onnx/export.py --model {} --imgsz \
                 {} --precision {} --checkpoint FILE --out {}",
                shell::word(&model.name),
                model.imgsz,
                shell::word(&model.precision),
                shell::path(job.model.dir.parent().unwrap_or(&job.model.dir))
            );
            bail!(takes("the prompt graph", limit, advice));
        }
        if let Some(limit) = most.filter(|limit| points > *limit) {
            let advice = format!(
                "build the engines again with: segtrt build-engines --models {} --prompt-points {points}",
                shell::word(&job.model.tag.network)
            );
            bail!(takes("the prompt engine", limit, advice));
        }
    }
    Ok(())
}

/// The number of points that the prompt graph is fixed to; none where it takes any.
fn fixed_points(manifest: &Manifest) -> Option<usize> {
    match manifest.graph(Role::Prompt)?.input("labels")?.shape.get(1)? {
        Axis::Fixed(points) => Some(*points),
        Axis::Symbol(_) => None,
    }
}

fn usage(message: String) -> Result<()> {
    bail!(UsageError(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load::RuntimePlan;
    use crate::bench::plan::BenchModel;
    use runtime::backend::Provider;
    use vos::model_tag::ModelTag;
    use vos::precision::Precision;
    use vos::preprocess::Filter;
    use vos::prompt::{Clicks, PromptKind};

    fn job(points: usize) -> TrackJob {
        let click = Click { x: 1.0, y: 1.0, positive: true };
        let clicks = Clicks { bbox: None, clicks: vec![click; points] };
        TrackJob {
            clip: "clip".into(),
            objects: vec![Wanted { id: 2, clicks, ..Wanted::default() }],
            frame: 0,
            max_frames: 0,
            model: BenchModel {
                tag: ModelTag::parse("edgetam_mini", PromptKind::Points).unwrap(),
                dir: "bundles/old".into(),
                imgsz: 256,
                precision: Precision::Fp32,
            },
            runtime: RuntimePlan {
                gpu: None,
                ort_lib: None,
                provider: Provider::Cpu,
                threads: 1,
                resize: Filter::default(),
            },
            out: "out".into(),
            overlay: None,
        }
    }

    #[test]
    fn a_graph_of_a_fixed_number_of_points_is_refused_with_the_export() {
        let text = include_str!("../../onnx/bundles/edgetam_mini_256_fp32/manifest.toml");
        let any: Manifest = toml::from_str(text).unwrap();
        check_room(&job(8), &any, None).unwrap();
        let fixed: Manifest = toml::from_str(&text.replace("\"P\"", "1")).unwrap();
        check_room(&job(1), &fixed, None).unwrap();
        let error = check_room(&job(3), &fixed, None).unwrap_err().to_string();
        assert!(error.contains("object 2 has 3 points") && error.contains("takes 1;"), "{error}");
        assert!(error.contains("onnx/export.py --model edgetam_mini --imgsz 256"), "{error}");
        let error = check_room(&job(3), &any, Some(2)).unwrap_err().to_string();
        assert!(error.contains("the prompt engine of bundles/old takes 2;"), "{error}");
    }
}
