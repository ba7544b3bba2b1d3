//! The self-test of whole trunks by cuBLASLt and this program's kernels, on stand-ins.

use std::path::Path;

use cuda::Gpu;
use segtrt::selftest::kernels::{Chosen, Topic, run};
use segtrt::selftest::{Repeats, report};

use crate::cublaslt::{MOST, inside_of, is_inside};
use crate::selftest::fakes::{cublaslt, shared};

/// What the self-test says in a process whose driver is the stand-in.
fn inside(library: &Path, settings: &[(&str, &str)]) -> Option<String> {
    inside_of("whole_trunks", "whole_trunks", library, settings)
}

#[test]
fn whole_trunks_give_the_same_from_launches_and_from_graphs() {
    let Some(library) = cublaslt() else { return };
    let Some(said) = inside(library, &[]) else { return };
    let of = |kernel: &str, verdict: &str| {
        said.lines().filter(|line| line.contains(kernel) && line.contains(verdict)).count()
    };
    // Four ways of two trunks; two more of the one with fused blocks, without them, and five with
    // folded norms or beside those; three of the other with kernels for any GPU. Of the block
    // between stages three windows by both ways.
    assert_eq!((of("trunk whole", " passed"), of("trunk whole", " failed")), (18, 0), "{said}");
    assert_eq!(of("separate kernels", " passed"), 8, "{said}");
    assert_eq!(of("trunk whole, folded norms", " passed"), 3, "{said}");
    assert_eq!(of("hiera transition", " passed"), 6, "{said}");
    assert_eq!(of("hiera encoder, autotuned", " passed"), 3, "{said}");
    // Without this program's kernels, whose turns take long on the stand-in.
    let fault = [("FAKE_CUBLASLT_FAULT", "unsteady"), ("FAKE_CUDA_SM", "80")];
    let said = inside(library, &fault).unwrap();
    assert!(said.contains("FAILED trunk whole (a small one)"), "{said}");
    let nothing = tempfile::tempdir().unwrap();
    let said = inside(nothing.path(), &[]).unwrap();
    assert!(said.contains("SKIPPED whole trunks: no cuBLASLt (libcublasLt.so) found"), "{said}");
}

#[test]
#[ignore = "started by another test"]
fn whole_trunks() {
    if !is_inside() {
        return;
    }
    let repeats = Repeats { warmup: 0, runs: 1, layer_runs: 0 };
    let topics = &["trunk", "hiera-transition"].map(|topic| Topic::named(topic).unwrap());
    let chosen = Chosen { topics, max_elements: Some(MOST), without_cublaslt: false };
    let found = run(&Gpu::open(0).unwrap(), repeats, 1, chosen, &mut |_, _| ());
    println!("{}", report::render_kernels(&found));
}

/// The comparison must be able to fail: norms come with the products before them, or with both
/// products around them.
#[test]
fn norms_that_lack_a_bias_or_a_part_of_their_moments_are_found() {
    let (Some(fakes), Some(library)) = (shared(), cublaslt()) else { return };
    let path = ("LD_LIBRARY_PATH", fakes.dir().to_str().unwrap());
    let said = |fault| inside(library, &[path, ("FAKE_FAULT", fault)]).unwrap();
    for (fault, names) in [
        ("norm_has_no_bias", ["custom kernels", "other custom kernels, early"]),
        ("normed_matmul_skips_a_part", ["folded norms", "folded norms, rows off zero"]),
    ] {
        let said = said(fault);
        for name in names {
            let told = format!(
                "FAILED trunk whole, {name} (a small one as wide as tiny): the tokens after the stages differ by"
            );
            assert!(said.contains(&told), "{fault}: {said}");
        }
    }
}
