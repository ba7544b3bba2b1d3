//! Predecoded frames on a GPU: out of the mapped file or through pinned memory, with the masks of JPEG
//! files.

use std::fs;

use vos::bundle::Role;
use vos::precision::Precision;

use crate::bench_gpu::{PADDED, Setting};
use crate::selftest::fakes::Engines;
use crate::support::segtrt;

#[test]
fn frames_of_a_file_give_the_masks_of_jpegs_and_rows_name_their_way() {
    let Some(setting) = Setting::new(1, 12, &PADDED) else { return };
    let halves: Vec<(Role, &str)> = PADDED.into_iter().map(|role| (role, "ok")).collect();
    Engines::new(&setting.path("engines")).write_live(Precision::Fp16, &halves);
    for values in ["u8", "f16"] {
        let mut command = segtrt();
        command.args(["predecode", "--imgsz", "256", "--values", values, "--split-dir"]);
        command.arg(&setting.split).arg("--out-dir").arg(setting.path(values)).assert().success();
    }
    let log = setting.path("log");
    let frame = 3 * 256 * 256 * 2;
    for precision in ["fp16", "fp32"] {
        let jpegs = format!("jpegs_{precision}");
        setting.gpu(&jpegs).args(["--precision", precision]).assert().success();
        for (values, mode, register, transfer) in [
            ("f16", "latency", "1", "mapped"),
            ("f16", "throughput", "1", "mapped"),
            ("f16", "throughput", "0", "pinned"),
            ("u8", "throughput", "1", "converted"),
        ] {
            // An fp32 network gets rounded inputs from f16 files.
            if precision == "fp32" && values == "f16" {
                continue;
            }
            let _ = fs::remove_file(&log);
            let mut command = setting.gpu("out");
            command.args(["--precision", precision, "--mode", mode, "--predecoded"]);
            command.arg(setting.path(values)).env("FAKE_CUDA_REGISTER", register);
            command.env("FAKE_CUDA_SEED", "3").env("FAKE_CUDA_LOG", &log).assert().success();
            assert_eq!(setting.column("out", "frame_transfer"), [transfer]);
            assert!(setting.masks("out") == setting.masks(&jpegs), "{precision} {values}");
            for (name, there) in
                [("decode_ms", false), ("preprocess_ms", false), ("upload_ms", true)]
            {
                assert_eq!(!setting.column("out", name)[0].is_empty(), there, "{name}");
            }
            let log = fs::read_to_string(&log).unwrap();
            let count = |word: &str| log.lines().filter(|line| line.starts_with(word)).count();
            assert_eq!(count("register"), usize::from(transfer == "mapped"));
            assert_eq!(count("register"), count("unregister"));
            if precision == "fp16" {
                let uploads = log.lines().filter(|line| *line == format!("h2d {frame}")).count();
                assert!(uploads >= 24, "{uploads}");
            }
        }
    }
}
