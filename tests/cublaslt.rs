//! Products by cuBLASLt on stand-ins: what a launch takes with it, what is refused, what the
//! self-test and the doctor say.

use std::path::Path;
use std::process::Command;

use cuda::Element;
use cuda::cublaslt::{CublasLt, CublasLtError, Matmul, MatmulShape};
use cuda::{Capturable, CapturedGraph, Gpu, Stream, View};
use half::f16;
use segtrt::selftest::kernels::{Chosen, Topic, run};
use segtrt::selftest::{Repeats, report};

use crate::selftest::fakes::{cublaslt, shared};

/// What the tests that load the stand-ins are told by.
const MARK: &str = "SEGTRT_TEST_INSIDE_CUBLASLT";
/// Set where the self-test is to leave cuBLASLt out.
const WITHOUT: &str = "SEGTRT_TEST_WITHOUT_CUBLASLT";
/// Elements beyond which a case of the self-test takes long here.
const MOST: usize = 10_000;

/// Runs one of this module's tests in a process whose driver is the stand-in; what it printed.
fn inside(test: &str, library: &Path, settings: &[(&str, &str)]) -> Option<String> {
    let fakes = shared()?;
    let output = Command::new(std::env::current_exe().unwrap())
        .args([&format!("cublaslt::{test}"), "--exact", "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", fakes.dir())
        .env("SEGTRT_CUBLASLT_LIB", library)
        .envs(settings.iter().copied())
        .env(MARK, "1")
        .output()
        .unwrap();
    let (said, errors) = (output.stdout, output.stderr);
    let (said, errors) = (String::from_utf8_lossy(&said), String::from_utf8_lossy(&errors));
    assert!(output.status.success() && said.contains("1 passed"), "{settings:?}: {said}{errors}");
    Some(said.into_owned())
}

/// Whether this is such a process.
fn is_inside() -> bool {
    let is = std::env::var_os(MARK).is_some();
    if !is {
        eprintln!("SKIPPED: another test starts this one");
    }
    is
}

/// Rows of cuBLASLt's matmuls that the custom kernels are compared with: then GELU, alone, then LayerNorm.
const BESIDE: [&str; 3] = ["matmul, then gelu", "matmul, f16", "matmul, then layernorm"];
/// Prefixes of the custom kernels' rows.
const OWN: [&str; 3] = [" gemm_bias_gelu_", " gemm_bias_1", " gemm_residual_layernorm_"];

/// How many rows of each name have this verdict.
fn of_each(said: &str, names: [&str; 3], verdict: &str) -> [usize; 3] {
    let row = |line: &str, name: &str| line.contains(name) && line.contains(verdict);
    names.map(|name| said.lines().filter(|line| row(line, name)).count())
}

#[test]
fn the_selftest_compares_the_products_and_says_where_it_cannot() {
    let Some(library) = cublaslt() else { return };
    let test = |library: &Path, settings: &[(&str, &str)]| {
        let said = inside("the_selftest", library, settings)?;
        let rows = |verdict: &str| {
            // Those that this program's are compared with are counted by themselves.
            let other = |line: &str| BESIDE.iter().chain(&OWN).any(|name| line.contains(name));
            let row =
                |line: &&str| line.contains(" matmul") && line.contains(verdict) && !other(line);
            said.lines().filter(row).count()
        };
        Some(([rows(" passed"), rows(" failed")], said.clone()))
    };
    let fault = |name: &'static str| [("FAKE_CUBLASLT_FAULT", name)];
    let Some((counts, said)) = test(library, &[]) else { return };
    assert_eq!(counts, [10, 0], "{said}");
    assert!(said.contains("matmul, first of 2"), "{said}");
    assert_eq!(of_each(&said, BESIDE, " passed"), [5, 1, 14], "{said}");
    assert_eq!(of_each(&said, OWN, " passed"), [12, 2, 14], "{said}");
    assert_eq!([BESIDE, OWN].map(|names| of_each(&said, names, " failed")), [[0; 3]; 2], "{said}");
    assert!(said.contains("few: 33 x 96 x 384, f32, added to"), "{said}");
    for (name, expected, told) in [
        ("bias", [0, 10], "elements are off by more than"),
        ("edge", [0, 10], "elements are off by more than"),
        // Only where something was there before.
        ("twice", [6, 4], "elements are off by more than"),
        // Of a sum that is rounded to fp16 in the end nobody can tell.
        ("halves", [6, 4], "elements are off by more than"),
        ("second", [5, 5], "FAILED matmul, all 2 (few: 33 x 288 x 96, f16): candidate 1: "),
        ("unsteady", [5, 5], "two runs on the same inputs gave other bits"),
        ("none", [0, 5], "could not name an algorithm of a matmul of 33 x 288 x 96"),
        ("fails", [0, 10], "CUBLAS_STATUS_EXECUTION_FAILED; SEGTRT_CUBLASLT_LIB names another"),
        (
            "refuses",
            [0, 1],
            "cuBLASLt 13.1.2 (for CUDA 13) could not create a handle on this GPU: \
             CUBLAS_STATUS_ARCH_MISMATCH",
        ),
        ("new", [0, 1], "it is made for CUDA 99, the driver knows CUDA 13"),
    ] {
        let (counts, said) = test(library, &fault(name)).unwrap();
        assert_eq!(counts, expected, "{name}: {said}");
        assert!(said.contains(told), "{name}: {said}");
        if ["bias", "edge", "twice"].contains(&name) {
            assert_eq!(of_each(&said, BESIDE, " failed")[2], 14, "{name}: {said}");
        }
    }
    // Without it, this program's own are left, of which none waits for it.
    let without = [("FAKE_CUBLASLT_FAULT", "fails"), (WITHOUT, "1")];
    let (counts, said) = test(library, &without).unwrap();
    assert_eq!((counts, of_each(&said, BESIDE, " ")), ([0; 2], [0; 3]), "{said}");
    assert_eq!(of_each(&said, OWN, " passed"), [12, 2, 14], "{said}");
    let nothing = tempfile::tempdir().unwrap();
    let (counts, said) = test(nothing.path(), &[]).unwrap();
    assert_eq!(counts, [0, 0]);
    let skipped = "SKIPPED GEMMs: no cuBLASLt (libcublasLt.so) found";
    assert!(said.contains(skipped) && said.contains("SEGTRT_CUBLASLT_LIB"), "{said}");
}

#[test]
#[ignore = "started by another test"]
fn the_selftest() {
    if !is_inside() {
        return;
    }
    let repeats = Repeats { warmup: 0, runs: 1, layer_runs: 0 };
    let without_cublaslt = std::env::var_os(WITHOUT).is_some();
    let chosen = Chosen {
        topics: &[Topic::named("gemm").unwrap()],
        max_elements: Some(MOST),
        without_cublaslt,
    };
    let found = run(&Gpu::open(0).unwrap(), repeats, 1, chosen, &mut |_, _| ());
    println!("{}", report::render_kernels(&found));
}

#[test]
fn whole_trunks_give_the_same_from_launches_and_from_graphs() {
    let Some(library) = cublaslt() else { return };
    let Some(said) = inside("whole_trunks", library, &[]) else { return };
    let of = |kernel: &str, verdict: &str| {
        said.lines().filter(|line| line.contains(kernel) && line.contains(verdict)).count()
    };
    // Four ways of two trunks; two more of the one with fused blocks, without them; three of the
    // other with kernels for any GPU. Of the block between stages three windows by both ways.
    assert_eq!((of("trunk whole", " passed"), of("trunk whole", " failed")), (13, 0), "{said}");
    assert_eq!(of("separate kernels", " passed"), 7, "{said}");
    assert_eq!(of("hiera transition", " passed"), 6, "{said}");
    assert_eq!(of("hiera encoder, autotuned", " passed"), 3, "{said}");
    // Without this program's kernels, whose turns take long on the stand-in.
    let fault = [("FAKE_CUBLASLT_FAULT", "unsteady"), ("FAKE_CUDA_SM", "80")];
    let said = inside("whole_trunks", library, &fault).unwrap();
    assert!(said.contains("FAILED trunk whole (a small one)"), "{said}");
    let nothing = tempfile::tempdir().unwrap();
    let said = inside("whole_trunks", nothing.path(), &[]).unwrap();
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

/// The comparisons must be able to fail, that of single products and that of whole trunks, whose
/// norms come with the products before them.
#[test]
fn a_norm_that_lacks_its_bias_is_found_by_itself_and_in_the_whole() {
    let (Some(fakes), Some(library)) = (shared(), cublaslt()) else { return };
    let path =
        [("LD_LIBRARY_PATH", fakes.dir().to_str().unwrap()), ("FAKE_FAULT", "norm_has_no_bias")];
    let said = inside("the_selftest", library, &path).unwrap();
    assert_eq!(of_each(&said, OWN, " failed"), [0, 0, 14], "{said}");
    assert!(
        said.contains("FAILED gemm_residual_layernorm_384_by_6 (few: 1 x 384 x 80): the norm: "),
        "{said}"
    );
    let said = inside("whole_trunks", library, &path).unwrap();
    for name in ["custom kernels", "other custom kernels, early"] {
        let told = format!(
            "FAILED trunk whole, {name} (a small one as wide as tiny): the tokens after the stages differ by"
        );
        assert!(said.contains(&told), "{said}");
    }
}

/// Hopper's matmuls with GELU begin their sums as the biases. One of them divides a last tile
/// between two warpgroups, of which one case has rows for both.
#[test]
fn a_matmul_with_gelu_that_lacks_its_bias_or_mixes_halves_is_found() {
    let (Some(fakes), Some(library)) = (shared(), cublaslt()) else { return };
    for (fault, failed) in
        [("gelu_matmul_has_no_bias", 12), ("gelu_matmul_gives_the_first_half", 1)]
    {
        let fault = ("FAKE_FAULT", fault);
        let path = [("LD_LIBRARY_PATH", fakes.dir().to_str().unwrap()), fault, (WITHOUT, "1")];
        let said = inside("the_selftest", library, &path).unwrap();
        assert_eq!(of_each(&said, OWN, " failed"), [failed, 0, 0], "{said}");
        assert_eq!(of_each(&said, OWN, " passed"), [12 - failed, 2, 14], "{said}");
    }
}

/// A library that was made for a later CUDA than the driver's is passed over for one that was not.
#[test]
fn a_library_of_the_loaders_path_is_found_and_named() {
    let (Some(fakes), Some(library)) = (shared(), cublaslt()) else { return };
    let path = std::env::join_paths([fakes.dir(), library]).unwrap();
    let settings = [("LD_LIBRARY_PATH", path.to_str().unwrap()), ("SEGTRT_CUBLASLT_LIB", "")];
    let said = inside("which_one", library, &settings).unwrap();
    let name = library.join("libcublasLt.so.13");
    assert!(
        said.contains(&format!("cuBLASLt 13.1.2 (for CUDA 13) at {}", name.display())),
        "{said}"
    );
    let new = [settings[0], settings[1], ("FAKE_CUBLASLT_FAULT", "new")];
    let said = inside("which_one", library, &new).unwrap();
    let why = "libcublasLt.so.13 (it is made for CUDA 99, the driver knows CUDA 13)";
    assert!(said.contains(why) && said.contains("pip install nvidia-cublas (CUDA 13)"), "{said}");
}

#[test]
#[ignore = "started by another test"]
fn which_one() {
    if !is_inside() {
        return;
    }
    match CublasLt::open(&Gpu::open(0).unwrap()) {
        Ok(found) => println!("{:?}", found.library()),
        Err(error) => println!("{error}"),
    }
}

#[test]
fn products_take_their_operands_with_them_and_refuse_what_does_not_fit() {
    let Some(library) = cublaslt() else { return };
    for seed in ["0", "1", "77"] {
        // The host cannot touch this device's memory: what the stand-in computes it computes when
        // the device works.
        let settings = [("FAKE_CUDA_SEED", seed), ("FAKE_CUDA_APART", "1")];
        inside("launches", library, &settings);
    }
    inside("refusals", library, &[]);
}

/// `2 x 8` tokens whose products with the weights are whole numbers.
struct Operands {
    a: View,
    weight: View,
    bias: [View; 2],
    out: View,
    workspace: View,
}

const SMALL: MatmulShape = MatmulShape { m: 2, n: 16, k: 8, output: Element::F32, residual: true };

fn floats(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

fn put(gpu: &Gpu, stream: &Stream, bytes: &[u8]) -> View {
    let view = View::new(gpu, bytes.len()).unwrap();
    view.upload(bytes, stream).unwrap();
    view
}

impl Operands {
    fn new(gpu: &Gpu, stream: &Stream, product: &Matmul) -> Self {
        let halves = |count: usize, value: fn(usize) -> usize| -> Vec<u8> {
            (0..count).flat_map(|at| f16::from_f32(value(at) as f32).to_le_bytes()).collect()
        };
        let bias = |of: f32| put(gpu, stream, &floats((0..16).map(|at| at as f32 * of)));
        Self {
            // The token's number, and the weights' row: sums of eight products.
            a: put(gpu, stream, &halves(16, |at| 1 + at / 8)),
            weight: put(gpu, stream, &halves(128, |at| at / 8)),
            bias: [bias(0.25), bias(100.0)],
            out: put(gpu, stream, &floats((0..32).map(|_| 0.5))),
            workspace: View::new(gpu, product.workspace_bytes()).unwrap(),
        }
    }

    fn enqueue(&self, product: &Matmul, bias: usize, stream: &Stream) {
        let Self { a, weight, bias: biases, out, workspace } = self;
        product.enqueue(a, weight, &biases[bias], out, workspace, stream).unwrap();
    }

    /// What is in the output after so many products with each bias.
    fn expect(&self, times: [usize; 2], stream: &Stream) {
        let (first, second) = (times[0] as f32, times[1] as f32);
        let wanted = (0..32).map(|at| {
            let (row, column) = ((at / 16) as f32, (at % 16) as f32);
            0.5 + (first + second) * 8.0 * (1.0 + row) * column
                + column * (0.25 * first + 100.0 * second)
        });
        assert_eq!(self.out.download(stream).unwrap(), floats(wanted), "{times:?}");
    }
}

struct Both {
    product: Matmul,
    operands: Operands,
}

#[expect(unsafe_code, reason = "what it promises is what it keeps")]
// SAFETY: product and operands are kept as long as this; nothing is cleared.
unsafe impl Capturable for Both {
    fn enqueue(&mut self, stream: &Stream) -> anyhow::Result<()> {
        self.operands.enqueue(&self.product, 0, stream);
        self.operands.enqueue(&self.product, 1, stream);
        Ok(())
    }
}

#[test]
#[ignore = "started by another test"]
fn launches() {
    if !is_inside() {
        return;
    }
    let gpu = Gpu::open(0).unwrap();
    let (lt, stream) = (CublasLt::open(&gpu).unwrap(), gpu.stream().unwrap());
    let product = Matmul::new(&lt, SMALL).unwrap();
    assert_eq!((product.candidates(), product.workspace_bytes()), (2, 4 * 32));
    let operands = Operands::new(&gpu, &stream, &product);
    // Two weights' products behind each other, before either has run: each has its own bias.
    operands.enqueue(&product, 0, &stream);
    operands.enqueue(&product, 1, &stream);
    operands.expect([1, 1], &stream);
    product.choose(1).unwrap();
    assert_eq!(product.workspace_bytes(), 0);
    operands.enqueue(&product, 1, &stream);
    operands.expect([1, 2], &stream);
    product.choose(0).unwrap();
    // Recorded once, and replayed with the biases that it was recorded with.
    let out = operands.out.clone();
    let all = Operands { out, ..Operands::new(&gpu, &stream, &product) };
    let mut recorded = CapturedGraph::new(Both { product, operands }, &stream, true);
    for _ in 0..3 {
        recorded.run().unwrap();
    }
    assert_eq!(recorded.count().replayed, 2);
    all.expect([4, 5], &stream);
}

#[test]
#[ignore = "started by another test"]
fn refusals() {
    if !is_inside() {
        return;
    }
    let gpu = Gpu::open(0).unwrap();
    let (lt, stream) = (CublasLt::open(&gpu).unwrap(), gpu.stream().unwrap());
    let said = |result: Result<(), CublasLtError>| result.unwrap_err().to_string();
    for shape in [
        MatmulShape { m: 0, ..SMALL },
        MatmulShape { n: 0, ..SMALL },
        MatmulShape { k: 1 << 31, ..SMALL },
    ] {
        let told = said(Matmul::new(&lt, shape).map(|_| ()));
        assert!(told.contains(&shape.to_string()) && told.contains("from 1 to"), "{told}");
    }
    let product = Matmul::new(&lt, SMALL).unwrap();
    let told = said(product.choose(2));
    assert!(told.contains("candidate 2 of") && told.contains("it has 2"), "{told}");
    let right = Operands::new(&gpu, &stream, &product);
    let whole = View::new(&gpu, 4096).unwrap();
    let odd = |bytes: usize| whole.part(16, bytes).unwrap();
    let large = |bytes: usize| whole.part(0, bytes).unwrap();
    let enqueue = |a: &View, weight: &View, bias: &View, out: &View, workspace: &View| {
        product.enqueue(a, weight, bias, out, workspace, &stream)
    };
    let Operands { a, weight, bias: [bias, _], out, workspace } = &right;
    for (result, name) in [
        (enqueue(&large(64), weight, bias, out, workspace), "'a'"),
        (enqueue(a, &odd(256), bias, out, workspace), "'weight'"),
        // A bias of halves.
        (enqueue(a, weight, &large(32), out, workspace), "'bias'"),
        (enqueue(a, weight, bias, &odd(128), workspace), "'out'"),
        (enqueue(a, weight, bias, out, &large(64)), "the workspace"),
        (enqueue(a, weight, bias, out, &odd(128)), "the workspace"),
    ] {
        let told = said(result);
        assert!(told.starts_with(&format!("{name} of a matmul of 2 x 16 x 8 ")), "{told}");
    }
    // Nothing of that was enqueued.
    enqueue(a, weight, bias, out, &large(4096)).unwrap();
    right.expect([1, 0], &stream);
}
