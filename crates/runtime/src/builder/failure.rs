/*!
Why a build failed, sorted by what the user can do about it.
*/

use super::job::FailureKind;

/// A build that failed.
#[derive(Debug)]
pub struct Failure {
    /// What the program makes of it.
    pub kind: FailureKind,
    /// Why, with its causes.
    pub error: anyhow::Error,
}

impl Failure {
    /// A failure that is nobody's kind.
    pub fn other(error: impl Into<anyhow::Error>) -> Self {
        Self { kind: FailureKind::Other, error: error.into() }
    }

    /// A plan of `what` for which TensorRT makes no execution context.
    pub fn unusable(error: tensorrt::Error, what: &str) -> Self {
        let kind = match error.is_out_of_memory() {
            true => FailureKind::OutOfMemory,
            false => FailureKind::Unusable,
        };
        let error = anyhow::Error::new(error);
        Self { kind, error: error.context(format!("TensorRT cannot run its own plan of {what}")) }
    }
}

impl From<tensorrt::Error> for Failure {
    fn from(error: tensorrt::Error) -> Self {
        let kind = match &error {
            tensorrt::Error::Parse { .. } if !error.is_out_of_memory() => FailureKind::Graph,
            error if lacks_workspace(error) => FailureKind::WorkspaceTooSmall,
            error if error.is_out_of_memory() => FailureKind::OutOfMemory,
            _ => FailureKind::Other,
        };
        Self { kind, error: error.into() }
    }
}

/// TensorRT found no implementation under the cap. 8.6.0 gives no reason with it: seen for graphs
/// that build under a larger cap.
fn lacks_workspace(error: &tensorrt::Error) -> bool {
    let tensorrt::Error::Failed { cause, .. } = error else { return false };
    cause.0.iter().any(|line| {
        let text = line.text.to_ascii_lowercase();
        ["could not find any implementation", "insufficient workspace", "increase the workspace"]
            .iter()
            .any(|words| text.contains(words))
    })
}

impl FailureKind {
    /// Another process would fail in the same way. For other failures, [`Self::Unusable`] among
    /// them, an earlier build of the process may be the cause: memory that TensorRT keeps, or a CUDA
    /// context after an error.
    pub fn is_of_the_job(self) -> bool {
        matches!(self, Self::Graph | Self::Disk | Self::Stopped)
    }

    /// The process that reported it may build other plans: the parser refused a file, a file could
    /// not be written, or TensorRT ended its search in good order. After failed allocations, CUDA
    /// errors and unknown failures the state of the process is undefined.
    pub fn leaves_the_process_sound(self) -> bool {
        matches!(self, Self::Graph | Self::Disk | Self::WorkspaceTooSmall)
    }

    /// What to try next, as a phrase; `workspace_mib` is the cap that failed.
    pub fn advice(self, workspace_mib: u64) -> String {
        match self {
            Self::OutOfMemory => format!(
                "try --workspace-mb {} or --opt-level 2, and end other programs on the GPU",
                (workspace_mib / 2).max(16)
            ),
            Self::WorkspaceTooSmall => format!(
                "nothing fits under a workspace of {workspace_mib} MiB: try --workspace-mb {} or \
                 {}, or sweep caps with --sweep-workspace",
                workspace_mib * 2,
                workspace_mib * 4
            ),
            Self::Graph => {
                "export the graph again with this version's onnx/export.py, which writes opset 17"
                    .to_owned()
            }
            Self::Unusable => {
                "build it with another --opt-level; if memory is short, end other programs on the \
                 GPU"
                .to_owned()
            }
            Self::Disk => "check that the directory is writable and has that much space, or name \
                           another with --out"
                .to_owned(),
            Self::Died => format!(
                "the log says what it did last (--build-log DIR); a lack of memory is the usual reason: try \
                 --workspace-mb {} or --opt-level 2",
                (workspace_mib / 2).max(16)
            ),
            Self::Stopped => "run the command again: what is built is kept".to_owned(),
            Self::Other => "the log says more (--build-log DIR)".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(line: &str) -> FailureKind {
        let line = tensorrt::LogLine {
            severity: tensorrt::Severity::Error,
            code: None,
            text: line.to_owned(),
        };
        let cause = tensorrt::Cause(vec![line]);
        let version = tensorrt::Version::from_raw(8600);
        Failure::from(tensorrt::Error::Failed { what: "build it".to_owned(), version, cause }).kind
    }

    /// The lines as 8.6.0 wrote them on an H200.
    #[test]
    fn what_tensorrt_logs_tells_a_small_cap_from_a_lack_of_memory() {
        let small = "[optimizer.cpp::computeCosts::3873] Error Code 10: Internal Error (Could not find any \
                     implementation for node {ForeignNode[a...b]}.)";
        assert_eq!(failed(small), FailureKind::WorkspaceTooSmall);
        let full = "[globWriter.cpp::HybridGlobWriter::397] Error Code 2: OutOfMemory (no further \
                    information)";
        assert_eq!(failed(full), FailureKind::OutOfMemory);
        assert_eq!(failed("Error Code 4: something else"), FailureKind::Other);
    }

    #[test]
    fn a_file_that_memory_was_too_small_to_parse_is_no_bad_graph() {
        let parse = |text: &str| {
            let line = tensorrt::LogLine {
                severity: tensorrt::Severity::Error,
                code: None,
                text: text.to_owned(),
            };
            let error = tensorrt::Error::Parse {
                file: "track.onnx".into(),
                version: tensorrt::Version::from_raw(8600),
                opset: None,
                nodes: Vec::new(),
                cause: tensorrt::Cause(vec![line]),
            };
            Failure::from(error).kind
        };
        assert_eq!(parse("std::bad_alloc"), FailureKind::OutOfMemory);
        assert_eq!(parse("No importer registered for op"), FailureKind::Graph);
    }

    #[test]
    fn a_lack_of_memory_asks_for_less_and_a_lack_of_workspace_for_more() {
        assert!(FailureKind::OutOfMemory.advice(256).contains("--workspace-mb 128"));
        let more = FailureKind::WorkspaceTooSmall.advice(256);
        assert!(more.contains("--workspace-mb 512 or 1024"), "{more}");
    }
}
