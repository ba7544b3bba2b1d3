/*!
The script that runs on the other machine. It is POSIX shell on standard input, so the login shell
and its quoting do not matter. It writes no file.

The whole script is one function, because a shell that reads its script from a pipe may otherwise
lose the rest of it to a command that reads as well. Answers are records that end with a zero byte;
before them comes a marker, because login scripts may print something first.
*/

use super::remote::Remote;
use host::shell;

/// What stands before the answer.
pub(super) const MARKER: &str = "\nsegtrt-collect 1\n";

/// Lists the folders that the path means, each with its files and their checksums; see
/// [`super::listing`].
pub(super) fn listing(remote: &Remote) -> String {
    LISTING.replace("@MARKER@", &marker()).replace("@PATH@", &remote.shell_word())
}

/// Packs files of a folder into a tar; names are relative to it.
pub(super) fn packing(folder: &str, names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| shell::word(&format!("./{name}"))).collect();
    format!(
        "main() {{\nunset CDPATH\nLC_ALL=C COPYFILE_DISABLE=1\nexport LC_ALL COPYFILE_DISABLE\n\
         cd -- {} || exit 1\n{}\nprintf '%s\\0' {} | tar -cf - --null -T -\n}}\nmain </dev/null\n",
        shell::word(folder),
        marker(),
        names.join(" ")
    )
}

/// Prints the marker: its line ends are printf's own escapes.
fn marker() -> String {
    format!("printf '{}'", MARKER.replace('\n', "\\n"))
}

/// `sha256sum -z` gives names as they are; without `-z` names with odd characters would come
/// escaped, so each file is hashed on its own then. `shasum` is what macOS has.
const LISTING: &str = r#"main() {
unset CDPATH
LC_ALL=C
export LC_ALL
@MARKER@
if printf x | sha256sum -z >/dev/null 2>&1; then how=zero
elif printf x | sha256sum >/dev/null 2>&1; then how='sha256sum'
elif printf x | shasum -a 256 >/dev/null 2>&1; then how='shasum -a 256'
else how=none
fi
export how
for d in @PATH@; do
  if [ ! -d "$d" ]; then printf 'E%s\0' "$d"; continue; fi
  ( bad=
    cd -- "$d" || { printf 'E%s\0' "$d"; exit; }
    printf 'D%s\0' "$(pwd -P)"
    find . ! -type f ! -type d -exec sh -c 'for f do printf "L%s\0" "$f"; done' sh {} + || bad=1
    case $how in
    zero) find . -type f -exec sha256sum -z -- {} + || bad=1 ;;
    none) find . -type f -exec sh -c 'for f do printf "F%s\0" "$f"; done' sh {} + || bad=1 ;;
    *) find . -type f -exec sh -c 'bad=
      for f do s=$($how <"$f") && printf "%s  %s\0" "${s%% *}" "$f" || bad=1; done
      [ -z "$bad" ]' sh {} + || bad=1 ;;
    esac
    [ -z "$bad" ]
  ) || printf 'X%s\0' "$d"
done
printf 'Z\0'
}
main </dev/null
"#;

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::Path;
    use std::process::{Command, Stdio};

    /// Runs a script as ssh would: on the standard input of a shell, in the home folder.
    fn run(shell: &str, home: &Path, path: Option<&Path>, script: &str) -> Option<Vec<u8>> {
        let mut command = Command::new(shell);
        command.current_dir(home).env("HOME", home).env("CDPATH", "/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(path) = path {
            command.env("PATH", path);
        }
        let mut child = command.spawn().ok()?;
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        Some(child.wait_with_output().unwrap().stdout)
    }

    /// A folder with a file of an odd name, and the listing of it by `shell` with `tools` alone.
    fn records(shell: &str, tools: Option<&[&str]>) -> Option<Vec<String>> {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("my runs/exp_1");
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        std::fs::write(folder.join("deep/it's \\ a\nname"), "abc").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
        let bin = home.path().join("bin");
        if let Some(tools) = tools {
            std::fs::create_dir(&bin).unwrap();
            for tool in tools.iter().chain(&["sh", "find", "pwd"]) {
                let found = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(tool));
                let found = found.iter().find(|path| path.exists())?;
                std::os::unix::fs::symlink(found, bin.join(tool)).unwrap();
            }
        }
        let shell = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(shell));
        let shell = shell.iter().find(|path| path.exists())?;
        let remote: Remote = "h:my runs/exp_*".parse().unwrap();
        let bin = tools.map(|_| bin.as_path());
        let output = run(shell.to_str()?, home.path(), bin, &listing(&remote))?;
        let text = String::from_utf8(output).unwrap();
        let records = text.strip_prefix(MARKER).unwrap().split_terminator('\0');
        let real = home.path().canonicalize().unwrap();
        Some(records.map(|r| r.replace(real.to_str().unwrap(), "~")).collect())
    }

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn every_shell_and_every_hash_program_gives_the_same_listing() {
        let file = format!("{ABC}  ./deep/it's \\ a\nname");
        let expected = ["D~/my runs/exp_1", "L./link", &file, "Z"];
        let mut ran = 0;
        for shell in ["sh", "dash", "bash", "ksh"] {
            match records(shell, None) {
                Some(found) => {
                    assert_eq!(found, expected, "{shell}");
                    ran += 1;
                }
                None => eprintln!("SKIPPED: no {shell} here"),
            }
        }
        assert!(ran > 0);
        match records("sh", Some(&["shasum", "perl"])) {
            Some(found) => assert_eq!(found, expected, "shasum"),
            None => eprintln!("SKIPPED: no shasum here"),
        }
        let without = records("sh", Some(&[])).unwrap();
        assert_eq!(without[2], "F./deep/it's \\ a\nname", "no hash program");
    }

    #[test]
    fn a_pattern_without_match_is_an_error_record() {
        let home = tempfile::tempdir().unwrap();
        let remote: Remote = "h:runs/exp_*".parse().unwrap();
        let output = run("sh", home.path(), None, &listing(&remote)).unwrap();
        assert_eq!(String::from_utf8(output).unwrap(), format!("{MARKER}Eruns/exp_*\0Z\0"));
    }
}
