//! Benches that are killed at any moment and resumed: no row is lost, doubled or changed, nothing
//! hangs, nothing is left behind.
//!
//! The moments are drawn from a fixed seed, as parts of the time that an undisturbed run takes.
//! `SEGTRT_KILLS=N` kills N benches.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{bench, child_of, read_csv, segtrt};

/// Benches that the suite kills.
const USUAL_KILLS: usize = 20;

/// A bench or a worker that is there for longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Columns that do not depend on time, memory and sensors.
const STABLE: [&str; 25] = [
    "video",
    "object",
    "model",
    "imgsz",
    "precision",
    "frames",
    "processed_end_frame",
    "J",
    "F",
    "JandF",
    "overlay",
    "input_H",
    "input_W",
    "infer_H",
    "infer_W",
    "status",
    "reason",
    "backend",
    "device",
    "geometry",
    "prompt_policy",
    "metrics",
    "scored_frames",
    "runs",
    "fidelity",
];

/// Who is killed, and by what.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Parent(Signal),
    Worker,
    Both,
}

const BLOWS: [Blow; 6] = [
    Blow::Parent(Signal::SIGKILL),
    Blow::Worker,
    Blow::Both,
    Blow::Parent(Signal::SIGINT),
    Blow::Parent(Signal::SIGTERM),
    Blow::Parent(Signal::SIGHUP),
];

/// splitmix64: the same moments in every run.
struct Moments(u64);

impl Moments {
    /// A number from 0 to 1.
    fn part(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A bench that runs, and the file of what it says.
struct Running {
    bench: Child,
    said: PathBuf,
}

impl Running {
    fn start(split: &Path, out: &Path, resume: bool) -> Self {
        let mut command = bench(split, out);
        command.args(["--models", "edgetam_mini_points,edgetam_mini_bbox", "--save-masks"]);
        command.args(resume.then_some("--resume"));
        let said = out.with_extension("said");
        let bench = std::process::Command::new(command.get_program())
            .args(command.get_args())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&said).unwrap())
            .spawn()
            .unwrap();
        Self { bench, said }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    fn strike(&self, blow: Blow, worker: Option<u32>) {
        // Whoever ended meanwhile needs no signal.
        let send = |id: u32, signal| {
            let _ = kill(Pid::from_raw(id as i32), signal);
        };
        if let Blow::Parent(signal) = blow {
            send(self.bench.id(), signal);
        }
        if let (Blow::Worker | Blow::Both, Some(worker)) = (blow, worker) {
            send(worker, Signal::SIGKILL);
        }
        if let Blow::Both = blow {
            send(self.bench.id(), Signal::SIGKILL);
        }
    }

    /// Waits for its end, which must come, and be no panic.
    fn end(mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.bench.try_wait().unwrap() {
                assert!(!self.said().contains("panicked"), "{}", self.said());
                return status;
            }
            if Instant::now() > deadline {
                // Its worker ends with it.
                self.bench.kill().unwrap();
                panic!("the bench hangs; it said: {}", self.said());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Waits until a worker is gone, which ends with its bench.
fn gone(worker: u32) {
    let deadline = Instant::now() + PATIENCE;
    let stat = format!("/proc/{worker}/stat");
    // One that nobody waited for yet has ended all the same.
    let is_over = |text: String| text.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z"));
    while fs::read_to_string(&stat).is_ok_and(|text| !is_over(text)) {
        assert!(Instant::now() < deadline, "worker {worker} outlives its bench");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The stable columns of the summary.
fn rows(out: &Path) -> Vec<Vec<String>> {
    let (header, rows) = read_csv(&out.join("sav_benchmark_summary.csv"));
    let at = STABLE.map(|name| header.iter().position(|column| column == name).unwrap());
    rows.into_iter().map(|row| at.iter().map(|at| row[*at].clone()).collect()).collect()
}

/// Every table can be read, and ends with a line's end.
fn tables_are_whole(out: &Path) {
    for name in ["sav_benchmark_summary.csv", "profile_summary.csv"] {
        let path = out.join(name);
        if path.exists() {
            let (header, rows) = read_csv(&path);
            assert!(rows.iter().all(|row| row.len() == header.len()), "{name}");
            assert!(fs::read_to_string(&path).unwrap().ends_with("\r\n"), "{name}");
        }
    }
}

/// What a killed run may leave half-written.
fn litter(out: &Path) -> Vec<PathBuf> {
    let folders = [out.to_owned(), out.join("masks")];
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.display().to_string().contains(".segtrt-")).collect()
}

#[test]
fn killed_benches_that_are_resumed_are_as_if_nothing_had_happened() {
    let dir = tempfile::tempdir().unwrap();
    let split = dir.path().join("split");
    let small = ["synth", "--videos", "2", "--objects", "1", "--frames", "3", "--size", "48x32"];
    segtrt().args(small).arg("--out").arg(&split).assert().success();
    let whole = dir.path().join("whole");
    let begun = Instant::now();
    let undisturbed = Running::start(&split, &whole, false);
    let said = undisturbed.said.clone();
    assert!(undisturbed.end().success(), "{}", fs::read_to_string(said).unwrap());
    let usual = begun.elapsed();
    let expected = rows(&whole);
    assert_eq!(expected.len(), 4);
    assert_eq!(litter(&whole), Vec::<PathBuf>::new());

    let kills = std::env::var("SEGTRT_KILLS").map_or(USUAL_KILLS, |text| text.parse().unwrap());
    let mut moments = Moments(20_261_123);
    let mut struck = 0;
    for number in 0..kills {
        let out = dir.path().join(format!("out_{number}"));
        let blow = BLOWS[number % BLOWS.len()];
        let running = Running::start(&split, &out, false);
        let moment = usual.mul_f64(moments.part());
        std::thread::sleep(moment);
        let worker = child_of(running.bench.id());
        running.strike(blow, worker);
        struck += usize::from(!running.end().success());
        if let Some(worker) = worker {
            gone(worker);
        }
        tables_are_whole(&out);
        // Whether it was in the middle of a table is a matter of luck; as if it always were.
        fs::create_dir_all(out.join("masks")).unwrap();
        for half in [".segtrt-half.tmp", "masks/.segtrt-half.tmp"] {
            fs::write(out.join(half), "").unwrap();
        }

        let resumed = Running::start(&split, &out, true);
        let said = resumed.said.clone();
        let status = resumed.end();
        let said = fs::read_to_string(said).unwrap();
        assert!(status.success(), "{blow:?} after {moment:?}: {said}");
        assert_eq!(rows(&out), expected, "{blow:?} after {moment:?}: {said}");
        tables_are_whole(&out);
        assert_eq!(litter(&out), Vec::<PathBuf>::new(), "{blow:?} after {moment:?}");
        assert_eq!(fs::read_dir(out.join("masks")).unwrap().count(), 4);
        fs::remove_dir_all(&out).unwrap();
    }
    // A kill that comes after the end proves little.
    assert!(struck * 2 >= kills, "{struck} of {kills} benches were struck");
}
