/*!
The declarations against NVIDIA's headers, slot by slot, for the releases whose headers the crate
`trtx-sys` carries.

For each release a C++ program is compiled against the real headers. It takes the pointer to each
method that the shim calls, with the exact signature that the tables record (another one does not
compile), reads the vtable slot out of it, and compares enum values, struct layouts, the place of
`mImpl`, and the vtables of the shim's own callback classes.
*/

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tables::{Row, family_of, rows};

/// Crate versions that together carry all header sets.
const CRATES: [&str; 4] = ["0.5.0", "0.7.1", "0.8.1", "0.9.1"];

/// Header folder → release of the tables. RTX 1.4 has no rows: it must fit those of 1.3.
const SETS: [(&str, &str); 9] = [
    ("TRT-Enterprise-10.16", "10.16"),
    ("TRT-Enterprise-11.0", "11.0"),
    ("TRT-Enterprise-11.1", "11.1"),
    ("TRT-Enterprise-11.4", "11.4"),
    ("TRT-RTX-1.3", "rtx-1.3"),
    ("TRT-RTX-1.4", "rtx-1.3"),
    ("TRT-RTX-1.5", "rtx-1.5"),
    ("TRT-RTX-1.6", "rtx-1.6"),
    ("TRT-RTX-1.7", "rtx-1.7"),
];

#[test]
fn declarations_fit_the_real_headers() {
    let roots: Vec<PathBuf> = CRATES.iter().filter_map(|version| headers_of(version)).collect();
    let one = |(folder, release): (&'static str, &'static str)| {
        let found = roots.iter().map(|root| root.join(folder)).find(|headers| headers.is_dir());
        let Some(headers) = found else {
            eprintln!(
                "SKIPPED: {folder}: the crate trtx-sys cannot be fetched (offline, or no cargo)"
            );
            return None;
        };
        check(&headers, release).unwrap_or_else(|error| panic!("{folder}: {error}"));
        Some(folder)
    };
    // A compiler each.
    let seen: Vec<&str> = std::thread::scope(|scope| {
        let one = &one;
        let running = SETS.map(|set| scope.spawn(move || one(set)));
        running.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    eprintln!("compared with the headers of {seen:?}");
}

/// Fetches a crate version into cargo's cache and finds the folder of its header sets there.
fn headers_of(version: &str) -> Option<PathBuf> {
    let project = tempfile::tempdir().unwrap();
    std::fs::create_dir(project.path().join("src")).unwrap();
    std::fs::write(project.path().join("src/lib.rs"), "").unwrap();
    let manifest = format!(
        "[package]\nname = \"headers\"\nversion = \"0.0.0\"\n[dependencies]\ntrtx-sys \
         = \"={version}\"\n[workspace]\n"
    );
    std::fs::write(project.path().join("Cargo.toml"), manifest).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // `metadata` resolves and downloads, and says where each package lies.
    let run = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--quiet"])
        .current_dir(project.path())
        .output()
        .ok()?;
    let metadata: serde_json::Value = serde_json::from_slice(&run.stdout).ok()?;
    let package = metadata["packages"].as_array()?.iter().find(|p| p["name"] == "trtx-sys")?;
    Some(Path::new(package["manifest_path"].as_str()?).parent()?.join("TensorRT-Headers"))
}

fn check(headers: &Path, release: &'static str) -> Result<(), String> {
    let work = tempfile::tempdir().unwrap();
    let stub = "typedef struct CUstream_st* cudaStream_t;\ntypedef struct CUevent_st* \
                cudaEvent_t;\n#define CUDART_VERSION 12000\n";
    std::fs::write(work.path().join("cuda_runtime_api.h"), stub).unwrap();
    let source = work.path().join("check.cpp");
    std::fs::write(&source, program(release)).unwrap();
    let binary = work.path().join("check");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let built = Command::new(compiler)
        .args(["-std=c++17", "-w", "-Isrc/shim", "-I"])
        .arg(work.path())
        .arg("-isystem")
        .arg(headers)
        .arg("-o")
        .args([&binary, &source])
        .output()
        .map_err(|error| format!("no C++ compiler: {error}"))?;
    if !built.status.success() {
        let text = String::from_utf8_lossy(&built.stderr).into_owned();
        return Err(text.lines().take(30).collect::<Vec<_>>().join("\n"));
    }
    let run = Command::new(&binary).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&run.stdout);
    if !run.status.success() || !text.contains("compared") {
        return Err(text.into_owned());
    }
    let count: usize = text.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    if count < 150 { Err(format!("only {count} comparisons")) } else { Ok(()) }
}

fn program(release: &'static str) -> String {
    let mut text = String::from(
        r#"
#define private public
#define protected public
#include "NvInfer.h"
#include "NvOnnxParser.h"
#undef private
#undef protected
#include <cstdio>
#include <cstring>
#include "callbacks.hpp"
#include "dims.hpp"
using namespace nvinfer1;
static int failures, compared;
template <class P> int slot_of(P p) {
    // Itanium ABI: the pointer to a virtual method holds its byte offset in the vtable, plus 1 on
    // x86-64; on aarch64 the 1 is in the adjustment.
    long long words[2] = {0, 0};
    std::memcpy(words, &p, sizeof p);
    return int((words[0] & ~1LL) / 8);
}
void expect(char const* key, long long found, long long declared) {
    ++compared;
    if (found != declared) { ++failures; std::printf("%s: header %lld, tables %lld\n", key, found, declared); }
}
"#,
    );
    let (family, _) = family_of(release);
    // Both namespaces have an ErrorCode: each declaration is read where it was written.
    for (namespace, function) in [("nvonnxparser", "parser"), ("nvinfer1", "library")] {
        let _ = writeln!(text, "namespace {namespace} {{ void {function}() {{");
        if function == "library" {
            // Types that a class gives to its own methods only.
            text.push_str("using Severity = ILogger::Severity;\n");
            text.push_str("using ErrorDesc = IErrorRecorder::ErrorDesc;\n");
            text.push_str("using RefCount = IErrorRecorder::RefCount;\n");
        }
        for row in rows().filter(|row| row.release == release) {
            if row.owner.starts_with(namespace) {
                let is_enum = row.kind == "enum";
                text.push_str(&if is_enum { enum_line(&row) } else { method_line(&row) });
            }
        }
        text.push_str("} }\n");
    }
    text.push_str("int main() {\nnvonnxparser::parser();\nnvinfer1::library();\n");
    for class in [
        "Runtime",
        "CudaEngine",
        "ExecutionContext",
        "EngineInspector",
        "HostMemory",
        "Builder",
        "BuilderConfig",
        "TimingCache",
        "NetworkDefinition",
        "OptimizationProfile",
        "Tensor",
    ] {
        let _ = writeln!(
            text,
            "expect(\"mImpl of I{class}\", __builtin_offsetof(I{class}, mImpl), 8);"
        );
    }
    text.push_str("expect(\"mLayer\", __builtin_offsetof(ILayer, mLayer), 8);\n");
    text.push_str("expect(\"Dims\", sizeof(Dims), sizeof(trtdl::Dims64));\n");
    text.push_str(
        "expect(\"Dims.d\", __builtin_offsetof(Dims, d), __builtin_offsetof(trtdl::Dims64, d));\n",
    );
    text.push_str(
        "expect(\"InterfaceInfo\", sizeof(InterfaceInfo), sizeof(trtdl::InterfaceInfo));\n",
    );
    text.push_str(
        "expect(\"InterfaceInfo.major\", __builtin_offsetof(InterfaceInfo, major), 8);\n",
    );
    let logger = if family.is_strongly_typed_only() { "Versioned" } else { "Plain" };
    text.push_str(&callback_lines(release, logger));
    text.push_str("std::printf(\"compared %d\\n\", compared);\nreturn failures != 0;\n}\n");
    text
}

fn enum_line(row: &Row) -> String {
    format!(
        "expect(\"{}\", (long long){}::{}, {});\n",
        row.key, row.owner, row.declaration, row.number
    )
}

fn method_line(row: &Row) -> String {
    // The slot of a destructor cannot be asked for; that of its neighbours shows that it is where
    // it should be.
    let Some((result, name, parameters, qualifier)) = parts(row.declaration) else {
        return String::new();
    };
    let owner = row.owner;
    format!(
        "expect(\"{key}\", slot_of(static_cast<{result} ({owner}::*)({parameters}) \
         {qualifier}>(&{owner}::{name})), {slot});\n",
        key = row.key,
        slot = row.number
    )
}

/// `bool setFlag(BuilderFlag flag) const` → result, name, parameters, `const`.
fn parts(declaration: &str) -> Option<(&str, &str, &str, &str)> {
    let (head, tail) = declaration.split_once('(')?;
    let (result, name) = head.rsplit_once(' ')?;
    let (parameters, qualifier) = tail.rsplit_once(')')?;
    Some((result, name, parameters, qualifier.trim()))
}

/// The shim's own classes must have each method of TensorRT's interface in the same slot.
fn callback_lines(release: &'static str, logger: &str) -> String {
    let classes = [
        ("ILogger", format!("{logger}Logger")),
        ("IProfiler", format!("{logger}Profiler")),
        ("IErrorRecorder", "VersionedRecorder".into()),
        ("IProgressMonitor", "Monitor".into()),
        ("IGpuAllocator", "VersionedAllocator".into()),
    ];
    let mut text = String::new();
    for (interface, class) in classes {
        let methods = rows()
            .filter(|row| row.release == release && row.owner.ends_with(&format!("::{interface}")));
        for row in methods {
            if let Some((_, name, _, _)) = parts(row.declaration) {
                let _ = writeln!(
                    text,
                    "expect(\"{class}::{name}\", slot_of(&trtdl::{class}::{name}), {});",
                    row.number
                );
            }
        }
    }
    text
}
