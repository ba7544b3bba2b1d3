/*!
Asks TensorRT about a plan, in a child process whose death is an answer, too. TensorRT trusts its
input; damaged or foreign bytes have crashed it.
*/

use std::io::Read;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::protocol::{Live, Request};
use host::{child, threads};

/// Longest time that opening one plan may take: large engines load in seconds, a library that hangs
/// never ends.
const PATIENCE: Duration = Duration::from_secs(300);

/// Asks TensorRT about a plan, in a process of its own.
pub fn ask(request: &Request) -> Live {
    run(request).unwrap_or_else(|error| Live::NotOpened { why: format!("{error:#}") })
}

fn run(request: &Request) -> Result<Live> {
    // TensorRT's own lines reach the parent as the cause of an error; the rest would only be noise.
    let (mut child, _input) = child::start_with("inspect-worker", request, &[], Stdio::null())?;
    let printed = output(&mut child)?;
    let status = child.wait().context("cannot wait for the process that opened the plan")?;
    // Libraries write to standard output at times: the answer is the last line.
    let answer = printed.as_deref().and_then(|text| text.lines().next_back());
    match answer.and_then(|line| serde_json::from_str(line).ok()) {
        Some(answer) => Ok(answer),
        None => Ok(Live::NotOpened { why: epitaph(printed.is_some(), status) }),
    }
}

/// What the child printed until it ended; none where it had to be stopped.
fn output(child: &mut Child) -> Result<Option<String>> {
    let mut stdout = child.stdout.take().context("the process has no output")?;
    let (send, receive) = mpsc::channel();
    threads::spawn("answer", move || {
        let mut bytes = Vec::new();
        let read = stdout.read_to_end(&mut bytes);
        // The parent may be gone already; then nobody needs the answer.
        let _ = send.send(read.map(|_| String::from_utf8_lossy(&bytes).into_owned()));
    })?;
    match receive.recv_timeout(PATIENCE) {
        Ok(text) => Ok(Some(text.context("cannot read what the process printed")?)),
        Err(_) => {
            child.kill().context("cannot stop the process that opened the plan")?;
            Ok(None)
        }
    }
}

fn epitaph(ended_itself: bool, status: ExitStatus) -> String {
    if !ended_itself {
        return format!("TensorRT did not open the plan within {} s", PATIENCE.as_secs());
    }
    match child::signal(status) {
        Some(signal) => format!(
            "TensorRT crashed while it opened the plan (signal {signal}): the plan is damaged or \
             was built for another release or GPU"
        ),
        None => format!("the process that opened the plan ended without an answer ({status})"),
    }
}
