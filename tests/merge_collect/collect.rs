use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;

use crate::support::segtrt;

/// Machines as folders, and a stand-in for ssh that runs its command in the one it is asked for.
struct Lab {
    dir: tempfile::TempDir,
    ssh: PathBuf,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ssh = dir.path().join("ssh");
        let lab = Self { dir, ssh };
        // Prints what login scripts print, and knows no machine without a folder.
        lab.ssh_is("echo Welcome to $host\nexec sh -c \"$*\"");
        lab
    }

    /// Sets what the stand-in does once it is in the machine's home.
    fn ssh_is(&self, body: &str) {
        let machines = self.dir.path().join("machines");
        let script = format!(
            "#!/bin/sh\nhost=$1; shift\nHOME='{}'/$host; export HOME\ncd \"$HOME\" 2>/dev/null || \
             exit 255\n{body}\n",
            machines.display()
        );
        // As a whole: another test may be starting programs at this moment.
        let new = self.dir.path().join("new");
        fs::write(&new, script).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, &self.ssh).unwrap();
    }

    fn file(&self, machine: &str, path: &str, content: &str) {
        let path = self.dir.path().join("machines").join(machine).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("collected results")
    }

    fn collect(&self, sources: &[&str]) -> Command {
        let mut command = segtrt();
        command.arg("collect").args(sources).arg("--out").arg(self.out());
        command.env("SEGTRT_SSH", format!("'{}'", self.ssh.display()));
        command
    }

    fn json(&self, sources: &[&str], code: i32) -> Value {
        let assert = self.collect(sources).arg("--json").assert().code(code);
        serde_json::from_slice(&assert.get_output().stdout).unwrap()
    }

    /// Every file below a folder with its content.
    fn tree(&self, folder: &Path) -> BTreeMap<String, String> {
        fn walk(root: &Path, folder: &Path, into: &mut BTreeMap<String, String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => walk(root, &path, into),
                    false => {
                        let name = path.strip_prefix(root).unwrap().display().to_string();
                        into.insert(name, fs::read_to_string(&path).unwrap());
                    }
                }
            }
        }
        let mut files = BTreeMap::new();
        walk(folder, folder, &mut files);
        files
    }

    fn machines(&self) -> BTreeMap<String, String> {
        self.tree(&self.dir.path().join("machines"))
    }
}

#[test]
fn folders_of_several_machines_come_whole_and_leave_nothing_behind() {
    let lab = Lab::new();
    lab.file("jetson", "my runs/exp_1/profile_outputs/profile_summary.csv", "video\r\nv\r\n");
    lab.file("jetson", "my runs/exp_1/it's $(touch evil) `x`.txt", "odd");
    lab.file("jetson", "my runs/exp_2/-rf", "");
    lab.file("jetson", "my runs/other/no.csv", "no");
    lab.file("me@rack1", "exp_3/a/b/c.json", "{}");
    let before = lab.machines();
    lab.collect(&["jetson:my runs/exp_*", "me@rack1:exp_3"]).assert().success().stdout(
        contains("exp_1").and(contains("exp_2")).and(contains("exp_3")).and(contains("complete")),
    );
    assert_eq!(lab.machines(), before, "something was left there");
    let mut found = lab.tree(&lab.out());
    let manifest: Value = serde_json::from_str(&found.remove("collected.json").unwrap()).unwrap();
    assert_eq!(manifest["folders"]["exp_3"]["host"], "me@rack1");
    assert_eq!(manifest["folders"]["exp_1"]["complete"], true);
    let names: Vec<_> = found.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "exp_1/it's $(touch evil) `x`.txt",
            "exp_1/profile_outputs/profile_summary.csv",
            "exp_2/-rf",
            "exp_3/a/b/c.json"
        ]
    );
    assert_eq!(found["exp_1/profile_outputs/profile_summary.csv"], "video\r\nv\r\n");
}

#[test]
fn what_is_here_is_not_fetched_again_and_what_changed_is() {
    let lab = Lab::new();
    lab.file("a", "exp/one", "1");
    lab.file("a", "exp/two", "2");
    let counts = |document: &Value| {
        ["files", "fetched", "reused"].map(|name| document[0][name].as_u64().unwrap())
    };
    assert_eq!(counts(&lab.json(&["a:exp"], 0)), [2, 2, 0]);
    assert_eq!(counts(&lab.json(&["a:exp"], 0)), [2, 0, 2]);
    lab.file("a", "exp/two", "two");
    lab.file("a", "exp/three", "3");
    fs::write(lab.out().join("exp/one"), "spoilt here").unwrap();
    assert_eq!(counts(&lab.json(&["a:exp/"], 0)), [3, 3, 0]);
    let found = lab.tree(&lab.out().join("exp"));
    assert_eq!(found.into_values().collect::<Vec<_>>(), ["1", "3", "two"]);
}

#[test]
fn a_connection_that_breaks_costs_only_what_had_not_come() {
    let lab = Lab::new();
    let large = "x".repeat(300_000);
    lab.file("a", "exp/1_small", "small");
    lab.file("a", "exp/2_large", &large);
    // The listing is short; the tar is cut.
    lab.ssh_is("sh -c \"$*\" | head -c 100000");
    lab.collect(&["a:exp"]).assert().code(1).stdout(contains("INCOMPLETE")).stderr(
        contains("2_large did not arrive whole").and(contains("repeat the command to continue")),
    );
    assert_eq!(lab.tree(&lab.out().join("exp")).into_keys().collect::<Vec<_>>(), ["1_small"]);
    let manifest: Value =
        serde_json::from_slice(&fs::read(lab.out().join("collected.json")).unwrap()).unwrap();
    assert_eq!(manifest["folders"]["exp"]["complete"], false);

    lab.ssh_is("sh -c \"$*\"");
    let document = lab.json(&["a:exp"], 0);
    assert_eq!((&document[0]["fetched"], &document[0]["reused"]), (&1.into(), &1.into()));
    assert_eq!(lab.tree(&lab.out().join("exp"))["2_large"], large);
}

#[test]
fn a_machine_that_sends_what_was_not_asked_for_is_refused() {
    let lab = Lab::new();
    lab.file("a", "exp/one", "1");
    lab.file("a", "outside", "evil");
    // Lists honestly; instead of the files it packs one from above the folder, under that name.
    lab.ssh_is(
        "script=$(cat)\ncase $script in\n*'tar -cf'*) cd exp; printf '\\nsegtrt-collect \
                1\\n'; tar -P -cf - ../outside one ;;\n*) printf '%s\\n' \"$script\" | sh \
                ;;\nesac",
    );
    lab.collect(&["a:exp"])
        .assert()
        .code(1)
        .stderr(contains("received \"../outside\", which was not asked for"));
    assert!(!lab.out().join("outside").exists() && !lab.dir.path().join("outside").exists());
    assert_eq!(lab.tree(&lab.out()).into_keys().collect::<Vec<_>>(), ["collected.json"]);

    // A file that is not what was listed.
    lab.ssh_is(
        "script=$(cat)\ncase $script in *'tar -cf'*) echo 2 > exp/one ;; esac\nprintf \
                '%s\\n' \"$script\" | sh",
    );
    lab.collect(&["a:exp"]).assert().code(1).stderr(contains("one has another sha256"));
    assert!(!lab.out().join("exp/one").exists());
}

#[test]
fn what_is_missing_or_unreachable_does_not_touch_the_rest() {
    let lab = Lab::new();
    lab.file("a", "exp/one", "1");
    lab.file("a", "file.csv", "1");
    lab.collect(&["a:gone_*", "nowhere:exp", "a:file.csv", "a:exp"])
        .assert()
        .code(1)
        .stderr(contains("Error: a:gone_*: no folder there matches this pattern"))
        .stderr(
            contains("Error: nowhere:exp: cannot connect to nowhere")
                .and(contains("ssh nowhere true")),
        )
        .stderr(contains("Error: a:file.csv: no such folder"))
        .stderr(contains("3 of 4 are incomplete"));
    assert_eq!(fs::read_to_string(lab.out().join("exp/one")).unwrap(), "1");
}

#[test]
fn folders_of_one_name_never_mix() {
    let lab = Lab::new();
    lab.file("a", "exp/x", "from a");
    lab.file("b", "exp/x", "from b");
    lab.collect(&["a:exp", "b:exp"])
        .assert()
        .code(1)
        .stderr(contains("holds files from a:").and(contains("--by-host")));
    assert_eq!(fs::read_to_string(lab.out().join("exp/x")).unwrap(), "from a");
    lab.collect(&["a:exp", "b:exp", "--by-host"]).assert().success();
    assert_eq!(fs::read_to_string(lab.out().join("b/exp/x")).unwrap(), "from b");
    fs::create_dir(lab.out().join("mine")).unwrap();
    lab.file("a", "mine/x", "from a");
    lab.collect(&["a:mine"]).assert().code(1).stderr(contains("was not collected by this command"));
}

#[test]
fn links_are_left_and_a_machine_without_checksums_is_told_of() {
    let lab = Lab::new();
    lab.file("a", "exp/one", "1");
    std::os::unix::fs::symlink("/etc/passwd", lab.dir.path().join("machines/a/exp/link")).unwrap();
    lab.collect(&["a:exp"])
        .assert()
        .success()
        .stderr(contains("1 symbolic links or devices were not fetched"));
    assert!(!lab.out().join("exp/link").exists());

    let bin = lab.dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for tool in ["sh", "find", "tar"] {
        let found = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(tool));
        std::os::unix::fs::symlink(
            found.iter().find(|path| path.exists()).unwrap(),
            bin.join(tool),
        )
        .unwrap();
    }
    lab.ssh_is(&format!("PATH='{}'; export PATH\nsh -c \"$*\"", bin.display()));
    lab.collect(&["a:exp"])
        .assert()
        .success()
        .stdout(contains("not compared"))
        .stderr(contains("neither sha256sum nor shasum"));
}

#[test]
fn bad_places_and_programs_are_told_with_what_was_expected() {
    let lab = Lab::new();
    for (source, why) in [
        ("/data/x", "names no machine"),
        ("-oProxyCommand=touch:/x", "has no name of a machine"),
        ("a:", "names no folder"),
    ] {
        let mut command = segtrt();
        command.args(["collect", "--out"]).arg(lab.out()).args(["--", source]);
        command.assert().code(2).stderr(contains(why).and(contains("expected HOST:PATH")));
    }
    segtrt().arg("collect").assert().code(2);
    lab.collect(&["a:x"])
        .env("SEGTRT_SSH", "'")
        .assert()
        .code(2)
        .stderr(contains("expected a command such as"));
    lab.collect(&["a:x", "--ssh", "no-such-ssh"])
        .assert()
        .code(1)
        .stderr(contains("cannot start no-such-ssh"));
    assert!(!lab.out().join("x").exists());
    // As collect_results.sh took them.
    lab.file("a", "exp/one", "1");
    lab.collect(&["a", "exp"]).assert().success();
}
