//! Compiles the kernels where a CUDA compiler is named.

use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    compile_kernels();
}

/// The kernels' sources.
const SOURCES: &str = "../../cuda";

/// What `SEGTRT_CUDA_ARCHS` says unless it is set: Orin, the RTX 30 series, Hopper.
const ARCHITECTURES: &str = "86,87,90";

/// With `SEGTRT_NVCC` (the path of nvcc): a cubin of every kernel source for every architecture, which the program prefers
/// to its PTX on those very GPUs. Without it an empty list. A compiler that fails costs a warning and its cubins.
fn compile_kernels() {
    println!("cargo:rerun-if-env-changed=SEGTRT_NVCC");
    println!("cargo:rerun-if-env-changed=SEGTRT_CUDA_ARCHS");
    println!("cargo:rerun-if-changed={SOURCES}");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut list = String::from("const CUBINS: &[(u32, &str, &[u8])] = &[\n");
    if let Ok(nvcc) = env::var("SEGTRT_NVCC") {
        let architectures = env::var("SEGTRT_CUDA_ARCHS").unwrap_or_else(|_| ARCHITECTURES.into());
        for architecture in architectures.split(',').map(str::trim) {
            match cubins(&nvcc, architecture, &out) {
                Ok(lines) => list += &lines,
                Err(problem) => {
                    println!("cargo:warning=no cubins for sm {architecture}: {problem}")
                }
            }
        }
    }
    list += "];\n";
    if let Err(error) = std::fs::write(out.join("cubins.rs"), list) {
        println!("cargo:warning=cubins.rs cannot be written: {error}");
    }
}

/// The lines of the list for one architecture.
fn cubins(nvcc: &str, architecture: &str, out: &Path) -> Result<String, String> {
    let sm: u32 = architecture
        .parse()
        .map_err(|_| "SEGTRT_CUDA_ARCHS takes numbers such as 86,87,90".to_owned())?;
    let mut lines = String::new();
    let common = [
        "preprocess",
        "mask",
        "memory",
        "attention",
        "trunk",
        "windows",
        "keys",
        "decoder_image",
        "decoder_tokens",
        "decoder_heads",
        "decoder_masks",
        "memory_mask",
        "memory_join",
        "memory_blocks",
        "latents",
        "latent_windows",
    ]
    .map(|topic| (topic, ""));
    // Hopper's own instructions are for its architecture alone, which has a name of its own.
    let hopper =
        ["attention_hopper", "products_hopper", "norms_hopper", "trunk_hopper", "windows_hopper"]
            .map(|topic| (topic, "a"));
    let hopper = hopper.into_iter().filter(|_| sm == 90);
    for (topic, variant) in common.into_iter().chain(hopper) {
        let to = out.join(format!("{topic}.sm{sm}.cubin"));
        let ran = Command::new(nvcc)
            .args([
                "-cubin",
                "-O3",
                "-std=c++17",
                "-lineinfo",
                &format!("-arch=sm_{sm}{variant}"),
                "-o",
            ])
            .arg(&to)
            .arg(format!("{SOURCES}/{topic}.cu"))
            .output()
            .map_err(|error| format!("{nvcc} (SEGTRT_NVCC) cannot be run: {error}"))?;
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stderr);
            let said: Vec<&str> =
                said.lines().filter(|line| !line.trim().is_empty()).take(3).collect();
            return Err(format!("{nvcc} fails on cuda/{topic}.cu: {}", said.join(" | ")));
        }
        let _ = writeln!(lines, "    ({sm}, {topic:?}, include_bytes!({to:?})),");
    }
    Ok(lines)
}
