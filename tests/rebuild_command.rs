/*!
The command that a refusal names, typed: on stand-ins for the driver and for TensorRT 8.6 it finds
all plans up to date, as only the very settings that they were built with do.
*/
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};

use runtime::engine::EngineManifest;
use serde_json::Value;

use crate::build_line::fakes;
use crate::support::{copy, segtrt};

/// A place with a bundle of its own, a table of its own and the stand-ins.
struct Yard {
    dir: tempfile::TempDir,
    fakes: &'static Path,
}

impl Yard {
    fn new(graphs: &str) -> Option<Self> {
        let yard = Self { dir: tempfile::tempdir().unwrap(), fakes: fakes()? };
        let bundle = yard.path(&format!("my bundles/edgetam_mini_64_{graphs}"));
        copy(Path::new("tests/data/fused"), &bundle);
        let manifest = fs::read_to_string(bundle.join("manifest.toml")).unwrap();
        let (parts, fp32) =
            (fs::read_to_string("tests/data/cut/parts.toml").unwrap(), "precision = \"fp32\"");
        assert!(manifest.contains(fp32));
        let manifest = manifest.replace(fp32, &format!("precision = \"{graphs}\""));
        fs::write(bundle.join("manifest.toml"), format!("{manifest}\n{parts}")).unwrap();
        for entry in fs::read_dir("tests/data/cut").unwrap().map(Result::unwrap) {
            if entry.path().extension().is_some_and(|kind| kind == "onnx") {
                fs::copy(entry.path(), bundle.join(entry.file_name())).unwrap();
            }
        }
        let table = "[small]\ntitle = \"a small board\"\nsm = 90\nmemory_mb = 4096\nunified = \
                     false\nmodels = [\"edgetam_mini\"]\nprecision = \"fp32\"\nimgsz = \
                     64\nworkspace_mb = 64\ntrack_variant = \"per-fill-level\"\nopt_level = \
                     3\ndevice_names = [\"Small\"]\n";
        fs::write(yard.path("my table.toml"), table).unwrap();
        Some(yard)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self) -> assert_cmd::Command {
        let mut command = segtrt();
        // Not the repository: nothing is found from here by itself.
        command.current_dir(self.dir.path()).env("LD_LIBRARY_PATH", self.fakes);
        command.env("SEGTRT_TENSORRT_LIB", self.fakes);
        command
    }

    fn build(&self, flags: &[&str]) {
        let mut command = self.command();
        command.args(["build-engines", "--platform", "small", "--platforms", "my table.toml"]);
        command.args([
            "--models",
            "edgetam_mini",
            "--onnx-dir",
            "my bundles",
            "--out",
            "my engines",
        ]);
        command.args(flags).assert().success();
    }

    /// The command of the only folder; typed, it would build nothing, and it looks at each of the
    /// folder's plans.
    fn again(&self) -> String {
        let folders = fs::read_dir(self.path("my engines/small")).unwrap();
        let folders: Vec<PathBuf> = folders.map(|entry| entry.unwrap().path()).collect();
        let [folder] = folders.as_slice() else { panic!("{folders:?}") };
        let manifest = EngineManifest::read(folder).unwrap().unwrap();
        let said = manifest.rebuild_command();
        let mut seen = Vec::new();
        for line in said.split(" && ") {
            let words = shlex::split(line).unwrap();
            let mut command = self.command();
            command.args(&words[1..]).args(["--dry-run", "--json"]);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{said}: {}", String::from_utf8_lossy(&output.stderr));
            let found: Value = serde_json::from_slice(&output.stdout).unwrap();
            for plan in found["plans"].as_array().unwrap() {
                assert_eq!(plan["why"], Value::Null, "{said}: {plan}");
                seen.push(plan["role"].as_str().unwrap().to_owned());
            }
        }
        let mut built: Vec<&str> = manifest.plans.iter().map(|plan| plan.role.name()).collect();
        built.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, built, "{said}");
        said
    }
}

#[test]
fn typed_it_builds_the_engines_that_are_there() {
    for (graphs, flags) in [
        ("fp32", &[][..]),
        ("fp32", &["--track-variant", "segmented"]),
        ("fp32", &["--max-objects", "3", "--opt-level", "1", "--workspace-mb", "32"]),
        ("fp32", &["--timing-runs", "2", "--tactic-mb", "100", "--memory-mb", "2000"]),
        (
            "fp16",
            &[
                "--precision",
                "fp16",
                "--fp32-pins",
                "preferred",
                "--library-tactics",
                "--ampere-plus",
            ],
        ),
        ("fp32", &["--precision", "fp16", "--fp32-pins", "none"]),
        ("fp16", &["--precision", "best", "--fp32-pins", "whole", "--track-variant", "segmented"]),
        (
            "fp16",
            &[
                "--precision",
                "fp16",
                "--fp32-graphs",
                "encoder,memory",
                "--fp32-layers",
                "a b,/norm",
            ],
        ),
        (
            "fp16",
            &["--precision", "mixed", "--track-variant", "segmented", "--fp32-pins", "preferred"],
        ),
    ] {
        let Some(yard) = Yard::new(graphs) else { return };
        yard.build(flags);
        let said = yard.again();
        assert!(said.contains("my table.toml") && said.contains("my bundles/"), "{said}");
        // Nothing is said that need not be.
        let usual = [
            "--track-variant",
            "--max-objects",
            "--opt-level",
            "--workspace-mb",
            "--graphs",
            "--fp32-pins",
            "--fp32-graphs",
        ];
        assert!(!flags.is_empty() || usual.iter().all(|flag| !said.contains(flag)), "{said}");
    }
}

#[test]
fn engines_that_took_several_commands_take_several_again() {
    let Some(yard) = Yard::new("fp32") else { return };
    yard.build(&[]);
    // Beside the parts, another form of the track step, and one plan that is built otherwise.
    yard.build(&["--track-variant", "segmented"]);
    yard.build(&["--graphs", "encoder"]);
    yard.build(&["--graphs", "memory", "--opt-level", "5"]);
    let said = yard.again();
    assert_eq!(said.matches("segtrt build-engines").count(), 2, "{said}");
}
