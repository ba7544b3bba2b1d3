/*!
Reads two facts of an ONNX file that TensorRT's parser does not tell: its opset, and the node behind a node number.

Only the fields on the way are read (a protobuf message is a run of tagged fields); weights are skipped by seeking.
Field numbers: onnx.proto3 (`ModelProto.graph` 7, `opset_import` 8; `GraphProto.node` 1; `NodeProto.name` 3,
`op_type` 4; `OperatorSetIdProto.domain` 1, `version` 2).
*/

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Longest name or opset entry that is believed; anything larger is a damaged file.
const LONGEST_SMALL_FIELD: u64 = 1 << 20;

/// A node of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnnxNode {
    /// Its name; exporters may leave it empty.
    pub name: String,
    /// Its operator.
    pub operator: String,
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnnxSummary {
    /// Opset of the default domain.
    pub opset: Option<i64>,
    /// The graph's nodes in file order.
    pub nodes: Vec<OnnxNode>,
}

struct Reader {
    file: BufReader<File>,
    at: u64,
}

enum Field {
    Number(u64),
    Bytes(u64),
    Other,
}

impl OnnxSummary {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read or is no ONNX.
    pub fn read(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut reader = Reader { file: BufReader::new(file), at: 0 };
        let mut summary = Self::default();
        reader.fields(length, |reader, number, field| match (number, field) {
            (7, Field::Bytes(length)) => reader.graph(length, &mut summary.nodes),
            (8, Field::Bytes(length)) => {
                let (domain, version) = reader.opset(length)?;
                if domain.is_empty() || domain == "ai.onnx" {
                    summary.opset = Some(version);
                }
                Ok(())
            }
            (_, field) => reader.skip(&field),
        })?;
        Ok(summary)
    }
}

impl Reader {
    /// Calls `each` for the fields of a message of `length` bytes; it must consume the field.
    fn fields(
        &mut self,
        length: u64,
        mut each: impl FnMut(&mut Self, u64, Field) -> io::Result<()>,
    ) -> io::Result<()> {
        let end = self.at + length;
        while self.at < end {
            let tag = self.number()?;
            let field = match tag & 7 {
                0 => Field::Number(self.number()?),
                2 => Field::Bytes(self.number()?),
                1 => {
                    self.seek(8)?;
                    Field::Other
                }
                5 => {
                    self.seek(4)?;
                    Field::Other
                }
                kind => return Err(damaged(&format!("field kind {kind}"))),
            };
            if matches!(field, Field::Bytes(length) if length > end.saturating_sub(self.at)) {
                return Err(damaged("a field is longer than its message"));
            }
            each(self, tag >> 3, field)?;
        }
        if self.at == end { Ok(()) } else { Err(damaged("a field crosses its message's end")) }
    }

    fn graph(&mut self, length: u64, nodes: &mut Vec<OnnxNode>) -> io::Result<()> {
        self.fields(length, |reader, number, field| match (number, field) {
            (1, Field::Bytes(length)) => {
                let mut node = OnnxNode::default();
                reader.fields(length, |reader, number, field| {
                    match (number, field) {
                        (3, Field::Bytes(length)) => node.name = reader.text(length)?,
                        (4, Field::Bytes(length)) => node.operator = reader.text(length)?,
                        (_, field) => reader.skip(&field)?,
                    }
                    Ok(())
                })?;
                nodes.push(node);
                Ok(())
            }
            (_, field) => reader.skip(&field),
        })
    }

    fn opset(&mut self, length: u64) -> io::Result<(String, i64)> {
        let (mut domain, mut version) = (String::new(), 0);
        self.fields(length, |reader, number, field| {
            match (number, field) {
                (1, Field::Bytes(length)) => domain = reader.text(length)?,
                (2, Field::Number(number)) => version = number.cast_signed(),
                (_, field) => reader.skip(&field)?,
            }
            Ok(())
        })?;
        Ok((domain, version))
    }

    fn number(&mut self) -> io::Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.file.read_exact(&mut byte)?;
            self.at += 1;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged("a number has more than 64 bits"))
    }

    fn text(&mut self, length: u64) -> io::Result<String> {
        if length > LONGEST_SMALL_FIELD {
            return Err(damaged("a name is longer than a mebibyte"));
        }
        let mut bytes = Vec::new();
        self.file.by_ref().take(length).read_to_end(&mut bytes)?;
        self.at += length;
        if bytes.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn skip(&mut self, field: &Field) -> io::Result<()> {
        match field {
            Field::Bytes(length) => self.seek(*length),
            Field::Number(_) | Field::Other => Ok(()),
        }
    }

    fn seek(&mut self, length: u64) -> io::Result<()> {
        let step = i64::try_from(length).map_err(|_| damaged("a field of 2^63 bytes"))?;
        self.file.seek_relative(step)?;
        self.at += length;
        Ok(())
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not an ONNX file: {what}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend(bytes);
        out
    }

    fn read(bytes: &[u8]) -> io::Result<OnnxSummary> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        OnnxSummary::read(file.path())
    }

    fn model() -> Vec<u8> {
        let node = [field(1, b"x"), field(3, b"/mean"), field(4, b"ReduceMean")].concat();
        let graph = [field(1, &node), field(5, &[0; 40]), field(1, &field(4, b"Add"))].concat();
        let custom = [field(1, b"com.x"), vec![2 << 3, 1]].concat();
        [vec![1 << 3, 8], field(7, &graph), field(8, &custom), field(8, &[2 << 3, 17])].concat()
    }

    #[test]
    fn opset_and_nodes_are_found_between_weights() {
        let summary = read(&model()).unwrap();
        assert_eq!(summary.opset, Some(17));
        assert_eq!(summary.nodes[0].name, "/mean");
        assert_eq!(summary.nodes[1], OnnxNode { name: String::new(), operator: "Add".into() });
    }

    #[test]
    fn a_truncated_file_is_an_error() {
        let model = model();
        assert!(read(&model[..model.len() - 1]).is_err());
        assert!(read(b"not a model at all").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_end_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
