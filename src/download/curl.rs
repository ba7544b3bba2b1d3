/*!
One HTTP transfer by the program `curl`.

A client crate with TLS adds 2.3 MB to the program (ureq 3.5 with rustls and ring, measured), which
is close to its limit. curl is on most systems, and takes proxies, certificates and logins from
where the system has them.
*/

use std::io::Read;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tempfile::NamedTempFile;

use super::answer::Answer;
use super::failure::Failure;

/// Seconds to connect.
const CONNECT_S: &str = "20";
/// Bytes a second; a slower transfer stalls.
const SLOWEST: &str = "1024";
/// Most bytes of an index page.
const MOST_TEXT: usize = 64 << 20;

/// A running transfer.
pub(super) struct Transfer {
    child: Child,
    out: ChildStdout,
    head: NamedTempFile,
    errors: NamedTempFile,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were read with the head and not given yet.
    waiting: usize,
}

impl Transfer {
    /// Starts one at the byte `from`.
    pub(super) fn start(url: &str, from: u64, stall: Duration) -> Result<Self, Failure> {
        let temporary = || NamedTempFile::new().map_err(Failure::of_disk);
        let (head, errors) = (temporary()?, temporary()?);
        let told = errors.reopen().map_err(Failure::of_disk)?;
        let mut command = Command::new("curl");
        command.args(["--location", "--fail", "--silent", "--show-error", "--globoff"]);
        command.args(["--proto", "=http,https", "--max-redirs", "10"]);
        command.args(["--connect-timeout", CONNECT_S, "--speed-limit", SLOWEST]);
        command.args(["--speed-time", &stall.as_secs().max(1).to_string()]);
        command.args(["--user-agent", concat!("segtrt/", env!("CARGO_PKG_VERSION"))]);
        if from > 0 {
            command.args(["--range", &format!("{from}-")]);
        }
        command.arg("--dump-header").arg(head.path()).args(["--output", "-", "--url", url]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(told).spawn();
        let mut child = child.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Failure::NoCurl,
            _ => Failure::Cut(format!("curl cannot be started: {error}")),
        })?;
        let Some(out) = child.stdout.take() else {
            return Err(Failure::Cut("curl has no output".to_owned()));
        };
        Ok(Self { child, out, head, errors, buffer: vec![0; 1 << 18], waiting: 0 })
    }

    /// Waits for the first bytes, and returns the head before them.
    pub(super) fn answer(&mut self) -> Result<Option<Answer>, Failure> {
        self.waiting = self.read()?;
        Ok(self.head())
    }

    fn head(&self) -> Option<Answer> {
        let text = std::fs::read(self.head.path()).unwrap_or_default();
        Answer::parse(&String::from_utf8_lossy(&text))
    }

    fn read(&mut self) -> Result<usize, Failure> {
        self.out.read(&mut self.buffer).map_err(|error| Failure::Cut(error.to_string()))
    }

    /// The next bytes; `None` at the end of the answer.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        let read = match std::mem::take(&mut self.waiting) {
            0 => self.read()?,
            waiting => waiting,
        };
        Ok((read > 0).then(|| &self.buffer[..read]))
    }

    /// How it ended.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        let status = self.child.wait().map_err(|error| Failure::Cut(error.to_string()))?;
        let status_line = self.head().map(|answer| answer.status);
        let told = std::fs::read_to_string(self.errors.path()).unwrap_or_default();
        // "curl: (6) Could not resolve host: x"
        let told = told.lines().last().unwrap_or_default();
        let told = told.split_once(") ").map_or(told, |(_, told)| told).to_owned();
        // Numbers of the manual, "EXIT CODES".
        Err(match status.code() {
            Some(0) => return Ok(()),
            Some(5) => Failure::Unreachable(told),
            Some(6 | 7) => Failure::Unreachable(told),
            Some(22) => Failure::Status(status_line.unwrap_or_default()),
            Some(28) if status_line.is_none() && told.contains("onnect") => {
                Failure::Unreachable(told)
            }
            Some(28) => Failure::Stalled,
            Some(1 | 3 | 47) => Failure::Address(told),
            Some(35 | 51 | 53 | 54 | 58 | 59 | 60 | 66 | 77 | 80 | 82 | 83 | 90 | 91) => {
                Failure::Certificate(told)
            }
            Some(_) => Failure::Cut(told),
            None => Failure::Cut("curl was stopped".to_owned()),
        })
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // It has ended already, or nobody wants the rest.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A small page as text.
///
/// # Errors
/// A phrase that says why it does not come.
pub fn text(url: &str, stall: Duration) -> Result<String, String> {
    let all = || -> Result<Vec<u8>, Failure> {
        let mut transfer = Transfer::start(url, 0, stall)?;
        let mut all = Vec::new();
        while let Some(bytes) = transfer.next()? {
            all.extend_from_slice(bytes);
            if all.len() > MOST_TEXT {
                return Err(Failure::Longer(MOST_TEXT as u64));
            }
        }
        transfer.end()?;
        Ok(all)
    };
    let bytes = all().map_err(|failure| format!("{failure}{}", failure.advice()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
