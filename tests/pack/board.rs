//! A platform table for the committed bundle, a pack of it unpacked, and a stand-in for segtrt that
//! writes down how it is called.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{segtrt, small_bundle};

/// A table with one row that the committed bundle satisfies.
pub fn table(dir: &Path, extra: &str) -> PathBuf {
    let path = dir.join("mine.toml");
    let row = format!(
        "[testboard]\ntitle = \"A board's \\\"name\\\" $HOME\"\nsm = 87\nmemory_mb = \
         4096\nunified = true\nmodels = [\"edgetam_mini\"]\nprecision = \"fp32\"\nimgsz = \
         256\nworkspace_mb = 64\ntrack_variant = \"per-fill-level\"\nopt_level = 1\ndevice_names \
         = []\ntegra = true\n{extra}"
    );
    std::fs::write(&path, row).unwrap();
    path
}

/// The command that packs the committed bundle for that row.
pub fn pack(dir: &Path, out: &Path) -> assert_cmd::Command {
    let mut command = segtrt();
    command.args(["pack", "--platform", "testboard", "--platforms"]).arg(table(dir, ""));
    command.arg("--onnx-dir").arg(small_bundle()).arg("--out").arg(out);
    command
}

/// An unpacked pack in a folder with blanks in its name.
pub struct Board {
    dir: tempfile::TempDir,
    /// The folder of the pack.
    pub pack: PathBuf,
}

impl Board {
    /// Packs with further arguments and unpacks.
    pub fn new(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tar = dir.path().join("pack.tar");
        pack(dir.path(), &tar).args(arguments).assert().success();
        let there = dir.path().join("a folder with 'blanks'");
        std::fs::create_dir(&there).unwrap();
        let unpacked =
            Command::new("tar").arg("xf").arg(&tar).current_dir(&there).status().unwrap();
        assert!(unpacked.success());
        Self { pack: there.join("segtrt-pack-testboard"), dir }
    }

    /// Puts a stand-in on the board's PATH.
    pub fn install(&self, version: &str, backends: &str, selftest: bool) {
        let bin = self.dir.path().join("my bin");
        std::fs::create_dir_all(&bin).unwrap();
        self.stand_in(&bin.join("segtrt"), version, backends, selftest);
    }

    /// Writes a stand-in whose bench has `backends`.
    pub fn stand_in(&self, path: &Path, version: &str, backends: &str, selftest: bool) {
        let record = self.record().display().to_string();
        let selftest = if selftest { "" } else { "exit 2" };
        let text = format!(
            r#"#!/bin/sh
case "$1 $2" in
"--version ") echo "segtrt {version}"; exit 0 ;;
"bench --help")
    printf '      --backend <BACKEND>\n          What runs the network\n'
    printf '          Possible values:\n          - {backends}: it\n\n'
    printf '      --ort-provider <P>\n          [possible values: cpu, tensorrt]\n'
    exit 0 ;;
"selftest --help") {selftest}
    printf '      --onnx-dir <DIR>  Graphs\n'
    [ -z "${{WITH_PEAK:-}}" ] || printf '      --peak  Peaks\n'
    exit 0 ;;
esac
{{ for word in "$0" "$@"; do printf '<%s>' "$word"; done; echo; }} >>"{record}"
case $1 in
build-engines) mkdir -p engines/testboard/edgetam_mini_256_fp32
    echo '{{}}' >engines/testboard/edgetam_mini_256_fp32/engine.json
    echo "built"; exit "${{BUILD_STATUS:-0}}" ;;
selftest) {selftest}
    echo "all engines agree" ;;
synth) mkdir -p "$3" ;;
bench) all="$*"; out=${{all#*--out-dir }}; out=${{out%% *}}
    mkdir -p "$out"; echo rows >"$out/summary.csv"; sleep "${{BENCH_S:-0}}" ;;
esac
"#
        );
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Stand-ins for what a Jetson has: nvpmodel, which needs a restart for mode 3, tegrastats, and
    /// sudo.
    pub fn install_jetpack(&self) {
        let mode = self.dir.path().join("mode");
        std::fs::write(&mode, "1\n").unwrap();
        let nvpmodel = format!(
            r#"#!/bin/sh
mode='{}'
case $1 in
-q) echo "NV Power Mode: MODE_$(cat "$mode")"; cat "$mode" ;;
-m) printf '<nvpmodel><%s>\n' "$2" | sed 's/^/<>/' >>'{}'
    [ "$2" = 3 ] && {{ read -r answer; echo "reboot: $answer"; exit 0; }}
    echo "$2" >"$mode" ;;
esac
"#,
            mode.display(),
            self.record().display()
        );
        let tegrastats = "#!/bin/sh\necho 'RAM 1/7620MB'\nexec sleep 60\n";
        let scripts = [
            ("nvpmodel", nvpmodel.as_str()),
            ("tegrastats", tegrastats),
            ("sudo", "#!/bin/sh\nexec \"$@\"\n"),
        ];
        for (name, text) in scripts {
            let path = self.dir.path().join("my bin").join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
    }

    fn record(&self) -> PathBuf {
        self.dir.path().join("calls")
    }

    /// Runs the script from elsewhere.
    pub fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.dir.path().join("my bin").display());
        let mut command = Command::new("sh");
        command.arg(self.pack.join("run.sh")).args(arguments).current_dir("/").env("PATH", path);
        command.env_remove("SEGTRT").envs(environment.iter().copied()).output().unwrap()
    }

    /// What the stand-in was called with, a line a call, without its own path.
    pub fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.record()).unwrap_or_default();
        text.lines().map(|line| line.split_once('>').unwrap().1.to_owned()).collect()
    }

    /// A result file.
    pub fn result(&self, name: &str) -> String {
        std::fs::read_to_string(self.pack.join("results").join(name)).unwrap()
    }
}

/// What a run printed.
pub fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}
