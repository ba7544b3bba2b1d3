//! Compiles the shim that calls TensorRT's virtual methods.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    compile_shim();
}

/// Needs a C++17 compiler only: the shim knows TensorRT's interfaces from tables.
fn compile_shim() {
    const DIR: &str = "src/shim";
    println!("cargo:rerun-if-changed={DIR}");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(true)
        // A call through a vtable slot must be the call that is written, whatever the profile.
        .opt_level(2)
        .files(
            ["api", "builder", "network", "runtime", "context"]
                .map(|file| format!("{DIR}/{file}.cpp")),
        )
        .compile("trtdl_shim");
}
