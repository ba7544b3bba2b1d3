/*!
This program as a command: workers and steps are this program again.
*/

use std::process::Command;

use anyhow::{Context, Result};

/// Names a command that starts this program's workers and steps, as a shell splits it, for example
/// `qemu-aarch64 -L SYSROOT`. An emulated program needs it: the kernel cannot execute its file.
pub const RUNNER: &str = "SEGTRT_RUNNER";

/// Starts this program again, under [`RUNNER`] if that is set.
///
/// # Errors
/// This program's own file is not found, or the variable is no command.
pub fn again() -> Result<Command> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let Some(runner) = runner() else { return Ok(Command::new(program)) };
    let mut words = words(&runner)?.into_iter();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).arg(program);
    Ok(command)
}

/// The value of [`RUNNER`]; `None` where it is unset or blank.
pub fn runner() -> Option<String> {
    let set = std::env::var_os(RUNNER)?.to_string_lossy().into_owned();
    (!set.trim().is_empty()).then_some(set)
}

fn words(runner: &str) -> Result<Vec<String>> {
    shlex::split(runner).filter(|words| !words.is_empty()).with_context(|| {
        format!(
            "{RUNNER} is {runner:?}; expected a command with its arguments, quoted as for a shell, such as \
             qemu-aarch64 -L SYSROOT"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_split_as_a_shell_does() {
        assert_eq!(words("qemu -L '/a b'").unwrap(), ["qemu", "-L", "/a b"]);
        for wrong in ["qemu 'open", "# nothing"] {
            let error = words(wrong).unwrap_err().to_string();
            assert!(error.starts_with(&format!("SEGTRT_RUNNER is {wrong:?}; expected")), "{error}");
        }
    }
}
