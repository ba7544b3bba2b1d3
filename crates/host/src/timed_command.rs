/*!
Runs a small program for what it prints, but not for ever: `--version` of a tool that hangs must not
hang us.
*/

use std::io::{Error, ErrorKind, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The output of a program.
#[derive(Clone, Debug)]
pub struct Printed {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Printed {
    /// The first line that is not empty, of the output or else of the errors.
    pub fn first_line(&self) -> Option<&str> {
        let lines = self.out.lines().chain(self.err.lines());
        lines.map(str::trim).find(|line| !line.is_empty())
    }
}

/// Runs `command` without input and returns its output.
///
/// # Errors
/// It cannot be started, or it does not end within `patience`; it is stopped then.
pub fn run(command: &mut Command, patience: Duration) -> std::io::Result<Printed> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, err) = match (drain(child.stdout.take()), drain(child.stderr.take())) {
        (Ok(out), Ok(err)) => (out, err),
        (Err(error), _) | (_, Err(error)) => {
            // It may be gone already.
            let _ = child.kill();
            return Err(error);
        }
    };
    let deadline = std::time::Instant::now() + patience;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if std::time::Instant::now() >= deadline {
            // A process that a driver holds cannot be ended.
            if let Err(error) = crate::child::kill_tree(&mut child) {
                log::warn!("{:?}: {error:#}", command.get_program());
            }
            let why = format!("it did not end within {} s", patience.as_secs());
            return Err(Error::new(ErrorKind::TimedOut, why));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // A grandchild that keeps the pipes open must not block this process.
    let text = |from: mpsc::Receiver<Vec<u8>>| {
        let bytes = from.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(Printed { status, out: text(out), err: text(err) })
}

/// Reads a pipe to its end on a thread of its own, so that a full pipe never stops the child.
fn drain<R: Read + Send + 'static>(pipe: Option<R>) -> std::io::Result<mpsc::Receiver<Vec<u8>>> {
    let (send, receive) = mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // The output before an error is kept.
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = send.send(bytes);
    })?;
    Ok(receive)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_pipes_and_the_exit_code_come_back() {
        let printed =
            run(&mut shell("echo; echo out; echo err >&2; exit 3"), Duration::from_secs(20))
                .unwrap();
        assert_eq!((printed.out.as_str(), printed.err.as_str()), ("\nout\n", "err\n"));
        assert_eq!((printed.status.code(), printed.first_line()), (Some(3), Some("out")));
    }

    #[test]
    fn a_program_that_hangs_is_stopped() {
        let started = std::time::Instant::now();
        let error = run(&mut shell("exec sleep 60"), Duration::from_millis(100)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
