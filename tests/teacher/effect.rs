//! A run that teaches itself changes nothing; a wrong frame spoils what follows, and under a
//! teacher it does not.

use runtime::backend::OrtNetwork;
use runtime::backend::Provider;
use vos::bundle::{Bundle, Manifest};
use vos::decode::RgbImage;
use vos::geometry::{Geometry, GeometryKind};
use vos::logits::{Exchange, LogitsFile, rounded};
use vos::mask::Mask;
use vos::prompt::{ObjectPrompt, PromptKind, PromptPolicy};
use vos::tracker::{FrameOutput, Network, NetworkPrompt, Selection, Slots, Tracker};

use super::shared::{FRAMES, base, logits_files, masks, sidecar, turn_over};
use crate::support::{bench, column, copy, onnxruntime, small_bundle};

#[test]
fn a_run_that_teaches_itself_has_its_own_masks() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("taught");
    bench(&base().split, &out)
        .arg("--save-masks")
        .arg("--teacher")
        .arg(&base().run)
        .assert()
        .success();
    let (free, taught) = (masks(&base().run), masks(&out));
    assert_eq!((free.len(), taught.len()), (FRAMES, FRAMES));
    let share = |mask: &Mask| mask.area() as f64 / (mask.width() * mask.height()) as f64;
    let counting = free.iter().filter(|mask| (0.01..0.95).contains(&share(mask))).count();
    assert!(counting > FRAMES / 2, "{counting} masks prove something");
    for (t, (free, taught)) in free.iter().zip(&taught).enumerate() {
        // The prompted frame reads no memory. Later ones read memories from logits that were
        // rounded to half precision.
        assert!(t > 0 || free == taught, "frame 0");
        assert!(differing(free, taught) <= 1, "frame {t}: {}", differing(free, taught));
    }
    // The files say what was done, and nobody can take it for a speed.
    let files = logits_files(&base().run);
    assert_eq!(files[0].file_name().unwrap(), "synth_000__obj000__edgetam_mini_points.npy");
    assert_eq!(LogitsFile::shape(&files[0]).unwrap(), (FRAMES, 64));
    assert!(!out.join("logits").exists());
    for (run, code) in [
        (&out, "teacher_forced: teacher-forced: not a measurement of speed"),
        (&base().run, "logits_saved: not a measurement of speed"),
    ] {
        let summary = run.join("sav_benchmark_summary.csv");
        assert_eq!(column(&summary, "verdict"), ["INVALID"]);
        assert!(column(&summary, "verdict_reason")[0].contains(code), "{code}");
    }
    let told = sidecar(&base().run);
    let sidecar = sidecar(&out);
    assert!(
        sidecar["timed_region"].as_str().unwrap().contains("Teacher-forced: not a measurement")
    );
    let teacher = &sidecar["configuration"]["teacher"];
    assert_eq!(teacher["configuration_sha256"], told["configuration_sha256"]);
    assert_eq!(told["configuration"]["save_logits"], true);
    assert!(teacher["backend"].as_str().unwrap().starts_with("onnxruntime"));
    let input = &sidecar["inputs"]["teacher/synth_000__obj000__edgetam_mini_points.npy"];
    assert_eq!(input["bytes"], 128 + 2 * FRAMES * 64 * 64);
}

#[test]
fn a_teachers_frame_reaches_later_frames_and_not_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (wrong, out) = (dir.path().join("wrong"), dir.path().join("taught"));
    copy(&base().run, &wrong);
    turn_over(&wrong, 6);
    let mut command = bench(&base().split, &out);
    command.arg("--save-masks").arg("--teacher").arg(&wrong).assert().success();
    let (free, taught) = (masks(&base().run), masks(&out));
    let found: Vec<usize> = free.iter().zip(&taught).map(|(a, b)| differing(a, b)).collect();
    only_readers_differ(&found, 6);
}

/// The frames that read the memory of frame `wrong` have other masks, and no other frame does. The
/// network was trained to rely on its six good memories too, so each later reader may hide the
/// wrong one.
fn only_readers_differ(found: &[usize], wrong: usize) {
    let others = found.iter().enumerate().filter(|(t, _)| *t != wrong && !reads(*t, wrong));
    for (t, pixels) in others {
        assert!(*pixels <= 1, "frame {t} does not read the wrong memory: {found:?}");
    }
    let readers = &found[wrong + 1..=wrong + 6];
    assert!(readers[0] >= 4, "the next frame reads the wrong memory: {found:?}");
    assert!(readers.iter().sum::<usize>() >= 10, "readers are wrong too: {found:?}");
}

/// Pixels that only one of the masks has.
fn differing(a: &Mask, b: &Mask) -> usize {
    let (both, either) = a.intersection_union(b);
    either - both
}

/// Whether frame `t` reads the memory of frame `of`: of the last six, and with them the prompted one.
fn reads(t: usize, of: usize) -> bool {
    (of + 1..=of + 6).contains(&t)
}

/// A network whose decoder errs on one frame: its mask is turned over, and so is what its memory
/// would be made from.
struct WrongOnce {
    inner: OrtNetwork,
    wrong: usize,
    frame: usize,
    taught: bool,
}

impl Network for WrongOnce {
    fn manifest(&self) -> &Manifest {
        self.inner.manifest()
    }
    fn begin_clip(&mut self, geometry: &Geometry) -> anyhow::Result<()> {
        self.frame = 0;
        self.inner.begin_clip(geometry)
    }
    fn load(&mut self, frame: &RgbImage) -> anyhow::Result<()> {
        self.inner.load(frame)
    }
    fn encode(&mut self) -> anyhow::Result<()> {
        self.inner.encode()
    }
    fn prompt(&mut self, prompt: &NetworkPrompt) -> anyhow::Result<()> {
        self.inner.prompt(prompt)
    }
    fn track(&mut self, selection: &Selection) -> anyhow::Result<()> {
        self.inner.track(selection)
    }
    fn output(&mut self) -> anyhow::Result<FrameOutput> {
        let mut output = self.inner.output()?;
        if self.frame == self.wrong {
            let mask = &output.mask;
            output.mask = Mask::from_fn(mask.width(), mask.height(), |x, y| !mask.get(x, y));
        }
        Ok(output)
    }
    fn logits(&self) -> anyhow::Result<&[f32]> {
        self.inner.logits()
    }
    fn teach(&mut self, logits: &[half::f16]) -> anyhow::Result<()> {
        self.taught = true;
        self.inner.teach(logits)
    }
    fn memorise(&mut self, slots: Slots, binarise: bool) -> anyhow::Result<()> {
        if self.frame == self.wrong && !self.taught {
            let turned: Vec<_> = self.inner.logits()?.iter().map(|v| rounded(-v)).collect();
            self.inner.teach(&turned)?;
        }
        self.taught = false;
        self.frame += 1;
        self.inner.memorise(slots, binarise)
    }
}

#[test]
fn an_error_of_one_frame_drifts_freely_and_stays_alone_under_a_teacher() {
    const WRONG: usize = 5;
    let split = vos::dataset::open(&base().split, "sav_val").unwrap();
    let clip = split.clip("synth_000").unwrap();
    let size = clip.frame_size().unwrap();
    let bundle = Bundle::open(&small_bundle()).unwrap();
    let inner = OrtNetwork::open(onnxruntime(), &bundle, Provider::Cpu, 1, false).unwrap();
    let mut network = WrongOnce { inner, wrong: WRONG, frame: 0, taught: false };
    let geometry =
        Geometry::new(GeometryKind::Stretch, size.0, size.1, bundle.manifest.model.imgsz);
    let (object, policy) = (&clip.objects[0], PromptPolicy::Predecessor);
    let prompt = ObjectPrompt::new(object, FRAMES, size, PromptKind::Points, policy).unwrap();
    let prompt = NetworkPrompt::new(&prompt.prompt, &geometry);
    let teacher = LogitsFile::read(&logits_files(&base().run)[0]).unwrap();
    let mut run = |teacher: Option<&LogitsFile>| -> Vec<Mask> {
        let exchange = Exchange { save: false, teacher };
        let tracker = Tracker::new(&mut network, &geometry, FRAMES).unwrap();
        let mut tracker = tracker.exchanging(exchange);
        let step = |t: usize| {
            let frame = clip.frame(t, size).unwrap();
            let step = if t == 0 { tracker.prompt(&frame, &prompt) } else { tracker.track(&frame) };
            step.unwrap().output.mask
        };
        (0..FRAMES).map(step).collect()
    };
    let (free, taught) = (run(None), run(Some(&teacher)));
    let right = masks(&base().run);
    let wrong = |masks: &[Mask]| -> Vec<usize> {
        right.iter().zip(masks).map(|(right, mask)| differing(right, mask)).collect()
    };
    let (free, taught) = (wrong(&free), wrong(&taught));
    assert!(free[WRONG] > 5000 && taught[WRONG] > 5000, "the frame itself is wrong either way");
    only_readers_differ(&free, WRONG);
    for (t, taught) in taught.iter().enumerate().filter(|(t, _)| *t != WRONG) {
        assert!(*taught <= 1, "teacher-forced, frame {t} is right again: {taught}");
    }
}
