/*!
The system's ssh with a script on its standard input. Keys, ports, jump hosts: all that is ssh's own
configuration.
*/

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::script::MARKER;

/// Bytes that login scripts may print before the answer.
const MOST_NOISE: usize = 1 << 20;
/// Bytes of a line of the other machine's complaints that are shown together.
const LONGEST_LINE: u64 = 1 << 16;
/// How long a connection may take to end by itself once nothing more is read from it.
const GRACE: Duration = Duration::from_secs(5);
/// How long its complaints are waited for once it has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The program that connects, and its arguments before the machine's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ssh {
    program: OsString,
    arguments: Vec<OsString>,
}

impl Ssh {
    /// From words as a shell would split them: `ssh -p 2222 -C`. `None` without any word, or with
    /// an open quote.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = shlex::split(text)?.into_iter().map(OsString::from);
        Some(Self { program: words.next()?, arguments: words.collect() })
    }

    /// Runs `script` in a POSIX shell on `host`.
    ///
    /// # Errors
    /// The program does not start.
    pub(super) fn run(&self, host: &str, script: &str) -> Result<Connection> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .arg(host)
            .arg("sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| {
                format!(
                    "cannot start {}; install OpenSSH's client or name another with --ssh",
                    self.program.display()
                )
            })?;
        let mut input = child.stdin.take().context("ssh has no input")?;
        // The exit code tells a failed connection.
        if let Err(error) = input.write_all(script.as_bytes()) {
            log::debug!("ssh {host} did not take the script: {error}");
        }
        drop(input);
        let output = child.stdout.take().context("ssh has no output")?;
        let words = child.stderr.take().context("ssh has no standard error")?;
        let words = std::thread::spawn(move || pass_on(words));
        Ok(Connection { child, output, words, host: host.to_owned() })
    }
}

/// Shows what ssh and the other machine complain of, which must not command this terminal.
fn pass_on(words: ChildStderr) {
    let mut words = BufReader::new(words);
    let mut line = Vec::new();
    while words.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).is_ok_and(|read| read > 0)
    {
        eprintln!("{}", String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
        line.clear();
    }
}

/// Reads up to the marker and past it: what stands before it is some login script's.
///
/// # Errors
/// The connection ends before the marker, or there is no end of other things.
pub(super) fn skip_noise(stream: &mut impl BufRead) -> Result<()> {
    let marker = MARKER.as_bytes();
    let mut seen = Vec::new();
    while !seen.ends_with(marker) {
        let mut byte = [0];
        match stream.read_exact(&mut byte) {
            Ok(()) if seen.len() < MOST_NOISE => seen.push(byte[0]),
            Ok(()) => bail!(TooMuch(
                "no archive received: the remote shell printed other output first; silence its login scripts"
            )),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => bail!(
                "the connection ended before the answer began: check that the machine has a POSIX \
                 shell (sh) and its login prints no errors"
            ),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The other machine sends more than it should: nothing more is taken from there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct TooMuch(pub &'static str);

/// A script that runs on another machine.
pub(super) struct Connection {
    child: Child,
    output: ChildStdout,
    words: JoinHandle<()>,
    host: String,
}

impl Connection {
    /// What the script writes.
    pub(super) fn output(&mut self) -> &mut impl Read {
        &mut self.output
    }

    /// Waits for its end; whoever does not end by then is ended.
    ///
    /// # Errors
    /// No connection, or a script that failed.
    pub(super) fn finish(mut self) -> Result<()> {
        // Whatever is left unread must not keep the other side from ending.
        drop(self.output);
        let deadline = Instant::now() + GRACE;
        let status = loop {
            match self.child.try_wait().context("cannot wait for ssh")? {
                Some(status) => break status,
                None if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                None => {
                    self.child.kill().context("cannot end ssh")?;
                    break self.child.wait().context("cannot wait for ssh")?;
                }
            }
        };
        // A connection that ssh keeps open for later ones keeps this pipe open, too.
        let deadline = Instant::now() + LAST_WORDS;
        while !self.words.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        match status.code() {
            Some(0) => Ok(()),
            Some(255) => bail!(
                "cannot connect to {}; its messages are above; test with: ssh {} true",
                self.host,
                self.host
            ),
            _ => bail!("the shell on {} ended with {status}; its messages are above", self.host),
        }
    }
}
