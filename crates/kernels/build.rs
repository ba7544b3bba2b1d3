//! Puts the compiled kernels of `cuda/kernels.toml` into the program: their PTX, deflated, and
//! cubins where a CUDA compiler is named. What it writes into `OUT_DIR` is included by
//! `src/images.rs`.

use std::env;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources, PTX and their list.
const FOLDER: &str = "../../cuda";
const LIST: &str = "../../cuda/kernels.toml";
/// What `SEGTRT_CUDA_ARCHS` says unless it is set: Orin, the RTX 30 series, Hopper.
const ARCHITECTURES: &str = "86,87,90";
/// Of zlib's levels: PTX shrinks to a seventh.
const LEVEL: u8 = 9;

/// One module of the list.
struct Module {
    name: String,
    source: String,
    defines: Vec<String>,
    /// "80", or "90a": that very architecture alone.
    architectures: Vec<String>,
}

/// Writes `kernels.rs` and `cubins.rs`.
///
/// # Errors
/// A list or PTX that cannot be read, or a folder that cannot be written.
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=SEGTRT_NVCC");
    println!("cargo:rerun-if-env-changed=SEGTRT_CUDA_ARCHS");
    println!("cargo:rerun-if-changed={FOLDER}");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let modules = listed()?;
    fs::write(out.join("kernels.rs"), table(&modules, &out)?)?;
    fs::write(out.join("cubins.rs"), cubins(&modules, &out))?;
    Ok(())
}

fn listed() -> Result<Vec<Module>, Box<dyn Error>> {
    let text = fs::read_to_string(LIST).map_err(|error| format!("{LIST}: {error}"))?;
    let list: toml::Table = text.parse().map_err(|error| format!("{LIST}: {error}"))?;
    let modules = list.get("module").and_then(toml::Value::as_table);
    let modules = modules.ok_or(format!("{LIST}: no table [module.<name>]"))?;
    let read = |(name, module): (&String, &toml::Value)| {
        let missing = |key: &str| format!("{LIST}: the module {name} has no {key}");
        let word = |key| module.get(key).and_then(toml::Value::as_str).ok_or_else(|| missing(key));
        let generation = word("generation")?;
        let generation = list.get("generation").and_then(|all| all.get(generation));
        let architectures = generation.and_then(|one| one.get("architectures"));
        Ok(Module {
            name: name.clone(),
            source: word("source")?.to_owned(),
            defines: words(module.get("defines")),
            architectures: words(Some(architectures.ok_or_else(|| missing("architectures"))?)),
        })
    };
    modules.iter().map(read).collect()
}

fn words(list: Option<&toml::Value>) -> Vec<String> {
    let list = list.and_then(toml::Value::as_array).into_iter().flatten();
    list.filter_map(toml::Value::as_str).map(str::to_owned).collect()
}

/// The enum `Topic`, and matches from a topic to its module and to the constants of its sources.
fn table(modules: &[Module], out: &Path) -> Result<String, Box<dyn Error>> {
    let (mut all, mut arms, mut constants) = (String::new(), String::new(), String::new());
    let (mut variants, mut texts) = (String::new(), String::new());
    for Module { name, source, defines, .. } in modules {
        let path = format!("{FOLDER}/{name}.ptx");
        let ptx = fs::read_to_string(&path).map_err(|error| {
            format!("{path}, which {LIST} lists: {error}; run scripts/kernels.py")
        })?;
        let after = |directive: &str| {
            let found = ptx.lines().find_map(|line| line.strip_prefix(directive)).map(str::trim);
            found.ok_or(format!("{path}: no line {directive}; run scripts/kernels.py"))
        };
        let entries = entries(&ptx).map_err(|error| format!("{path}: {error}"))?;
        let deflated = out.join(format!("{name}.ptx.deflated"));
        fs::write(&deflated, miniz_oxide::deflate::compress_to_vec(ptx.as_bytes(), LEVEL))?;
        let topic = in_rust(name);
        let selected = match &defines[..] {
            [] => String::new(),
            defines => format!(" with {}", defines.join(", ")),
        };
        writeln!(variants, "    /// `cuda/{source}`{selected}")?;
        writeln!(variants, "    {topic},")?;
        writeln!(all, "        Self::{topic},")?;
        writeln!(arms, "            Self::{topic} => &Compiled {{")?;
        writeln!(arms, "                name: {name:?},")?;
        writeln!(arms, "                isa: {:?},", after(".version")?)?;
        writeln!(arms, "                target: {:?},", after(".target")?)?;
        writeln!(arms, "                kernels: &[{entries}],")?;
        writeln!(arms, "            }},")?;
        writeln!(texts, "            Self::{topic} => {{")?;
        writeln!(texts, "                static PTX: &[u8] = include_bytes!({deflated:?});")?;
        writeln!(texts, "                PTX")?;
        writeln!(texts, "            }}")?;
        writeln!(constants, "            Self::{topic} => &[{}],", constants_of(&ptx)?)?;
    }
    let count = modules.len();
    Ok(format!(
        "/// The modules of `cuda/kernels.toml`, by the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {{
{variants}}}

impl Topic {{
    pub(super) const ALL: [Self; {count}] = [
{all}    ];

    const fn compiled(self) -> &'static Compiled {{
        match self {{
{arms}        }}
    }}

    /// The module's PTX, deflated. Statics: of constants the program would hold a copy for each
    /// codegen unit that uses them.
    fn deflated(self) -> &'static [u8] {{
        match self {{
{texts}        }}
    }}

    pub(super) const fn constants(self) -> &'static [(&'static str, u32)] {{
        match self {{
{constants}        }}
    }}
}}
"
    ))
}

/// The constants of a module, which scripts/kernels.py wrote as comments before the PTX:
/// `// IMAGE_TILE = 64`.
fn constants_of(ptx: &str) -> Result<String, Box<dyn Error>> {
    let mut all = String::new();
    for line in ptx.lines().take_while(|line| line.starts_with("//")) {
        if let Some((name, value)) = line.trim_start_matches("// ").split_once(" = ") {
            let value: u32 = value.parse().map_err(|error| format!("{line}: {error}"))?;
            write!(all, "({name:?}, {value}), ")?;
        }
    }
    Ok(all)
}

/// The kernels of a module: name, kinds of the parameters (p: pointer, i: 32-bit integer, f: float,
/// m: tensor map), threads of a block, where the source fixes them, and whether it waits itself for the
/// previous kernel (as a comment for GPUs that have such an instruction: src/dependent.rs).
fn entries(ptx: &str) -> Result<String, String> {
    let mut all = String::new();
    for entry in ptx.split(".visible .entry ").skip(1) {
        let (name, rest) = entry.split_once('(').ok_or("an entry without parameters")?;
        let (parameters, rest) = rest.split_once(")\n").ok_or("parameters without an end")?;
        let mut kinds = String::new();
        for parameter in parameters.lines().filter(|line| line.starts_with(".param")) {
            kinds.push(match parameter {
                line if line.contains(".u64") => 'p',
                line if line.contains(".u32") => 'i',
                line if line.contains(".f32") => 'f',
                line if line.contains(".b8") && line.contains("[128]") => 'm',
                line => return Err(format!("{name} has a parameter of another kind: {line}")),
            });
        }
        let (bounds, body) = rest.split_once('{').ok_or("an entry without a body")?;
        let waits = body.contains("griddepcontrol.wait;");
        let threads = bounds.lines().find_map(|line| line.strip_prefix(".maxntid "));
        let threads = threads.and_then(|line| line.split(',').next());
        let threads = threads.map_or("None".to_owned(), |threads| format!("Some({threads})"));
        all += &format!(
            "Entry {{ name: {name:?}, parameters: {kinds:?}, threads: {threads}, waits: {waits} }}, "
        );
    }
    Ok(all)
}

/// "trunk_hopper": `TrunkHopper`.
fn in_rust(name: &str) -> String {
    let capital = |word: &str| {
        let (first, others) = word.split_at(word.len().min(1));
        first.to_uppercase() + others
    };
    name.split('_').map(capital).collect()
}

/// With `SEGTRT_NVCC` (the path of nvcc): a cubin of every module for every architecture, which the
/// program prefers to its PTX on those very GPUs. Without it an empty list. A compiler that fails
/// costs a warning and its cubins.
fn cubins(modules: &[Module], out: &Path) -> String {
    let mut list = String::from("const CUBINS: &[(u32, &str, &[u8])] = &[\n");
    if let Ok(nvcc) = env::var("SEGTRT_NVCC") {
        let architectures = env::var("SEGTRT_CUDA_ARCHS").unwrap_or_else(|_| ARCHITECTURES.into());
        for architecture in architectures.split(',').map(str::trim) {
            match cubins_for(modules, &nvcc, architecture, out) {
                Ok(lines) => list += &lines,
                Err(problem) => {
                    println!("cargo:warning=no cubins for sm {architecture}: {problem}")
                }
            }
        }
    }
    list + "];\n"
}

/// The lines of the list for one architecture.
fn cubins_for(
    modules: &[Module],
    nvcc: &str,
    architecture: &str,
    out: &Path,
) -> Result<String, String> {
    let sm: u32 = architecture
        .parse()
        .map_err(|_| "SEGTRT_CUDA_ARCHS takes numbers such as 86,87,90".to_owned())?;
    let mut lines = String::new();
    for Module { name, source, defines, architectures } in modules {
        // Hopper's own instructions are for its architecture alone, which has a name of its own.
        let alone = architectures.iter().all(|one| one.ends_with('a'));
        if alone && !architectures.contains(&format!("{sm}a")) {
            continue;
        }
        let to = out.join(format!("{name}.sm{sm}.cubin"));
        let ran = Command::new(nvcc)
            .args(["-cubin", "-O3", "-std=c++17", "-lineinfo"])
            .arg(format!("-arch=sm_{sm}{}", if alone { "a" } else { "" }))
            .args(defines.iter().map(|define| format!("-D{define}")))
            .arg("-o")
            .arg(&to)
            .arg(format!("{FOLDER}/{source}"))
            .output()
            .map_err(|error| format!("{nvcc} (SEGTRT_NVCC) cannot be run: {error}"))?;
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stderr);
            let said: Vec<&str> =
                said.lines().filter(|line| !line.trim().is_empty()).take(3).collect();
            return Err(format!("{nvcc} fails on cuda/{source}: {}", said.join(" | ")));
        }
        let _ = writeln!(lines, "    ({sm}, {name:?}, include_bytes!({to:?})),");
    }
    Ok(lines)
}
