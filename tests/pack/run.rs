//! run.sh, under the shell that `sh` is here (dash on Debian, as strict as a board's busybox).

use predicates::prelude::*;
use predicates::str::contains;

use super::board::{Board, said};
use crate::support::segtrt;

const DOCTOR: &str = "<doctor><--onnx-dir><onnx>";
const BUILD: &str = "<build-engines><--platform><testboard><--platforms><platforms.toml><--models><edgetam_mini><--imgsz><256><--precision><fp32><--max-objects><2><--onnx-dir><onnx><--out><engines>";

#[test]
fn engines_are_built_tested_and_measured_and_the_results_packed() {
    let board = Board::new(&["--max-objects", "2"]);
    board.install(env!("CARGO_PKG_VERSION"), "tensorrt", true);
    let output = board.run(&[], &[]);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    let bench = "<bench><--backend><tensorrt><--engines><engines><--onnx-dir><onnx><--split-dir><synthetic>\
        <--models><edgetam_mini_points><--imgsz><256><--out-dir><results/bench><--precision><fp32>";
    assert_eq!(
        board.calls(),
        [
            DOCTOR,
            BUILD,
            "<selftest><--engines><engines><--onnx-dir><onnx>",
            "<synth><--out><synthetic.part><--videos><2><--objects><2><--frames><60><--size><1280x720><--seed><7>",
            bench,
        ]
    );
    assert!(
        text.contains("pack for A board's \"name\" $HOME: edgetam_mini at 256, fp32"),
        "{text}"
    );
    assert!(text.contains("send back: ") && board.pack.join("results.tar").is_file(), "{text}");
    assert_eq!(board.result("selftest.log"), "all engines agree\n");
    assert!(board.result("machine.txt").contains("segtrt"));
    // The stand-in measures nothing.
    segtrt().arg("submit").arg(board.pack.join("results.tar")).assert().code(1).stdout(
        contains("files     15 files have their sums")
            .and(contains("ok       steps     build-engines, selftest, bench"))
            .and(contains("FAILED   rows      nothing was measured")),
    );
    assert_eq!(board.result("engines/testboard/edgetam_mini_256_fp32/engine.json"), "{}\n");
    // Once more: nothing is made twice, the bench goes on where it was.
    let calls = board.calls().len();
    assert!(board.run(&[], &[]).status.success());
    let again = board.calls().split_off(calls);
    assert_eq!(again.len(), 4);
    assert_eq!(again[3], format!("{bench}<--resume>"));
}

/// Without a GPU: the same steps but engines and self-test, and no result.
#[test]
fn a_rehearsal_measures_the_cpu_and_is_no_result() {
    let board = Board::new(&[]);
    board.install(env!("CARGO_PKG_VERSION"), "tensorrt", true);
    let output = board.run(&[], &[("REHEARSE", "1"), ("WITH_PEAK", "1")]);
    let text = said(&output);
    assert!(output.status.success() && text.contains("the CPU runs the network"), "{text}");
    let calls = board.calls();
    assert_eq!((calls.len(), calls[0].as_str()), (3, DOCTOR), "{calls:?}");
    let bench = "<bench><--backend><onnxruntime><--onnx-dir><onnx><--split-dir><synthetic>";
    assert!(calls[1].starts_with("<synth>") && calls[2].starts_with(bench), "{calls:?}");
    let results = board.pack.join("results.tar");
    segtrt()
        .arg("submit")
        .arg(&results)
        .assert()
        .code(1)
        .stdout(contains("FAILED   steps     a rehearsal (REHEARSE=1)"));
    // A rehearsal is continued; the board's own rows begin anew, and no rehearsal touches them.
    assert!(board.run(&[], &[("REHEARSE", "1")]).status.success());
    assert!(board.calls()[4].ends_with("<--resume>"), "{:?}", board.calls());
    assert!(board.run(&[], &[]).status.success());
    assert!(!board.calls().last().unwrap().ends_with("<--resume>"), "{:?}", board.calls());
    let output = board.run(&[], &[("REHEARSE", "1")]);
    assert!(output.status.code() == Some(1) && said(&output).contains("move that folder away"));
}

/// An afternoon on a Jetson: the mode that was found, two that were asked for, and the first again.
#[test]
fn each_power_mode_is_heated_and_measured_and_the_first_one_comes_back() {
    let board = Board::new(&[]);
    board.install(env!("CARGO_PKG_VERSION"), "tensorrt", true);
    board.install_jetpack();
    let asked = [("POWER_MODES", "0 3"), ("SOAK", "1"), ("BENCH_S", "0.3"), ("WITH_PEAK", "1")];
    let output = board.run(&[], &asked);
    let text = said(&output);
    // Mode 3 needs a restart.
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("mode 3 was not set") && text.contains("restart into it"), "{text}");
    assert!(board.result("nvpmodel.log").contains("reboot: no"), "nobody restarts the board");
    let calls = board.calls();
    let at = |call: &str| calls.iter().position(|known| known == call).unwrap_or(usize::MAX);
    let modes = ["<nvpmodel><0>", "<nvpmodel><3>", "<nvpmodel><1>"].map(at);
    assert!(modes.is_sorted() && modes[2] == calls.len() - 1, "{calls:?}");
    let out = |call: &String| {
        let (_, out) = call.split_once("<--out-dir><results/")?;
        out.split_once('>').map(|(out, _)| out.to_owned())
    };
    let measured: Vec<String> = calls.iter().filter_map(out).collect();
    let first = ["soak_001", "bench", "soak_mode_0_001", "bench_mode_0"]
        .map(|name| measured.iter().position(|known| known == name).unwrap_or(usize::MAX));
    assert!(first.is_sorted() && first[0] == 0 && first[3] == measured.len() - 1, "{measured:?}");
    assert_eq!(calls.iter().filter(|call| *call == "<selftest><--peak>").count(), 2);
    for log in ["tegrastats.log", "tegrastats_mode_0.log"] {
        assert_eq!(board.result(log), "RAM 1/7620MB\n", "{log}");
    }
    assert!(board.pack.join("results.tar").is_file());

    // A machine that has no such modes says so.
    let board = Board::new(&[]);
    board.install(env!("CARGO_PKG_VERSION"), "tensorrt", true);
    let output = board.run(&[], &[("POWER_MODES", "0")]);
    assert!(said(&output).contains("there is no nvpmodel here"), "{}", said(&output));
    assert!(output.status.code() == Some(1) && board.pack.join("results/bench").is_dir());
}

#[test]
fn without_a_tensorrt_bench_the_rows_are_the_selftests() {
    let board = Board::new(&[]);
    board.install(env!("CARGO_PKG_VERSION"), "onnxruntime", true);
    let output = board.run(&["--workspace-mb", "32"], &[]);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("no TensorRT backend in its bench: the rows are those of the selftest"),
        "{text}"
    );
    let calls = board.calls();
    assert_eq!(calls.len(), 3);
    assert!(calls[1].ends_with("<--out><engines><--workspace-mb><32>"), "{}", calls[1]);
}

#[test]
fn a_build_that_failed_in_part_is_measured_and_told() {
    let board = Board::new(&[]);
    board.install("0.0.1", "tensorrt", false);
    let output = board.run(&[], &[("BUILD_STATUS", "1")]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for words in [
        "note: the pack was made by segtrt",
        "some engines were not built (reasons: results/build-engines.log)",
        "this segtrt has no selftest",
        "some steps failed",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(board.calls().last().unwrap().starts_with("<bench>"));
    assert_eq!(board.result("build-engines.status"), "1\n");
}

#[test]
fn one_flipped_byte_stops_everything() {
    let board = Board::new(&[]);
    board.install(env!("CARGO_PKG_VERSION"), "tensorrt", true);
    let graph = board.pack.join("onnx/edgetam_mini_256_fp32/track.onnx");
    let mut bytes = std::fs::read(&graph).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&graph, bytes).unwrap();
    let output = board.run(&[], &[]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("onnx/edgetam_mini_256_fp32/track.onnx: FAILED"), "{text}");
    assert!(text.contains("copy and unpack the pack again"), "{text}");
    assert!(board.calls().is_empty());
}

#[test]
fn a_board_without_segtrt_is_told_how_to_get_it() {
    let board = Board::new(&[]);
    let output = board.run(&[], &[]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for words in ["no segtrt ", "cargo build --release --locked", "Rust 1.", "JetPack 6"] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

#[test]
fn the_named_program_is_final_and_a_packed_one_goes_before_the_path() {
    let board = Board::new(&[]);
    let version = env!("CARGO_PKG_VERSION");
    board.install(version, "tensorrt", true);
    let first_word = |board: &Board| {
        let record =
            std::fs::read_to_string(board.pack.ancestors().nth(2).unwrap().join("calls")).unwrap();
        record.lines().last().unwrap().split_once('>').unwrap().0.to_owned()
    };
    let output = board.run(&[], &[("SEGTRT", "/no/such/segtrt")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("SEGTRT=/no/such/segtrt is no program that runs here"));
    board.stand_in(&board.pack.join("segtrt"), version, "tensorrt", true);
    assert!(board.run(&[], &[]).status.success());
    assert!(first_word(&board).ends_with("segtrt-pack-testboard/segtrt"), "{}", first_word(&board));
    // A packed program for another processor is passed over.
    std::fs::write(board.pack.join("segtrt"), b"\x7fELF not for here").unwrap();
    let output = board.run(&[], &[]);
    assert!(output.status.success() && said(&output).contains("built for another processor"));
    assert!(first_word(&board).ends_with("my bin/segtrt"), "{}", first_word(&board));
}

#[test]
fn a_pack_that_was_not_unpacked_whole_is_refused() {
    let board = Board::new(&[]);
    std::fs::remove_file(board.pack.join("SHA256SUMS")).unwrap();
    let output = board.run(&[], &[]);
    assert!(
        said(&output).contains("SHA256SUMS is missing; unpack the whole pack"),
        "{}",
        said(&output)
    );
}

#[test]
fn the_script_is_clean_for_shellcheck() {
    let checked =
        std::process::Command::new("shellcheck").args(["-s", "sh", "src/pack/run.sh"]).output();
    let Ok(checked) = checked else {
        eprintln!("SKIPPED: no shellcheck");
        return;
    };
    assert!(checked.status.success(), "{}", said(&checked));
}
