/*!
Errors of TensorRT, as sentences that name the finding, the expectation and the next step.
*/

use std::fmt;
use std::path::PathBuf;

use super::find::{Naming, Searched};
use super::loader_errors::{hint, how_to_get};
use super::log::LogLine;
use super::version::{SUPPORTED, Version};

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call of TensorRT failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No library anywhere.
    #[error("{0}")]
    NotFound(Searched),
    /// A file that exists, but does not open or is no TensorRT.
    #[error("cannot open {} as TensorRT: {why}; {}", path.display(), hint(path, why))]
    Open {
        /// The file.
        path: PathBuf,
        /// The loader's message, or the missing symbol.
        why: String,
    },
    /// A release whose vtables are not known.
    #[error(
        "{} is {version} (it reports {raw}), which this program does not know; supported: {SUPPORTED}; \
         name another directory with {naming}", path.display()
    )]
    UnknownVersion {
        /// The library.
        path: PathBuf,
        /// What its number says.
        version: Version,
        /// The number.
        raw: i32,
        /// How the user names a directory.
        naming: Naming,
    },
    /// The ONNX parser exists, but a library that it is linked with does not.
    #[error(
        "{version} was found at {}, and its ONNX parser {name}, but not {needed}, which that \
         parser needs; {}",
        path.display(), how_to_get(needed)
    )]
    ParserNeeds {
        /// The opened TensorRT.
        path: PathBuf,
        /// Its release.
        version: Version,
        /// The parser's file name.
        name: &'static str,
        /// The file name of the library that is missing.
        needed: String,
    },
    /// The ONNX parser's library is missing or does not open.
    #[error(
        "{version} was found at {}, but its ONNX parser was not: {why}; install {package}, \
         or put {name} beside it", path.display()
    )]
    ParserMissing {
        /// The opened TensorRT.
        path: PathBuf,
        /// Its release.
        version: Version,
        /// The parser's file name.
        name: &'static str,
        /// The loader's message.
        why: String,
        /// What to install.
        package: &'static str,
    },
    /// The release does not have this.
    #[error("{version} has no {what}")]
    Unsupported {
        /// The missing feature, as a noun.
        what: String,
        /// The opened release.
        version: Version,
    },
    /// The ONNX file cannot be turned into a network.
    #[error(
        "{version} cannot parse {}{}: {}{}",
        file.display(),
        opset_note(*opset),
        listed(nodes),
        layer_norm_note(*version, nodes)
    )]
    Parse {
        /// The ONNX file.
        file: PathBuf,
        /// The opened release.
        version: Version,
        /// The file's opset of the default domain, if it can be read.
        opset: Option<i64>,
        /// One entry per complaint.
        nodes: Vec<NodeError>,
        /// TensorRT's log.
        #[source]
        cause: Cause,
    },
    /// The build was stopped by its [`Stop`](super::Stop).
    #[error("the build of {what} was cancelled")]
    Cancelled {
        /// The network.
        what: String,
    },
    /// Any other refusal of TensorRT.
    #[error("{version} could not {what}")]
    Failed {
        /// The action, as a verb phrase.
        what: String,
        /// The opened release.
        version: Version,
        /// TensorRT's log.
        #[source]
        cause: Cause,
    },
    /// A name with a NUL byte inside.
    #[error("'{}' has a NUL byte inside; TensorRT's names cannot", .0.escape_debug())]
    Nul(String),
}

/// One complaint of the ONNX parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeError {
    /// The node's name, if known.
    pub node: Option<String>,
    /// The node's operator, if known.
    pub operator: Option<String>,
    /// The parser's error code.
    pub code: i32,
    /// The parser's message.
    pub description: String,
}

/// TensorRT's log of a failed call, errors first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause(pub Vec<LogLine>);

impl Error {
    /// Whether TensorRT ran out of memory: of the host, of the device, or under a cap.
    pub fn is_out_of_memory(&self) -> bool {
        let (Self::Failed { cause, .. } | Self::Parse { cause, .. }) = self else { return false };
        cause.0.iter().any(LogLine::is_out_of_memory)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("TensorRT logged no reason");
        }
        for (index, line) in self.0.iter().enumerate() {
            write!(f, "{}{line}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Cause {}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.node, &self.operator) {
            (Some(node), Some(operator)) => write!(f, "node '{node}' ({operator}): ")?,
            (Some(node), None) => write!(f, "node '{node}': ")?,
            (None, Some(operator)) => write!(f, "a {operator} node: ")?,
            (None, None) => {}
        }
        f.write_str(&self.description)
    }
}

fn opset_note(opset: Option<i64>) -> String {
    opset.map_or_else(String::new, |opset| format!(" (opset {opset})"))
}

/// After a complaint of a parser before TensorRT 8.6.
const OLD_PARSER: &str = "; the parser of TensorRT 8.5 (JetPack 5) has no LayerNormalization: \
     use TensorRT 8.6 or newer (JetPack 6)";

/// What to do about a parser that is too old for a node.
fn layer_norm_note(version: Version, nodes: &[NodeError]) -> &'static str {
    let names_it = |node: &NodeError| node.to_string().contains("LayerNormalization");
    match !version.parses_layer_normalization() && nodes.iter().any(names_it) {
        true => OLD_PARSER,
        false => "",
    }
}

fn listed(nodes: &[NodeError]) -> String {
    if nodes.is_empty() {
        return "the parser names no node".to_owned();
    }
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parser_without_layer_normalization_says_what_to_do() {
        let node = |operator: &str| NodeError {
            node: Some("norm".into()),
            operator: Some(operator.into()),
            code: 8,
            description: "Plugin not found".into(),
        };
        let said = |raw, operator| {
            let error = Error::Parse {
                file: "track.onnx".into(),
                version: Version::from_raw(raw),
                opset: Some(17),
                nodes: vec![node(operator)],
                cause: Cause::default(),
            };
            error.to_string()
        };
        assert!(said(8502, "LayerNormalization").ends_with(OLD_PARSER));
        for other in [said(8502, "Erf"), said(8600, "LayerNormalization")] {
            assert!(!other.contains("JetPack"), "{other}");
        }
    }

    #[test]
    fn an_unknown_major_names_what_is_supported() {
        let error = Error::UnknownVersion {
            path: "/lib/libnvinfer.so.12".into(),
            version: Version::from_raw(120_000),
            raw: 120_000,
            naming: Naming { variable: "THE_LIB", flag: Some("--the-lib") },
        };
        assert_eq!(
            error.to_string(),
            "/lib/libnvinfer.so.12 is TensorRT 12.0.0 (it reports 120000), which this program does not know; \
             supported: TensorRT 8.5 and 8.6, 10.x, 11.x, TensorRT for RTX 1.3 and later 1.x; \
             name another directory with --the-lib or THE_LIB"
        );
    }

    #[test]
    fn a_parse_error_names_node_operator_and_opset() {
        let node = NodeError {
            node: Some("/neck/Mean".into()),
            operator: Some("ReduceMean".into()),
            code: 8,
            description: "axes must be an attribute".into(),
        };
        let error = Error::Parse {
            file: "encoder.onnx".into(),
            version: Version::from_raw(8600),
            opset: Some(18),
            nodes: vec![node],
            cause: Cause::default(),
        };
        assert_eq!(
            error.to_string(),
            "TensorRT 8.6.0 cannot parse encoder.onnx (opset 18): node '/neck/Mean' (ReduceMean): \
             axes must be an attribute"
        );
    }
}
