//! Faults in kernels, built in on purpose: the self-test finds each.

use std::path::Path;

use assert_cmd::assert::Assert;
use predicates::str::contains;

use crate::kernels::{ATTENTION, selftest};
use crate::selftest::fakes::{Fakes, compile_kernels, shared};
use crate::support::column;

/// Compute capabilities. Without Hopper's kernels and its second launch mode a run takes a third to
/// three quarters of the time: faults in kernels for any GPU are looked for there.
const ADA: &str = "89";
const HOPPER: &str = "90";

/// The self-test of a topic up to so many elements, with a fault, on a stand-in of this compute
/// capability.
fn tested_on(
    fakes: &Fakes,
    csv: &Path,
    [fault, sm]: [&str; 2],
    [topic, most]: [&str; 2],
) -> Assert {
    let mut command = selftest(fakes.dir(), csv);
    command.env("FAKE_FAULT", fault).env("FAKE_CUDA_SM", sm);
    command.args(["--topics", topic, "--max-elements", most]).assert()
}

/// The comparison must be able to fail: each of these faults has to be found.
#[test]
fn a_fault_in_any_kernel_is_found() {
    let Some(fakes) = Fakes::copied() else { return };
    // What each fault breaks, the file, and the text that is replaced by another.
    let faults = [
        (
            "preprocess bicubic f32",
            "preprocess.cuh",
            "HALF = 1 << (PRECISION_BITS - 1)",
            "HALF = 0",
        ),
        ("preprocess tiles f16", "preprocess_tiles.cuh", "middle[c] * 256u", "middle[c] * 255u"),
        ("preprocess bilinear f16", "preprocess.cu", "__fdiv_rn(__fsub_rn", "__fmul_rn(__fsub_rn"),
        ("mask", "mask.cu", "a, row.weight, b) > 0.0f", "a, row.weight, b) >= 0.0f"),
        ("mask counts", "mask.cu", "any[1] | from_left(any)", "any[1] | from_right(any)"),
        (
            "bank inputs",
            "bank.cu",
            "age_in_slot(t, at, memories) - 1",
            "age_in_slot(t, at, memories)",
        ),
        ("bank advance", "bank.cu", "1 + (t - 1) % (pointers - 1)", "t % pointers"),
        ("hiera max pool", "hiera.cu", "column * 2) * units", "column) * units"),
    ];
    // The same in the cases that are compared with float64, and in their messages.
    let roughly = [
        (
            "hiera layernorm",
            "layernorm.cuh",
            "sum_of_warp(sum) * share + EPSILON",
            "sum_of_warp(sum) + EPSILON",
        ),
        ("hiera gelu", "gelu.cuh", "-0.0539062992f", "-0.0529062992f"),
    ];
    let sources = fakes.dir().join("cuda");
    std::fs::create_dir(&sources).unwrap();
    let mut written = 0;
    for name in [
        "common.cuh",
        "arithmetic.cuh",
        "gelu.cuh",
        "layernorm.cuh",
        "preprocess.cuh",
        "preprocess_tiles.cuh",
        "preprocess.cu",
        "mask.cu",
        "bank.cu",
        "hiera.cu",
        "hiera_hopper.cu",
    ] {
        let mut text = std::fs::read_to_string(Path::new("cuda").join(name)).unwrap();
        for (_, _, from, to) in faults.iter().chain(&roughly).filter(|fault| fault.1 == name) {
            assert!(text.contains(from), "{name} has no {from:?}: the fault must be written anew");
            text = text.replace(from, to);
            written += 1;
        }
        std::fs::write(sources.join(name), text).unwrap();
    }
    assert_eq!(written, faults.len() + roughly.len(), "a fault names a file that is not copied");
    let emulation = std::fs::read_to_string("tests/data/gpu/emulate.cpp").unwrap();
    let host = fakes.dir().join("emulate.cpp");
    std::fs::write(&host, emulation.replace("../../../cuda/", "cuda/")).unwrap();
    compile_kernels(&host, &["-I", "tests/data/gpu"], fakes.dir(), fakes.dir()).unwrap();

    let csv = fakes.dir().join("faults.csv");
    // Little memory: the large cases fail for want of it, and take no time.
    let mut command = selftest(fakes.dir(), &csv);
    command
        .args(["--topics", "preprocess,mask,bank,hiera,attention"])
        .env("FAKE_CUDA_MEMORY", "1000000")
        // A driver's module without a kernel for heads must cost that kernel alone.
        .env("FAKE_LACKS", "attention_heads_64")
        .assert()
        .code(1)
        .stdout(contains("FAILED bank inputs"));
    let (kernels, reasons) = (column(&csv, "kernel"), column(&csv, "reason"));
    let found = |of: &str, what: &str| {
        kernels.iter().zip(&reasons).any(|(kernel, why)| kernel == of && why.contains(what))
    };
    for (kernel, ..) in faults {
        assert!(found(kernel, "differ from the CPU's"), "the fault in {kernel} was not found");
    }
    for (kernel, ..) in roughly {
        assert!(found(kernel, " is expected"), "the fault in {kernel} was not found");
    }
    assert!(found("hiera layernorm pdl", " is expected"), "the fault was not found in both norms");
    assert!(found("mask", "CUDA_ERROR_OUT_OF_MEMORY"));
    assert!(found("attention", "heads of 64 columns cannot be used: "), "{reasons:?}");
    let verdicts = column(&csv, "verdict");
    for (_, name) in ATTENTION {
        let mut of = kernels.iter().zip(&verdicts).filter(|(kernel, _)| *kernel == name);
        let passes = of.any(|(_, verdict)| verdict == "passed");
        assert_eq!(passes, name != "attention_heads_64", "{name}: what has no fault passes");
    }
}

/// A fault in the softmax of every attention, that of Hopper's kernels too.
#[test]
fn a_fault_in_attention_is_found() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("faults.csv");
    let mut command = selftest(fakes.dir(), &csv);
    command.env("FAKE_FAULT", "attention_weighs_all_keys_alike");
    command.args(["--topics", "attention", "--max-elements", "9000"]).assert().code(1);
    let (kernels, verdicts) = (column(&csv, "kernel"), column(&csv, "verdict"));
    assert!(verdicts.iter().all(|verdict| verdict == "failed"), "{kernels:?} {verdicts:?}");
    for name in ["attention_cross", "attention_cross_hopper", "attention_global_64_hopper"] {
        assert!(kernels.iter().any(|kernel| kernel == name), "{name}: {kernels:?}");
    }
}

/// What is read from the tokens decides about masks: a fault in any of the answer's parts, and one
/// in the middle.
#[test]
fn a_fault_in_the_mask_decoder_is_found() {
    let Some(fakes) = shared() else { return };
    let faults = [
        ("decoder_skips_the_last_token_of_a_tile", "score"),
        ("decoder_has_no_value_bias", "score"),
        ("decoder_squashes_the_wrong_ious", "IoU"),
        ("decoder_takes_the_last_of_equal_ious", "pointer"),
        ("decoder_takes_the_pointer_of_score_3", "pointer"),
        ("decoder_fills_with_a_mask", "logits"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (fault, of) in faults {
        let csv = dir.path().join(format!("{fault}.csv"));
        tested_on(fakes, &csv, [fault, ADA], ["mask-decoder", "30000"]).code(1);
        let why = format!("the {of}: ");
        assert!(column(&csv, "reason").iter().any(|reason| reason.contains(&why)), "{fault}");
    }
}

/// Faults in a norm, a rotation, a sum, in parts that are joined, and in both matmuls of an MLP.
#[test]
fn a_fault_in_the_memory_attention_is_found() {
    let Some(fakes) = shared() else { return };
    let faults = [
        ("attention_norm_has_no_bias", ADA, "queries"),
        ("attention_turns_rows_as_columns", ADA, "queries"),
        ("attention_forgets_positions", ADA, "tokens"),
        ("tail_forgets_a_parts_scale", ADA, "sum"),
        ("tail_forgets_later_parts", ADA, "sum"),
        ("tail_forgets_the_residual", ADA, "sum"),
        ("attention_mlp_has_no_relu", ADA, "tokens"),
        ("attention_forgets_the_residual", ADA, "tokens"),
        ("hopper_norm_has_no_bias", HOPPER, "queries"),
        ("hopper_turns_rows_as_columns", HOPPER, "queries"),
        ("hopper_forgets_positions", HOPPER, "tokens"),
        ("query_forgets_a_parts_scale", HOPPER, "tokens"),
        ("query_forgets_later_parts", HOPPER, "tokens"),
        ("query_swaps_no_halves", HOPPER, "tokens"),
        ("query_keeps_tokens_from_its_peer", HOPPER, "queries"),
        ("hopper_mlp_has_no_relu", HOPPER, "tokens"),
        ("hopper_mlp_forgets_the_residual", HOPPER, "tokens"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (fault, sm, of) in faults {
        let csv = dir.path().join(format!("{fault}.csv"));
        // 4 x 4 tokens.
        tested_on(fakes, &csv, [fault, sm], ["memory-attention", "20000"]).code(1);
        let why = format!("the {of}: ");
        assert!(column(&csv, "reason").iter().any(|reason| reason.starts_with(&why)), "{fault}");
    }
}

/// Faults at a mask's edge, in a place, where mask and features meet, between splits, of what an
/// object that is not there has, and in the order of windows.
#[test]
fn a_fault_in_the_memory_encoder_is_found() {
    let Some(fakes) = shared() else { return };
    // Tokens alone, 6 x 6, or those and latents of 16 x 16, which take five times as long.
    let (small, both) = ("10000", "20000");
    let faults = [
        ("memory_of_a_soft_mask", ADA, small, "tokens"),
        ("memory_is_shifted_by_a_column", ADA, small, "tokens"),
        ("memory_of_score_0_is_present", ADA, small, "tokens"),
        ("hopper_mlp_of_score_0_is_present", HOPPER, small, "tokens"),
        ("hopper_fuse_norm_has_no_bias", HOPPER, both, "latents of all tokens"),
        ("hopper_fuse_is_shifted_by_a_column", HOPPER, both, "latents of all tokens"),
        ("hopper_fuse_has_16_channels_of_64", HOPPER, both, "latents of all tokens"),
        ("memory_forgets_the_splits_scale", ADA, both, "latents of all tokens"),
        ("memory_windows_in_the_wrong_order", ADA, both, "latents of windows"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (fault, sm, elements, of) in faults {
        let csv = dir.path().join(format!("{fault}.csv"));
        tested_on(fakes, &csv, [fault, sm], ["memory-encoder", elements]).code(1);
        let why = format!("the {of}: ");
        assert!(column(&csv, "reason").iter().any(|reason| reason.starts_with(&why)), "{fault}");
    }
}

/// Faults in a block of one launch, in the sums behind its gate, and in each part of other blocks;
/// at the border of the stem.
#[test]
fn a_fault_in_repvit_is_found() {
    let Some(fakes) = shared() else { return };
    // The trunk with blocks of one launch, too, or the narrow one alone.
    let (both, narrow) = ("30000", "10000");
    let faults = [
        ("repvit_is_shifted_by_a_column", both, "stage 0"),
        ("repvit_block_has_no_gate", both, "stage 0"),
        ("repvit_next_sums_edges_as_inner", both, "stage 1"),
        ("repvit_sums_edges_as_inner", narrow, "stage 0"),
        ("repvit_stride_begins_a_row_late", narrow, "stage 1"),
        ("repvit_forgets_a_part_of_the_depth", narrow, "stage 0"),
        ("repvit_stem_has_no_border", narrow, "tokens"),
        ("repvit_stem_sums_edges_as_inner", narrow, "feat"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (fault, elements, of) in faults {
        let csv = dir.path().join(format!("{fault}.csv"));
        tested_on(fakes, &csv, [fault, ADA], ["repvit", elements]).code(1);
        let why = format!("{of}: ");
        assert!(column(&csv, "reason").iter().any(|reason| reason.starts_with(&why)), "{fault}");
    }
}

/// Faults in Hiera's stem.
#[test]
fn a_fault_in_hieras_stem_is_found() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    for fault in ["hiera_stem_has_no_position", "hiera_stem_begins_a_row_early"] {
        let csv = dir.path().join(format!("{fault}.csv"));
        let mut command = selftest(fakes.dir(), &csv);
        command.env("FAKE_FAULT", fault);
        command.args(["--topics", "stem", "--max-elements", "20000"]).assert().code(1);
        let rows = column(&csv, "kernel").into_iter().zip(column(&csv, "verdict"));
        let failed = rows.filter(|(_, verdict)| verdict == "failed").map(|(kernel, _)| kernel);
        assert_eq!(failed.collect::<Vec<_>>(), ["hiera stem"; 2], "{fault}");
    }
}

/// Faults in Hiera's fused blocks: in attention, norms and MLP of one window of 8 x 8 tokens and two
/// of 4 x 4; in the values of one of the latter.
#[test]
fn a_fault_in_hieras_fused_block_is_found() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    for (fault, elements, rows) in [
        ("hiera_block_weighs_all_keys_alike", "7000", 3),
        ("hiera_block_norm_has_no_bias", "7000", 3),
        ("hiera_block_has_the_wrong_gelu", "7000", 3),
        ("hiera_block_does_not_transpose_values", "3500", 1),
    ] {
        let csv = dir.path().join(format!("{fault}.csv"));
        let mut command = selftest(fakes.dir(), &csv);
        command.env("FAKE_FAULT", fault).arg("--without-cublaslt");
        command.args(["--topics", "hiera-block", "--max-elements", elements]).assert().code(1);
        assert_eq!(column(&csv, "verdict"), vec!["failed"; rows], "{fault}");
    }
}

/// Faults in Hiera's fused transition: in its pooling, attention and norm.
#[test]
fn a_fault_in_hieras_fused_transition_is_found() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    for fault in [
        "hiera_transition_pools_three_tokens",
        "hiera_transition_forgets_the_values_bias",
        "hiera_block_weighs_all_keys_alike",
        "hiera_block_norm_has_no_bias",
    ] {
        let csv = dir.path().join(format!("{fault}.csv"));
        let mut command = selftest(fakes.dir(), &csv);
        command.env("FAKE_FAULT", fault).arg("--without-cublaslt");
        command.args(["--topics", "hiera-transition", "--max-elements", "7000"]).assert().code(1);
        assert_eq!(column(&csv, "kernel"), ["hiera transition fused"], "{fault}");
        assert_eq!(column(&csv, "verdict"), ["failed"], "{fault}");
    }
}

/// Faults in `feat`, of halves and of floats: in the upsampled map, beyond the first part of the
/// depth, and in the sum of the depth's parts.
#[test]
fn a_fault_in_the_neck_is_found() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    for fault in [
        "neck_upsamples_another_line",
        "neck_reads_the_first_span_alone",
        "neck_adds_up_one_part_alone",
    ] {
        let csv = dir.path().join(format!("{fault}.csv"));
        let mut command = selftest(fakes.dir(), &csv);
        command.env("FAKE_FAULT", fault);
        // The narrow ones of both types.
        command.args(["--topics", "neck", "--max-elements", "10000"]).assert().code(1);
        let reasons = column(&csv, "reason");
        assert_eq!(reasons.len(), 2, "{fault}");
        assert!(reasons.iter().all(|reason| reason.starts_with("feat: ")), "{fault}: {reasons:?}");
    }
}

/// A block of a cluster on Hopper that does not get all hidden columns.
#[test]
fn a_fault_in_repvit_on_hopper_is_found() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("hopper.csv");
    let mut command = selftest(fakes.dir(), &csv);
    command.env("FAKE_FAULT", "repvit_block_forgets_a_peer");
    command.args(["--topics", "repvit", "--max-elements", "30000"]).assert().code(1);
    let (kernels, reasons) = (column(&csv, "kernel"), column(&csv, "reason"));
    let found = kernels.iter().zip(&reasons).find(|(kernel, _)| *kernel == "repvit whole hopper");
    assert!(found.is_some_and(|(_, reason)| reason.starts_with("stage 3: ")), "{reasons:?}");
    let any = kernels.iter().zip(&reasons).filter(|(kernel, _)| *kernel == "repvit whole");
    assert!(any.clone().count() == 2 && any.into_iter().all(|(_, reason)| reason.is_empty()));
}

/// A kernel of a programmatic dependent launch that reads a map before it has waited for the kernel
/// that writes it gives another result. Threads that never wait end the emulation.
#[test]
fn a_kernel_that_does_not_wait_for_the_one_before_it_is_found() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("early.csv");
    let tested = |fault: &str, sm: &str| tested_on(fakes, &csv, [fault, sm], ["repvit", "30000"]);
    let early = "repvit_reads_before_it_waits";
    tested(early, HOPPER).code(1);
    let (kernels, cases) = (column(&csv, "kernel"), column(&csv, "case"));
    let (verdicts, reasons) = (column(&csv, "verdict"), column(&csv, "reason"));
    let failed: Vec<usize> = (0..cases.len()).filter(|at| verdicts[*at] == "failed").collect();
    for kernel in ["repvit modes", "repvit encoder modes"] {
        let dependent = "as wide as EdgeTAM, dependent";
        let found = failed.iter().find(|at| kernels[**at] == kernel && cases[**at] == dependent);
        let at = *found.unwrap_or_else(|| panic!("{kernel}: {kernels:?} {verdicts:?}"));
        assert!(reasons[at].contains("differ"), "{}", reasons[at]);
    }
    assert!(!failed.iter().any(|at| cases[*at].ends_with("in order")), "{cases:?} {verdicts:?}");
    // In order, and so on other GPUs, all that a kernel reads is there.
    tested(early, ADA).success();
    assert!(!column(&csv, "kernel").iter().any(|kernel| kernel.ends_with("modes")));
    let some = "a thread has ended that did not wait for the previous kernel";
    tested("repvit_waits_with_some_threads", HOPPER).failure().stdout(contains(some));
}

/// The same of an attention that starts beside the projection in front of it.
#[test]
fn an_attention_that_does_not_wait_for_its_queries_is_found() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("early.csv");
    let size = ["memory-attention", "5000"];
    let tested = |fault: &str, sm: &str| tested_on(fakes, &csv, [fault, sm], size);
    let early = "attention_reads_before_it_waits";
    tested(early, "120").code(1);
    let (kernels, cases) = (column(&csv, "kernel"), column(&csv, "case"));
    let verdicts = column(&csv, "verdict");
    let layer = (0..cases.len()).filter(|at| kernels[*at] == "memory attention layer modes");
    let layer: Vec<usize> = layer.collect();
    assert!(layer.len() == 4, "{kernels:?}");
    for at in layer {
        let dependent = cases[at].ends_with("dependent");
        assert_eq!(verdicts[at] == "failed", dependent, "{}", cases[at]);
    }
    tested(early, ADA).success();
}
