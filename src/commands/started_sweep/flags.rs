/*!
Flags of bench for the points of a sweep, and refusals of settings that a backend does not have.
*/

use host::UsageError;
use report::compare::sweep::{Axis, Combination, Setting};

/// The flag of bench that sets this, without precision and image size: those have a place of their
/// own in every measurement.
fn flag(setting: Setting) -> Option<&'static str> {
    match setting {
        Setting::Precision | Setting::Imgsz => None,
        Setting::Objects => Some("--objects-together"),
        Setting::EncodeBatch => Some("--encode-batch"),
        Setting::EncodeAhead => Some("--encode-ahead"),
        Setting::JpegDecoder => Some("--jpeg-decoder"),
        Setting::DecodeThreads => Some("--decode-threads"),
        Setting::Threads => Some("--threads"),
        Setting::Lanes => Some("--lanes"),
    }
}

/// Settings of overlapping frames: latency mode has one frame in flight.
fn needs_throughput(axes: &[Axis]) -> bool {
    axes.iter().any(|axis| matches!(axis.setting, Setting::EncodeBatch | Setting::EncodeAhead))
}

/// Flags of a point. All points of a sweep run in the same mode.
pub(in crate::commands) fn words(axes: &[Axis], point: &Combination) -> Vec<String> {
    let mut words = Vec::new();
    if needs_throughput(axes) {
        words.extend(["--mode".to_owned(), "throughput".to_owned()]);
    }
    for coordinate in &point.point {
        if let Some(flag) = flag(coordinate.setting) {
            words.extend([flag.to_owned(), coordinate.value.clone()]);
        }
    }
    words
}

/// Why ONNX Runtime's backend has no such setting.
fn engines_only(setting: Setting) -> Option<&'static str> {
    match setting {
        Setting::Objects => Some("objects are tracked together by TensorRT's backend alone"),
        Setting::EncodeBatch => Some(
            "batches are encoded by TensorRT's backend alone; ONNX Runtime encodes frame by frame",
        ),
        Setting::EncodeAhead => {
            Some("frames overlap on TensorRT's backend alone; ONNX Runtime has one frame in flight")
        }
        Setting::Lanes => Some("several clips run at once on TensorRT's backend alone"),
        Setting::JpegDecoder => {
            Some("nvJPEG writes to GPU memory, which TensorRT's backend alone reads")
        }
        Setting::DecodeThreads => Some(
            "frames are decoded in advance by TensorRT's backend alone; ONNX Runtime's decodes one \
             frame between two timed regions",
        ),
        Setting::Precision | Setting::Imgsz | Setting::Threads => None,
    }
}

/// Refuses what cannot be swept on this backend, and flags in `given` that contradict the sweep.
///
/// # Errors
/// The first of them, and the change to make.
pub(in crate::commands) fn check(
    axes: &[Axis],
    tensorrt: bool,
    given: &[String],
) -> Result<(), UsageError> {
    for axis in axes {
        let name = axis.setting.name();
        let refuse = |why: &str| Err(UsageError(format!("--sweep {axis}: {why}")));
        if tensorrt && axis.setting == Setting::Threads {
            return refuse(
                "these are threads of ONNX Runtime, which does not run engines; sweep \
                 decode_threads, or add --backend cpu",
            );
        }
        if let Some(why) = engines_only(axis.setting).filter(|_| !tensorrt) {
            return refuse(&format!(
                "{why}; leave out --sweep {name}, or run engines (--backend tensorrt). ONNX \
                 Runtime has threads, imgsz and precision"
            ));
        }
        let is_mixed = |value: &String| value == "mixed";
        if !tensorrt && axis.setting == Setting::Precision && axis.values.iter().any(is_mixed) {
            return refuse("mixed is a precision of engines; ONNX Runtime has fp32 and fp16");
        }
        if let Some(flag) = flag(axis.setting).filter(|flag| value_of(given, flag).is_some()) {
            return refuse(&format!("the sweep sets {flag} itself; leave {flag} out"));
        }
    }
    if needs_throughput(axes) && value_of(given, "--mode").is_some_and(|mode| mode == "latency") {
        return Err(UsageError(
            "--sweep encode_batch and encode_ahead need frames that overlap, found --mode latency; \
             leave --mode out"
                .to_owned(),
        ));
    }
    Ok(())
}

/// The value of a flag among words, an empty one where the flag is the last word.
fn value_of<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
    words.iter().enumerate().rev().find_map(|(at, word)| {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        (name.replace('_', "-") == flag)
            .then(|| value.unwrap_or_else(|| words.get(at + 1).map_or("", String::as_str)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::compare::sweep::combinations;

    fn axes(text: &str) -> Vec<Axis> {
        text.split_whitespace().map(|axis| axis.parse().unwrap()).collect()
    }

    #[test]
    fn a_point_becomes_flags_of_bench() {
        let axes = axes("precision=fp16 encode_batch=1,4 jpeg_decoder=nvjpeg");
        let all = combinations(&axes, "fp32").unwrap();
        assert_eq!(
            words(&axes, &all[1]).join(" "),
            "--mode throughput --encode-batch 4 --jpeg-decoder nvjpeg"
        );
        let latency = super::tests::axes("objects=2");
        let all = combinations(&latency, "fp32").unwrap();
        assert_eq!(words(&latency, &all[0]).join(" "), "--objects-together 2");
    }

    #[test]
    fn what_a_backend_lacks_or_the_flags_contradict_is_refused() {
        let refused = |text: &str, tensorrt: bool, given: &str| {
            let given: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
            check(&axes(text), tensorrt, &given).err().map_or_else(String::new, |error| error.0)
        };
        for (sweep, says) in [
            ("encode_batch=1,2", "encodes frame by frame; leave out --sweep encode_batch"),
            ("encode_ahead=1,2", "one frame in flight"),
            ("jpeg_decoder=nvjpeg", "GPU memory"),
            ("decode_threads=1,2", "between two timed regions"),
            ("objects=1,2", "by TensorRT's backend alone"),
            ("lanes=1,2", "on TensorRT's backend alone"),
            ("precision=fp32,mixed", "a precision of engines"),
        ] {
            let told = refused(sweep, false, "");
            assert!(told.contains(says), "{sweep}: {told}");
            assert_eq!(refused(sweep, true, ""), "");
        }
        assert!(refused("threads=1,2", true, "").contains("sweep decode_threads"));
        assert_eq!(refused("threads=1,2", false, "--stall-limit 3"), "");
        for given in ["--threads 2", "--threads=2"] {
            assert!(refused("threads=1,2", false, given).contains("the sweep sets --threads"));
        }
        let mode = |given: &str| refused("encode_batch=1,2", true, given);
        assert!(
            mode("--mode latency").contains("leave --mode out")
                && mode("--mode=throughput").is_empty()
        );
    }
}
