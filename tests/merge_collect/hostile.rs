//! Hosts that send without end, or names that command terminals: what comes of them is an error,
//! soon and in little memory.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::script;

/// What a hostile host is given here at most, bytes: an honest collect takes some 20 MB, an
/// unlimited one all there is.
const MEMORY: u64 = 700 << 20;
/// Its time.
const PATIENCE: Duration = Duration::from_secs(60);

const HASH: &str = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";

struct Host {
    dir: tempfile::TempDir,
    ssh: PathBuf,
}

impl Host {
    /// A stand-in for ssh that answers the listing with `listing` and the request for files with
    /// `files`, both shell.
    fn new(listing: &str, files: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "trap '' PIPE\nscript=$(cat)\ncase $script in\n*'tar -cf'*)\n{files}\n;;\n*)\n{listing}\n;;\nesac"
        );
        let ssh = script(&dir.path().join("ssh"), &text);
        Self { dir, ssh }
    }

    /// The exit code, and all that was said, of a collect that has little memory and time.
    fn collect(&self) -> (Option<i32>, String) {
        let limited = format!("ulimit -v {}; exec \"$@\"", MEMORY / 1024);
        let mut command = Command::new("sh");
        command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_segtrt"), "collect", "--ssh"]);
        command.arg(&self.ssh).arg("host:/x").arg("--out").arg(self.dir.path().join("out"));
        let begun = Instant::now();
        let output = command.output().unwrap();
        let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
        assert!(begun.elapsed() < PATIENCE, "{:?}: {said}", begun.elapsed());
        (output.status.code(), said)
    }

    #[track_caller]
    fn refused(&self, why: &str) {
        let (code, said) = self.collect();
        assert!(code == Some(1) && said.contains(why), "{code:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("memory allocation"), "{said}");
    }
}

const MARKER: &str = r"printf '\nsegtrt-collect 1\n'";

fn listing(records: &str) -> String {
    format!("{MARKER}; printf '{records}Z\\0'")
}

#[test]
fn an_answer_without_end_is_cut_off() {
    let files = format!("{MARKER}; printf 'D/x\\0'; yes '{HASH}  ./f' | tr '\\n' '\\0'");
    Host::new(&files, "").refused("its listing is longer than 64 MiB");
    Host::new("yes Welcome", "").refused("no archive received");
    let honest = listing(&format!("D/x\\0{HASH}  ./f\\0"));
    Host::new(&honest, "yes Welcome").refused("no archive received");
}

#[test]
fn a_host_that_keeps_silent_after_what_is_refused_is_not_waited_for() {
    Host::new("yes Welcome | head -c 2000000; exec sleep 600", "").refused("no archive received");
}

/// Headers of a tar, written by hand: what an honest tar does not write.
#[test]
fn names_and_headers_without_end_are_cut_off() {
    let header = |kind: u8, size: &str| {
        let mut block = [0_u8; 512];
        block[..13].copy_from_slice(b"././@LongLink");
        block[100..107].copy_from_slice(b"0000644");
        block[124..124 + size.len()].copy_from_slice(size.as_bytes());
        block[156] = kind;
        block[257..265].copy_from_slice(b"ustar  \0");
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block
    };
    let honest = listing(&format!("D/x\\0{HASH}  ./f\\0"));
    // A long name of 8 GiB, and general headers that never end.
    for (kind, size, rest) in
        [(b'L', "77777777777", "yes"), (b'g', "00000000000", "while :; do cat \"$0.tar\"; done")]
    {
        let host = Host::new(&honest, &format!("{MARKER}; cat \"$0.tar\"; {rest}"));
        std::fs::write(host.ssh.with_extension("tar"), header(kind, size)).unwrap();
        host.refused("endless names and headers received");
    }
}

#[test]
fn names_from_there_command_no_terminal_here() {
    let evil = r"\033]0;owned\007\033[2J\302\23331m";
    let records = format!("D/a{evil}/x\\0{HASH}  ./f{evil}\\0E/gone{evil}\\0");
    let files = format!("{MARKER}; printf 'Error{evil}\\n' >&2; exit 3");
    let both = format!("printf 'Hello{evil}\\n' >&2\n{}", listing(&records));
    let (code, said) = Host::new(&both, &files).collect();
    assert_eq!(code, Some(1), "{said}");
    assert!(!said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
    for words in [r"/a\u001b]0;owned\u0007", r"/gone\u001b", r"Hello\u001b"] {
        assert!(said.contains(words), "{words} in {said}");
    }
}
