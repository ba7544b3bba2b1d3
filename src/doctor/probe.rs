/*!
Driver, GPUs, TensorRT and ONNX Runtime, checked in child processes.
*/

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::board::{JETPACK_5, JETPACK_6};
use super::check::Check;
use super::worker::{Answer, FoundGpu, FoundTensorRt, Probe};
use host::child;
use runtime::backend::find_library;

/// The GPUs, or why there are none.
pub type Gpus = Result<Vec<FoundGpu>, String>;

/// A TensorRT that is there, whether it opens or not.
#[derive(Clone, Debug)]
pub struct Tried {
    /// What was opened.
    pub library: PathBuf,
    /// What came of it.
    pub opened: Result<FoundTensorRt, String>,
}

const GIB: f64 = (1 << 30) as f64;

/// Runs one probe.
fn ask(probe: &Probe) -> Answer {
    let run = || -> anyhow::Result<Answer> {
        let (mut worker, _input) = child::start("doctor-worker", probe)?;
        let answer = child::events::<Answer>(&mut worker)?.last();
        let status = worker.wait()?;
        answer.unwrap_or_else(|| Ok(Answer::Failed(child::describe(status))))
    };
    run().unwrap_or_else(|error| Answer::Failed(format!("{error:#}")))
}

/// Asks the driver.
pub fn gpus() -> Gpus {
    match ask(&Probe::Gpus) {
        Answer::Gpus(found) => Ok(found),
        Answer::Failed(why) => Err(why),
        other => Err(format!("the driver's probe gave {other:?}")),
    }
}

/// One line for each GPU, or one line for no GPU.
pub fn gpu_checks(gpus: &Gpus) -> Vec<Check> {
    match gpus {
        Ok(gpus) => gpus.iter().flat_map(|gpu| [driver_check(gpu), gpu_check(gpu)]).collect(),
        Err(why) => vec![Check::missing(
            "GPU",
            why.clone(),
            "without one the CPU backend (--backend onnxruntime) measures; TensorRT needs one",
        )],
    }
}

fn driver_check(gpu: &FoundGpu) -> Check {
    let name = format!("driver of GPU {}", gpu.ordinal);
    let version = gpu.sensors.get("driver").and_then(Value::as_str);
    let release = version.map_or_else(String::new, |version| format!("{version}, "));
    let found = format!("{release}for CUDA up to {}", gpu.driver_cuda);
    match gpu.sensors.is_empty() {
        true => Check::warning(
            name,
            format!("{found}; its sensors cannot be read"),
            "check that nvidia-smi runs; in a container give it the utility capability \
             (NVIDIA_DRIVER_CAPABILITIES=compute,utility); without sensors rows have no power, \
             clocks or throttling",
        ),
        false => Check::ok(name, found),
    }
}

fn gpu_check(gpu: &FoundGpu) -> Check {
    let name = format!("GPU {}", gpu.ordinal);
    let kind = if gpu.unified { "unified with the host's" } else { "its own" };
    let found = format!(
        "{}, sm {}, {:.1} of {:.1} GiB memory free ({kind})",
        gpu.name,
        gpu.sm,
        gpu.free_bytes as f64 / GIB,
        gpu.total_bytes as f64 / GIB
    );
    let number = |name: &str| gpu.sensors.get(name).and_then(Value::as_f64);
    let flag = |name: &str| gpu.sensors.get(name).and_then(Value::as_bool);
    if let (Some(now), Some(usual)) = (number("power_limit_w"), number("power_limit_default_w"))
        && now < usual
    {
        return Check::warning(
            name,
            format!("{found}; its power is limited to {now:.0} W, {usual:.0} W is usual"),
            format!(
                "sudo nvidia-smi -i {} -pl {usual:.0}, or state it with the numbers",
                gpu.ordinal
            ),
        );
    }
    if flag("persistence_mode") == Some(false) {
        return Check::warning(
            name,
            format!("{found}; persistence mode is off: the driver starts anew for each process"),
            format!("sudo nvidia-smi -i {} -pm 1", gpu.ordinal),
        );
    }
    Check::ok(name, found)
}

/// Asks ONNX Runtime; its name with version and its file, or why it cannot be used.
pub fn onnxruntime(explicit: Option<&Path>) -> Result<(String, PathBuf), String> {
    let library = find_library(explicit).map_err(|error| format!("{error:#}"))?;
    match ask(&Probe::OnnxRuntime(library.clone())) {
        Answer::OnnxRuntime(label) => Ok((label, library)),
        Answer::Failed(why) => Err(why),
        other => Err(format!("{}: its probe gave {other:?}", library.display())),
    }
}

/// ONNX Runtime's line.
pub fn onnxruntime_check(found: &Result<(String, PathBuf), String>) -> Check {
    let name = "ONNX Runtime";
    match found {
        Ok((label, library)) => Check::ok(name, format!("{label}, {}", library.display())),
        Err(why) => {
            Check::missing(name, why.clone(), "segtrt setup; the CPU backend and selftest need it")
        }
    }
}

/// A library that only some need.
struct Optional {
    name: &'static str,
    /// Who needs it.
    needed_by: &'static str,
    /// How to get it.
    advice: &'static str,
}

const NVJPEG: Optional = Optional {
    name: "nvJPEG",
    needed_by: "bench --jpeg-decoder nvjpeg",
    advice: "pip install nvidia-nvjpeg (CUDA 13) or nvidia-nvjpeg-cu12, or name another with \
             SEGTRT_NVJPEG_LIB",
};
const CUBLASLT: Optional = Optional {
    name: "cuBLASLt",
    needed_by: "a bundle whose encoder has a Hiera trunk",
    advice: "pip install nvidia-cublas (CUDA 13) or nvidia-cublas-cu12, or name another with \
             SEGTRT_CUBLASLT_LIB; without it: segtrt build-engines --graphs encoder",
};

/// nvJPEG's line.
pub fn nvjpeg_check(gpus: &Gpus) -> Check {
    NVJPEG.line(ask(&Probe::NvJpeg(driver_cuda(gpus))))
}

/// cuBLASLt's line; `needed`: by a bundle or by engines that were found.
pub fn cublaslt_check(gpus: &Gpus, needed: bool) -> Check {
    cublaslt_line(cublaslt(gpus), needed)
}

fn cublaslt_line(answer: Answer, needed: bool) -> Check {
    match (needed, answer) {
        (true, Answer::NotFound(places)) => Check::missing(
            CUBLASLT.name,
            format!("none found, and {} is there; looked in {places}", CUBLASLT.needed_by),
            CUBLASLT.advice,
        ),
        (_, answer) => CUBLASLT.line(answer),
    }
}

/// Whether the products of a trunk can be computed on the first GPU, as far as its driver goes;
/// else why not and what to type.
///
/// # Errors
/// No library that the driver takes.
pub fn has_cublaslt(gpus: &Gpus) -> Result<(), String> {
    match cublaslt(gpus) {
        Answer::Found(..) => Ok(()),
        Answer::NotFound(places) => {
            Err(format!("no cuBLASLt found; looked in {places}: {}", CUBLASLT.advice))
        }
        Answer::Failed(why) => Err(why),
        other => Err(format!("its probe gave {other:?}")),
    }
}

fn cublaslt(gpus: &Gpus) -> Answer {
    ask(&Probe::CublasLt(driver_cuda(gpus)))
}

fn driver_cuda(gpus: &Gpus) -> Option<String> {
    Some(gpus.as_ref().ok()?.first()?.driver_cuda.clone())
}

impl Optional {
    fn line(&self, answer: Answer) -> Check {
        let Self { name, needed_by, advice } = *self;
        match answer {
            Answer::Found(version, path) => {
                Check::ok(name, format!("{version}, {} (for {needed_by})", path.display()))
            }
            Answer::NotFound(places) => Check::not_asked(
                name,
                format!("none found (only {needed_by} needs it); looked in {places}"),
            ),
            Answer::Failed(why) => {
                Check::warning(name, why, format!("only {needed_by} needs it: {advice}"))
            }
            other => Check::warning(name, format!("its probe gave {other:?}"), "report this"),
        }
    }
}

/// Asks every TensorRT that can be found; those that are not there are left out.
pub fn tensorrts(explicit: Option<&Path>) -> (Vec<Tried>, tensorrt::Searched) {
    let (candidates, searched) = runtime::tensorrt_library::search(explicit);
    let mut found: Vec<Tried> = Vec::new();
    for candidate in candidates {
        let library = candidate.library;
        let opened = match ask(&Probe::TensorRt(library.clone())) {
            Answer::TensorRt(tensorrt) => Ok(tensorrt),
            Answer::Absent => continue,
            Answer::Failed(why) => Err(why),
            other => Err(format!("its probe gave {other:?}")),
        };
        // One file has many names: libnvinfer.so, libnvinfer.so.10, …
        let real = |found: &FoundTensorRt| found.path.canonicalize().unwrap_or(found.path.clone());
        let known = |other: &Tried| match (&opened, &other.opened) {
            (Ok(a), Ok(b)) => real(a) == real(b),
            (Err(a), Err(b)) => a == b,
            _ => false,
        };
        if !found.iter().any(known) {
            found.push(Tried { library, opened });
        }
    }
    (found, searched)
}

/// Whether the parser of that TensorRT is too old for the exported graphs.
fn before_layer_normalization(version: &str) -> bool {
    tensorrt::Version::from_words(version).is_some_and(|one| !one.parses_layer_normalization())
}

/// A TensorRT is here that opens.
pub fn has_tensorrt(explicit: Option<&Path>) -> bool {
    tensorrts(explicit).0.iter().any(|tried| tried.opened.is_ok())
}

/// One line for each TensorRT; without a GPU it is no loss that there is none, unless the user
/// named a place.
pub fn tensorrt_checks(found: &[Tried], searched: &tensorrt::Searched, gpus: &Gpus) -> Vec<Check> {
    let name = "TensorRT";
    if found.is_empty() {
        let why = format!("none found; looked in {}", searched.places.join(", "));
        return vec![match gpus.is_ok() || searched.named {
            true => Check::missing(
                name,
                why,
                "on JetPack: sudo apt install tensorrt; elsewhere: pip install tensorrt, or \
                 NVIDIA's apt repository; name its folder with --tensorrt-lib or \
                 SEGTRT_TENSORRT_LIB where it is not found by itself",
            ),
            false => Check::not_asked(name, format!("{why}; it needs a GPU to run")),
        }];
    }
    let line = |tried: &Tried| match &tried.opened {
        Ok(found) => {
            let text = format!("{}, {}", found.version, found.path.display());
            match (&found.no_parser, found.builds) {
                (None, true) if before_layer_normalization(&found.version) => {
                    Check::warning(name, format!("{text}; {JETPACK_5}"), JETPACK_6)
                }
                (None, true) => Check::ok(name, text),
                (Some(why), _) => Check::warning(
                    name,
                    format!("{text}; it cannot read ONNX files: {why}"),
                    "it runs engines, and builds none: install the parser that goes with it \
                     (libnvonnxparsers, or the pip package's own)",
                ),
                (None, false) => Check::warning(
                    name,
                    format!("{text}; it has no builder"),
                    "it runs engines that were built elsewhere; install the full TensorRT to build some",
                ),
            }
        }
        Err(why) => Check::warning(
            name,
            format!("{} does not open: {why}", tried.library.display()),
            "install what is missing, or name another with --tensorrt-lib or SEGTRT_TENSORRT_LIB",
        ),
    };
    found.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;
    use serde_json::json;

    fn gpu(sensors: Value) -> FoundGpu {
        FoundGpu {
            ordinal: 1,
            name: "NVIDIA H200".into(),
            sm: 90,
            total_bytes: 150 << 30,
            free_bytes: 149 << 30,
            unified: false,
            driver_cuda: "13.0".into(),
            sensors: sensors.as_object().cloned().unwrap_or_default(),
        }
    }

    #[test]
    fn a_gpu_says_what_it_is_and_what_holds_it_back() {
        let well = gpu(
            json!({"driver": "580.1", "power_limit_w": 700.0, "power_limit_default_w": 700.0, "persistence_mode": true}),
        );
        let checks = gpu_checks(&Ok(vec![well]));
        assert_eq!(checks[0].found, "580.1, for CUDA up to 13.0");
        assert_eq!(checks[1].found, "NVIDIA H200, sm 90, 149.0 of 150.0 GiB memory free (its own)");
        assert!(checks.iter().all(|check| check.state == State::Ok));
        let capped = gpu(json!({"power_limit_w": 200.0, "power_limit_default_w": 350.0}));
        let check = gpu_check(&capped);
        assert_eq!(check.state, State::Warning);
        assert!(check.advice.unwrap().contains("nvidia-smi -i 1 -pl 350"));
        assert_eq!(gpu_check(&gpu(json!({"persistence_mode": false}))).state, State::Warning);
        assert_eq!(driver_check(&gpu(json!({}))).state, State::Warning);
        assert_eq!(gpu_checks(&Err("no driver".into()))[0].state, State::Missing);
    }

    #[test]
    fn cublaslt_is_missed_where_a_trunk_was_found() {
        let none = || Answer::NotFound("/here".into());
        let missed = cublaslt_line(none(), true);
        assert_eq!(missed.state, State::Missing);
        let told = missed.found.contains("a Hiera trunk is there; looked in /here");
        assert!(told, "{}", missed.found);
        assert!(missed.advice.unwrap().contains("--graphs encoder"));
        assert_eq!(cublaslt_line(none(), false).state, State::NotAsked);
        let found = Answer::Found("its version".into(), "/x.so".into());
        assert_eq!(cublaslt_line(found, true).state, State::Ok);
    }

    #[test]
    fn what_only_some_need_is_missed_by_nobody_and_a_broken_one_is_told() {
        for (kind, variable) in [(NVJPEG, "SEGTRT_NVJPEG_LIB"), (CUBLASLT, "SEGTRT_CUBLASLT_LIB")] {
            let found = kind.line(Answer::Found("its version".into(), "/x.so".into()));
            let said = found.found.contains("its version, /x.so") && found.name == kind.name;
            assert_eq!((found.state, said), (State::Ok, true));
            let none = kind.line(Answer::NotFound("/here".into()));
            let said = none.found.contains("looked in /here");
            assert_eq!((none.state, said), (State::NotAsked, true));
            let broken = kind.line(Answer::Failed("killed by signal 6".into()));
            assert_eq!(broken.state, State::Warning);
            assert!(broken.advice.unwrap().contains(variable));
        }
    }

    #[test]
    fn no_tensorrt_is_missed_only_where_there_is_a_gpu() {
        let places = tensorrt::Searched { places: vec!["/here".into()], ..Default::default() };
        let with = tensorrt_checks(&[], &places, &Ok(vec![gpu(json!({}))]));
        assert_eq!(with[0].state, State::Missing);
        let without = tensorrt_checks(&[], &places, &Err("none".into()));
        assert_eq!(without[0].state, State::NotAsked);
        let named = tensorrt::Searched { named: true, ..places.clone() };
        let named = tensorrt_checks(&[], &named, &Err("none".into()));
        assert_eq!(named[0].state, State::Missing);
        assert!(named[0].found.contains("/here"));
        let no_parser = FoundTensorRt {
            version: "TensorRT 8.6.0".into(),
            path: "/x/libnvinfer.so.8".into(),
            builds: true,
            no_parser: Some("no libnvonnxparser.so".into()),
        };
        let tried = Tried { library: "libnvinfer.so.8".into(), opened: Ok(no_parser) };
        let lines = tensorrt_checks(&[tried], &places, &Err("none".into()));
        assert_eq!(lines[0].state, State::Warning);
        assert!(lines[0].found.contains("TensorRT 8.6.0, /x/libnvinfer.so.8; it cannot read ONNX"));
        for (version, state) in [("TensorRT 8.5.2", State::Warning), ("TensorRT 8.6.1", State::Ok)]
        {
            let path = "/x/libnvinfer.so.8".into();
            let opened =
                FoundTensorRt { version: version.into(), path, builds: true, no_parser: None };
            let tried = Tried { library: "libnvinfer.so.8".into(), opened: Ok(opened) };
            let lines = tensorrt_checks(&[tried], &places, &Err("none".into()));
            assert_eq!(lines[0].state, state, "{version}");
            assert_eq!(lines[0].found.ends_with(JETPACK_5), state == State::Warning, "{version}");
        }
    }
}
