/*!
A short clip through all engines of a model and through the CPU backend, compared mask by mask.

Tests of single engines do not cover the steps between them: decoding, the
order of steps, the memory bank, the masks at the video's size. Both sides are `segtrt bench`, as a
user would call it.
*/

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::folders::Folder;
use super::protocol::Settings;
use super::record::EngineKey;
use super::same_masks::{Agreement, same_masks};
use super::verdict::Verdict;
use crate::compare::measure;
use runtime::engine::EngineManifest;
use vos::bundle::{Bundle, MemoryEncoderPart, Role};
use vos::model_tag::ModelTag;
use vos::precision::Precision;
use vos::prompt::PromptKind;
use vos::synth::{MASK_STRIDE, SynthOptions, write_split};
use vos::track_variant::TrackVariant;

/// Frames of the clip: the prompted one and five that read a memory that fills. A large model takes
/// a CPU seconds a frame.
const FRAMES: usize = 6;
/// Size of its frames, pixels.
const SIZE: (usize, usize) = (320, 240);

/// What became of a folder's clip.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClipRow {
    /// Whose engines.
    #[serde(flatten)]
    pub key: EngineKey,
    /// Mean IoU with the CPU's masks; none where there is nothing to compare.
    pub mean_iou: Option<f64>,
    /// The lowest of a frame.
    pub lowest_iou: Option<f64>,
    /// Masks that were compared.
    pub masks: usize,
    /// How it came out.
    pub verdict: Verdict,
    /// In words.
    pub said: String,
}

impl ClipRow {
    /// What people read.
    pub fn line(&self) -> String {
        let EngineKey { platform, model, imgsz, precision, .. } = &self.key;
        let word = self.verdict.word();
        format!("clip on {platform} {model} {imgsz} {precision}: {word}: {}", self.said)
    }
}

/// Whether a folder has all that a clip needs; one that was built with `--graphs` may not.
pub fn is_possible(manifest: &EngineManifest) -> bool {
    let has = |wanted: fn(Role) -> bool| manifest.plans.iter().any(|plan| wanted(plan.role));
    // Cut at its attentions, with an engine for the keys or a kernel.
    let keys = has(|role| role == Role::TrackKeys) || manifest.keys().is_some();
    let fused = manifest.has_variant(TrackVariant::Segmented) && keys;
    (has(|role| role == Role::Encoder || role.is_encoder_part())
        || manifest.stem_and_neck().is_some())
        && has(|role| role == Role::Prompt)
        && (has(|role| role == Role::Memory) || manifest.part::<MemoryEncoderPart>().is_some())
        && (has(|role| [Role::Track, Role::TrackPadded].contains(&role)) || fused)
}

/// Makes the clip in `scratch`, which is empty.
///
/// # Errors
/// It cannot be written.
pub fn make(scratch: &Path) -> Result<()> {
    let (width, height) = SIZE;
    let out = scratch.join("split");
    write_split(&SynthOptions {
        out,
        videos: 1,
        objects: 1,
        frames: FRAMES,
        width,
        height,
        seed: 7,
        alike: false,
        mask_stride: MASK_STRIDE,
    })
    .map(|_| ())
}

/// Runs the clip in `scratch` on a folder's engines and on `reference`, the fp32 bundle of the same
/// model.
pub fn run(folder: &Folder, reference: &Bundle, settings: &Settings, scratch: &Path) -> ClipRow {
    let compared = compare(folder, reference, settings, scratch);
    judge(folder.key(), reference.manifest.weights.source == "random", compared)
}

fn compare(
    folder: &Folder,
    reference: &Bundle,
    settings: &Settings,
    scratch: &Path,
) -> Result<Agreement> {
    let key = folder.key();
    let runs = tempfile::tempdir_in(scratch).context("no room for the clip's masks")?;
    let (gpu, cpu) = (runs.path().join("gpu"), runs.path().join("cpu"));
    let tag = ModelTag::parse(&key.model, PromptKind::Points)
        .with_context(|| format!("the model {} has no tag", key.model))?;
    let split = scratch.join("split");
    measure::bench(&on_engines(&key, &tag.text, &split, settings), &gpu)
        .context("on the engines")?;
    measure::bench(&on_cpu(&key, &tag.text, &split, &reference.dir, settings), &cpu)
        .context("on the CPU")?;
    same_masks(&cpu, &gpu)
}

/// The arguments of `bench` for the clip on engines.
fn on_engines(key: &EngineKey, tag: &str, split: &Path, settings: &Settings) -> Vec<String> {
    let mut words = common(key, tag, split);
    // The folder itself: no precision needs to be named, and not every one could.
    words.extend(["--backend", "tensorrt", "--engines", &key.dir].map(str::to_owned));
    let library = settings.tensorrt_lib.iter();
    words
        .extend(library.flat_map(|path| ["--tensorrt-lib".to_owned(), path.display().to_string()]));
    words
}

/// The arguments of `bench` for the clip on the CPU.
fn on_cpu(
    key: &EngineKey,
    tag: &str,
    split: &Path,
    reference: &Path,
    settings: &Settings,
) -> Vec<String> {
    let mut words = common(key, tag, split);
    words.extend(["--precision", "fp32", "--onnx-dir"].map(str::to_owned));
    words.push(reference.display().to_string());
    let library = settings.ort_lib.iter();
    words.extend(library.flat_map(|path| ["--ort-lib".to_owned(), path.display().to_string()]));
    words
}

fn common(key: &EngineKey, tag: &str, split: &Path) -> Vec<String> {
    let (imgsz, split) = (key.imgsz.to_string(), split.display().to_string());
    let words = ["--split-dir", &split, "--models", tag, "--imgsz", &imgsz];
    let rest = ["--warmup-runs", "0", "--save-masks"];
    words.into_iter().chain(rest).map(str::to_owned).collect()
}

/// With random weights a memory is chaotic: what half precision rounds away may become another
/// mask. That says nothing of a GPU.
fn judge(key: EngineKey, is_random: bool, compared: Result<Agreement>) -> ClipRow {
    let agreement = compared.as_ref().ok().copied();
    let (verdict, said) = match compared {
        Err(error) => {
            let text = format!("{error:#}");
            // The log that the bench names goes with the clip.
            let reason = text.rsplit_once("; see ").map_or(text.as_str(), |(reason, _)| reason);
            (Verdict::Failed, reason.to_owned())
        }
        Ok(found) if is_random && key.precision != Precision::Fp32 => {
            (Verdict::Ran, format!("{found}; the weights are random: no limit holds"))
        }
        Ok(found) => match found.check() {
            Ok(()) => (Verdict::Passed, found.to_string()),
            Err(error) => (Verdict::Failed, error.to_string()),
        },
    };
    ClipRow {
        key,
        mean_iou: agreement.map(|found| found.mean),
        lowest_iou: agreement.map(|found| found.lowest),
        masks: agreement.map_or(0, |found| found.masks),
        verdict,
        said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Cli;
    use crate::selftest::case;
    use crate::selftest::engine_run::Repeats;
    use clap::Parser;
    use runtime::engine::manifest::Sources;
    use vos::bundle::{self, Graph, Manifest, MemoryKeyProjShape, WantedBundle};

    fn key(precision: Precision) -> EngineKey {
        EngineKey {
            dir: "engines/h200/edgetam_mini_256_fp32".to_owned(),
            platform: "h200".to_owned(),
            model: "edgetam_mini".to_owned(),
            imgsz: 256,
            precision,
        }
    }

    fn settings() -> Settings {
        Settings {
            device: 0,
            repeats: Repeats { warmup: 0, runs: 1, layer_runs: 0 },
            max_error: None,
            seed: 8,
            tensorrt_lib: Some("trt".into()),
            ort_lib: None,
        }
    }

    #[test]
    fn a_clip_is_judged_where_its_masks_say_something() {
        let near = || Ok(Agreement { mean: 0.97, lowest: 0.9, masks: 6 });
        let far = || Ok(Agreement { mean: 0.5, lowest: 0.0, masks: 6 });
        let of = |precision, random, found| judge(key(precision), random, found).verdict;
        assert_eq!(of(Precision::Fp16, false, near()), Verdict::Passed);
        assert_eq!(of(Precision::Fp16, false, far()), Verdict::Failed);
        assert_eq!(of(Precision::Fp16, true, far()), Verdict::Ran);
        assert_eq!(of(Precision::Fp32, true, far()), Verdict::Failed);
        let broken = judge(
            key(Precision::Fp16),
            true,
            Err(anyhow::anyhow!("no memory; see /gone/bench.log")),
        );
        assert_eq!((broken.verdict, broken.said.as_str()), (Verdict::Failed, "no memory"));
        let row = serde_json::to_value(judge(key(Precision::Fp32), false, near())).unwrap();
        assert_eq!((&row["model"], &row["mean_iou"]), (&"edgetam_mini".into(), &0.97.into()));
    }

    #[test]
    fn a_clip_needs_no_engine_for_keys_that_a_kernel_makes() {
        let mut bundle = case::tests::manifest();
        let track = bundle.graph(Role::Track).unwrap().clone();
        let cut = [Role::EncoderCut0, Role::TrackKeys, Role::TrackSeg0];
        bundle.graphs.extend(cut.map(|role| Graph { role, ..track.clone() }));
        let possible = |bundle: &Manifest, roles: &[Role]| {
            let plans = roles.iter().map(|role| case::tests::plan(bundle, *role)).collect();
            is_possible(&EngineManifest {
                format: 1,
                platform: "h200".to_owned(),
                precision: Precision::Fp16,
                bundle: bundle.clone(),
                products: None,
                attention_kernels: false,
                sources: Sources::default(),
                dir: None,
                plans,
            })
        };
        let others = [Role::EncoderCut0, Role::Prompt, Role::Memory];
        let with = |roles: &[Role]| [&others[..], roles].concat();
        assert!(possible(&bundle, &with(&[Role::TrackKeys, Role::TrackSeg0])));
        assert!(!possible(&bundle, &with(&[Role::TrackSeg0])));
        assert!(!possible(&bundle, &with(&[Role::TrackKeys])));
        let mut trunk = bundle::trunk::fixtures::small();
        trunk.keys = Some(MemoryKeyProjShape {
            layers: 2,
            memories: 7,
            tokens: 16,
            pointers: 16,
            pointer_times: true,
        });
        bundle.trunk = Some(trunk);
        assert!(possible(&bundle, &with(&[Role::TrackSeg0])));
        assert!(!possible(&bundle, &with(&[])));
    }

    /// The words are bench's own, and the reference is one that the CPU backend takes.
    #[test]
    fn both_sides_are_benches_of_the_clip() {
        let scratch = tempfile::tempdir().unwrap();
        make(scratch.path()).unwrap();
        let split = scratch.path().join("split");
        let roots = ["onnx/bundles".into()];
        let wanted = WantedBundle { model: "edgetam_mini", imgsz: Some(256), precision: "fp32" };
        let bundles = bundle::list(&roots).unwrap();
        let reference = bundle::find(&bundles, &roots, &wanted).unwrap();
        let (key, settings) = (key(Precision::Fp32), settings());
        let tag = "edgetam_mini_points";
        for words in [
            on_engines(&key, tag, &split, &settings),
            on_cpu(&key, tag, &split, &reference.dir, &settings),
        ] {
            let line = ["segtrt", "bench"].map(str::to_owned).into_iter().chain(words);
            Cli::try_parse_from(line).unwrap();
        }
    }
}
