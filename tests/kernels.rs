//! The kernels of `cuda/`, run on the host by the stand-in driver: an emulation of their arithmetic
//! and indexing, not of a GPU. What runs here is the program's own self-test, so that the launches
//! and their arguments are tested too.

use std::path::Path;

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;

use crate::selftest::fakes::{Fakes, shared};
use crate::support::{column, segtrt};

/// The kernels of attention, and the sources that have them.
pub const ATTENTION: [(&str, &str); 11] = [
    ("attention", "attention_cross"),
    ("attention", "attention_self"),
    ("attention", "attention_heads_64"),
    ("attention", "attention_heads_80"),
    ("attention", "attention_heads_96"),
    ("attention_cluster_hopper", "attention_cross_hopper"),
    ("attention_cluster_hopper", "attention_cross_biased_hopper"),
    ("attention_cluster_hopper", "attention_self_hopper"),
    ("attention_cluster_hopper", "attention_global_64_hopper"),
    ("attention_cluster_hopper", "attention_global_80_hopper"),
    ("attention_cluster_hopper", "attention_global_96_hopper"),
];

/// Rows of an encoder's trunk: the kernels, as the self-test names them, and how many cases each
/// has at the least.
const TRUNK: [(&str, usize); 6] = [
    ("hiera layernorm", 16),
    ("hiera layernorm pdl", 4),
    ("hiera gelu", 4),
    ("hiera max pool", 5),
    ("window attention", 40),
    ("window attention hopper", 16),
];
/// The kernels of `cuda/window_attention.cu`: name, columns, queries of a warp, keys of a step.
const WINDOWS: [(&str, usize, usize, usize); 6] = [
    ("56", 56, 16, 32),
    ("72", 72, 16, 16),
    ("96", 96, 16, 16),
    ("56_wide", 56, 32, 16),
    ("72_wide", 72, 32, 32),
    ("96_wide", 96, 32, 32),
];
/// Hopper's: padded columns, keys of a step and of the last one.
const WINDOWS_HOPPER: [(usize, usize, usize); 3] = [(56, 80, 48), (72, 64, 64), (96, 64, 16)];

/// Each case runs once and is compared.
pub fn selftest(dir: &Path, csv: &Path) -> assert_cmd::Command {
    selftest_timed(dir, csv, "0")
}

/// Each case is also timed by itself or recorded as a graph, which runs it twice more.
fn selftest_timed(dir: &Path, csv: &Path, runs: &str) -> assert_cmd::Command {
    let mut command = segtrt();
    command.env("LD_LIBRARY_PATH", dir).args(["selftest", "--kernels"]);
    // A real one of this machine must not meet the stand-in for the driver.
    command.env("SEGTRT_NVJPEG_LIB", dir).env("SEGTRT_CUBLASLT_LIB", dir);
    command.args(["--warmup", "0", "--runs", runs, "--csv"]).arg(csv);
    command
}

#[test]
fn every_kernel_equals_the_cpu_bit_for_bit() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("kernels.csv");
    // Large cases of attention and memory encoder take minutes; small ones run in the next test.
    let topics = "preprocess,mask,bank,hiera,memory-key-proj,mask-decoder,nvjpeg,gemm,trunk";
    let said = contains("agree with the CPU, 0 failed")
        .and(contains("SKIPPED nvJPEG's pixels"))
        .and(contains("SKIPPED GEMMs: no cuBLASLt (libcublasLt.so) found"));
    selftest(fakes.dir(), &csv).args(["--topics", topics]).assert().success().stdout(said);
    let kernels = column(&csv, "kernel");
    let of = |name: &str| kernels.iter().filter(|kernel| *kernel == name).count();
    for filter in ["bicubic", "antialiased", "bilinear"] {
        for element in ["f32", "f16"] {
            // Both orders of the passes are among them, and sizes that are drawn.
            assert!(of(&format!("preprocess {filter} {element}")) >= 31);
        }
    }
    let others = [
        ("preprocess tiles f16", 8),
        ("mask", 10),
        ("mask counts", 50),
        ("bank inputs", 6),
        ("bank advance", 6),
        ("memory_key_proj", 5),
        ("mask decoder", 8),
    ];
    for (name, least) in others.into_iter().chain(TRUNK) {
        assert!(of(name) >= least, "{} cases of {name}", of(name));
    }
    assert_all_passed(&csv);
}

fn assert_all_passed(csv: &Path) {
    assert!(column(csv, "verdict").iter().all(|verdict| verdict == "passed"));
    assert!(column(csv, "different").iter().all(|different| different == "0"));
    assert!(column(csv, "form").iter().all(|form| form == "PTX 7.8 for sm_75 and newer"));
}

/// What sanitizers are run with: quick, without a kernel that no case is left of, and never silent.
#[test]
fn large_cases_can_be_left_out_and_are_counted() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let of = |topics: &str, most: &str, runs: &str| -> (Vec<String>, Value) {
        let (csv, log) = (dir.path().join("kernels.csv"), dir.path().join("log"));
        let _ = std::fs::remove_file(&log);
        let mut command = selftest_timed(fakes.dir(), &csv, runs);
        command.env("FAKE_CUDA_LOG", &log);
        command.args(["--topics", topics, "--json", "--max-elements", most]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let report = document["kernels"].clone();
        let (rows, left_out) = (report["rows"].as_array().unwrap().len(), &report["left_out"]);
        let all = rows as u64 + left_out.as_u64().unwrap();
        let line = format!(
            "{left_out} of {all} kernel cases were left out: more than {most} elements (--max-elements)"
        );
        assert!(said.contains(&line), "{said}");
        assert_all_passed(&csv);
        // With CONTRIBUTING's bounds a case of each kernel is left.
        let whole = match topics {
            "memory-encoder" => &["memory_encoder_", "perceiver_", "mlp_hopper"][..],
            "hiera-block" => &["hiera_block_"],
            "hiera-transition" => &["hiera_transition_"],
            _ => &[],
        };
        for prefix in whole {
            assert!(kernels::names().any(|name| name.starts_with(prefix)), "{prefix}");
        }
        let ran = std::fs::read_to_string(&log).unwrap();
        for name in kernels::names().filter(|name| whole.iter().any(|of| name.starts_with(of))) {
            assert!(ran.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}");
        }
        (column(&csv, "kernel"), report)
    };
    let others = "preprocess,mask,bank,hiera,memory-key-proj,mask-decoder,nvjpeg,gemm,trunk";
    let (mut kernels, report) = of(others, "128000", "1");
    // 65 536 elements are those of SAM 2.1 at 512 pixels, which take ten times as long as all below.
    let (attention, attentions) = of("attention", "60000", "0");
    kernels.extend(attention);
    // Without the memory encoder at 512, whose kernels run at 16 x 16 tokens, with latents, and at
    // 6 x 6, without: 32 x 32 tokens take five times as long and add no code path.
    let (encoder, encoders) = of("memory-encoder", "20000", "0");
    assert!(encoder.iter().filter(|kernel| *kernel == "memory encoder").count() >= 5);
    assert!(encoder.iter().all(|kernel| kernel.starts_with("memory encoder")));
    // 14 x 14 and 4 x 4 tokens, a row for each piece; one more of those with an MLP, and of those with
    // a projection, for Hopper's.
    let (layers, attended) = of("memory-attention", "51000", "0");
    // The end of an attention to the bank: whole in two ways, and in parts. A piece in both launch
    // modes, and a whole layer twice. That end behind its attention and in a layer, in two ways each.
    let tail = ["memory attention tail"; 5];
    let modes = [&["memory attention modes"; 2][..], &["memory attention layer modes"; 4]].concat();
    let query = ["memory attention query"; 4];
    let pieces = ["memory attention"; 9];
    let both = [&pieces[..], &tail, &query[..3], &modes, &tail[..4]].concat();
    // A query joins parts of a self-attention: of 16 keys there is one part, so there is no such row.
    assert_eq!(layers, [&both[..], &query, &both].concat());
    // Two small trunks, each also in both launch modes; on Hopper other kernels compute blocks of
    // one of them.
    let (trunks, repvits) = of("repvit", "128000", "1");
    let rest = ["modes", "modes", "stem", "neck", "encoder", "encoder modes", "encoder modes"];
    let wholes = [&["whole", "whole hopper"][..], &["whole"]];
    let rows = wholes.into_iter().flat_map(|whole| whole.iter().chain(&rest));
    assert!(rows.map(|row| format!("repvit {row}")).eq(trunks.iter().cloned()), "{trunks:?}");
    // Narrow ones of both types, and one as wide as tiny's.
    let (necks, of_necks) = of("neck", "30000", "1");
    assert_eq!(necks, ["neck"; 3]);
    let (stems, of_stems) = of("stem", "20000", "1");
    assert_eq!(stems, ["hiera stem"; 2]);
    // One window of each width; without cuBLASLt there is nothing to compare with.
    let (whole, of_blocks) = of("hiera-block", "10000", "1");
    assert_eq!(whole, ["hiera block fused"; 5]);
    let (halves, of_transitions) = of("hiera-transition", "10000", "1");
    assert_eq!(halves, ["hiera transition fused"; 3]);
    for modes in ["mask decoder modes", "memory encoder modes", "memory encoder branch"] {
        assert!(kernels.iter().chain(&encoder).any(|kernel| kernel == modes), "{modes}");
    }
    for filter in ["bicubic", "antialiased", "bilinear"] {
        for element in ["f32", "f16"] {
            assert!(kernels.contains(&format!("preprocess {filter} {element}")), "{kernels:?}");
        }
    }
    for (_, name) in ATTENTION {
        for merge in ["", " and combine"] {
            assert!(kernels.contains(&format!("{name}{merge}")), "{name}{merge}");
        }
    }
    let names =
        ["mask", "mask counts", "bank inputs", "bank advance", "memory_key_proj", "mask decoder"];
    for name in names.into_iter().chain(TRUNK.map(|(name, _)| name)) {
        assert!(kernels.iter().any(|kernel| kernel == name), "{name}");
    }
    let cases = report["rows"].as_array().unwrap().iter().map(|row| row["case"].as_str().unwrap());
    let cases: Vec<&str> = cases.collect();
    assert!(cases.iter().all(|case| !case.contains("3840x2160") && !case.contains("at 1024")));
    assert_eq!(report["max_elements"], 128_000);

    let (fewer, less) = of(
        &format!(
            "{others},attention,memory-attention,memory-encoder,repvit,neck,stem,hiera-block,hiera-transition"
        ),
        "1",
        "1",
    );
    assert_eq!(fewer.iter().filter(|kernel| *kernel == "mask").count(), 2);
    assert_eq!(fewer.iter().filter(|kernel| *kernel == "mask counts").count(), 8);
    assert_eq!(fewer.len(), 10, "masks of one word: {fewer:?}");
    let all = |report: &Value| {
        report["left_out"].as_u64().unwrap() + report["rows"].as_array().unwrap().len() as u64
    };
    let every = [
        &report,
        &attentions,
        &attended,
        &encoders,
        &repvits,
        &of_necks,
        &of_stems,
        &of_blocks,
        &of_transitions,
    ]
    .map(all)
    .iter()
    .sum::<u64>();
    assert_eq!(all(&less), every, "every case runs or is counted");
    segtrt().args(["selftest", "--max-elements", "0"]).assert().code(2);
    segtrt().args(["selftest", "--no-kernels", "--max-elements", "9"]).assert().code(2);
}

/// A GPU of the padded bank passes without the kernels that it cannot load.
#[test]
fn attention_is_left_out_aloud_on_turing() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("kernels.csv");
    let tested = |sm: &str| {
        let mut command = selftest(fakes.dir(), &csv);
        command.env("FAKE_CUDA_SM", sm).args(["--max-elements", "2500"]).assert().success()
    };
    let starts = |with: &str| column(&csv, "kernel").iter().any(|kernel| kernel.starts_with(with));
    tested("80").stdout(contains("SKIPPED attention").or(contains("SKIPPED Hiera")).not());
    assert!(starts("attention") && starts("hiera"));
    let said = contains("SKIPPED attention: its kernels need sm 80 (Ampere) or more")
        .and(contains("SKIPPED Hiera: its kernels need sm 80 (Ampere) or more"));
    tested("75").stdout(said);
    assert!(starts("mask") && !starts("attention") && !starts("hiera"));
}

#[test]
fn a_driver_that_refuses_the_kernels_costs_one_row_that_says_what_they_need() {
    let Some(fakes) = Fakes::copied() else { return };
    std::fs::remove_file(fakes.dir().join("libkernels.so")).unwrap();
    let csv = fakes.dir().join("kernels.csv");
    selftest(fakes.dir(), &csv).assert().code(1).stdout(contains(
        "the kernels need a driver that takes PTX 7.8 (CUDA 11.8 or newer) and a GPU of sm_75 or \
         newer; found a driver for CUDA 13.0 and NVIDIA H200 (sm 90)",
    ));
    assert_eq!(column(&csv, "verdict"), ["failed"]);
}

/// A layer of the memory attention among all kernels of attention.
#[test]
fn a_refused_module_of_attention_costs_its_user_alone() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (csv, log) = (dir.path().join("kernels.csv"), dir.path().join("log"));
    let run = |refused: &str| {
        let _ = std::fs::remove_file(&log);
        let mut command = selftest(fakes.dir(), &csv);
        command.env("FAKE_REFUSES", refused).env("FAKE_CUDA_LOG", &log);
        command.args(["--topics", "memory-attention", "--max-elements", "5000"]);
        let told = command.assert().success().get_output().stderr.clone();
        let told = String::from_utf8_lossy(&told).into_owned();
        let warned = |of: &str| told.contains(&format!("for Hopper of {of} cannot be used"));
        let text = std::fs::read_to_string(&log).unwrap();
        let hopper = text.contains("attention_cross_hopper");
        assert!(hopper || text.contains("attention_cross "), "{text}");
        [hopper, warned("the track step"), warned("the encoder")]
    };
    assert_eq!(run("attention_global_64_hopper"), [true, false, true]);
    assert_eq!(run("attention_cross_hopper"), [false, true, false]);
}

/// The kernels' sources against float64, with warps in random order and copies that land late, which
/// the stand-in driver does not try.
#[test]
fn the_sources_of_the_kernels_give_what_float64_gives() {
    let Ok(ran) =
        std::process::Command::new("sh").args(["tests/emulate/emulate.sh", "shipped"]).output()
    else {
        eprintln!("SKIPPED: no shell");
        return;
    };
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let windows = std::fs::read_to_string("cuda/window_attention.cu").unwrap();
    let emulated = std::fs::read_to_string("tests/emulate/window_attention.cpp").unwrap();
    for (name, columns, queries, keys) in WINDOWS {
        let of = |line: &&str| {
            line.starts_with(&format!("window_attention_{name} ")) && line.ends_with(" ok")
        };
        assert_eq!(said.lines().filter(of).count(), 3, "{name}: {said}");
        let parameters = format!("{columns}, {queries}, {keys}");
        assert!(
            windows.contains(&format!("WINDOW_ATTENTION(window_attention_{name}, {parameters}, ")),
            "{name}"
        );
        assert!(emulated.contains(&format!("W{name} = Windows<{parameters}>;")), "{name}");
    }
    let hopper = std::fs::read_to_string("cuda/window_attention_hopper.cu").unwrap();
    for (columns, keys, last) in WINDOWS_HOPPER {
        let name = format!("{columns}_hopper");
        let of = |line: &&str| {
            line.starts_with(&format!("window_attention_{name} ")) && line.ends_with(" ok")
        };
        assert_eq!(said.lines().filter(of).count(), 3, "{name}: {said}");
        let parameters = format!("{columns}, {keys}, {last}");
        assert!(
            hopper.contains(&format!(
                "WINDOW_ATTENTION_HOPPER(window_attention_{name}, {parameters}, "
            ))
        );
        assert!(emulated.contains(&format!("W{name} = HopperWindows<{parameters}>;")), "{name}");
    }
    let of_keys = |line: &&str| line.starts_with("memory_key_proj ") && line.ends_with(" ok");
    assert_eq!(said.lines().filter(of_keys).count(), 3, "{said}");
    let emulation = std::fs::read_to_string("tests/emulate/attention.cpp").unwrap();
    for (file, name) in ATTENTION {
        let of = |line: &&str| line.starts_with(&format!("{name} ")) && line.ends_with(" ok");
        assert_eq!(said.lines().filter(of).count(), 3, "{name}: {said}");
        // What was emulated is what is compiled.
        let source = std::fs::read_to_string(format!("cuda/{file}.cu")).unwrap();
        let (before, _) = emulation.split_once(&format!(">>(\"{name}\"")).unwrap();
        let (_, parameters) = before.rsplit_once("Attention<").unwrap();
        assert!(source.contains(&format!("({name}, {parameters}")), "{name} <{parameters}>");
    }
}
