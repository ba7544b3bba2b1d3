/*!
The system's ssh with a script on its standard input. Keys, ports, jump hosts: all that is ssh's own configuration.
*/

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

/// The program that connects, and its arguments before the machine's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ssh {
    program: OsString,
    arguments: Vec<OsString>,
}

impl Ssh {
    /// From words as a shell would split them: `ssh -p 2222 -C`. `None` without any word, or with an open quote.
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
            .spawn()
            .with_context(|| {
                format!(
                    "cannot start {}; install OpenSSH's client or name another with --ssh",
                    self.program.display()
                )
            })?;
        let mut input = child.stdin.take().context("ssh has no input")?;
        // A connection that fails is told by its exit code.
        if let Err(error) = input.write_all(script.as_bytes()) {
            log::debug!("ssh {host} did not take the script: {error}");
        }
        drop(input);
        let output = child.stdout.take().context("ssh has no output")?;
        Ok(Connection { child, output, host: host.to_owned() })
    }
}

/// A script that runs on another machine.
pub(super) struct Connection {
    child: Child,
    output: ChildStdout,
    host: String,
}

impl Connection {
    /// What the script writes.
    pub(super) fn output(&mut self) -> &mut impl Read {
        &mut self.output
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// No connection, or a script that failed.
    pub(super) fn finish(mut self) -> Result<()> {
        // Whatever is left unread must not keep the other side from ending.
        drop(self.output);
        let status = self.child.wait().context("cannot wait for ssh")?;
        match status.code() {
            Some(0) => Ok(()),
            Some(255) => bail!(
                "no connection to {}; its words are above. Try: ssh {} true",
                self.host,
                self.host
            ),
            _ => bail!("the shell on {} ended with {status}; its words are above", self.host),
        }
    }
}
