/*!
Protobuf's wire format, read from a file field by field: a message is a run of tagged fields, and
what is not wanted is skipped by seeking, so that a file of weights is read in milliseconds.
*/

use std::fs::File;
use std::io::{self, BufReader, Read};

/// Longest name or entry that is believed; anything larger is a damaged file.
const LONGEST_SMALL_FIELD: u64 = 1 << 20;
/// Deepest message inside messages that is believed; subgraphs inside subgraphs are the deepest of
/// real files.
const DEEPEST: u32 = 64;

/// A place in a file.
pub struct Reader {
    file: BufReader<File>,
    at: u64,
    depth: u32,
}

/// One field, its tag read and its content not.
#[derive(Clone, Copy, Debug)]
pub enum Field {
    /// A number.
    Number(u64),
    /// So many bytes: a text, a message, packed numbers or raw data.
    Bytes(u64),
    /// Eight or four bytes, skipped already.
    Other,
}

impl Reader {
    /// A reader at the beginning of a file.
    pub fn new(file: File) -> Self {
        Self { file: BufReader::new(file), at: 0, depth: 0 }
    }

    /// Calls `each` for the fields of a message of `length` bytes; it must consume the field.
    pub fn fields(
        &mut self,
        length: u64,
        mut each: impl FnMut(&mut Self, u64, Field) -> io::Result<()>,
    ) -> io::Result<()> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(damaged("its messages are nested too deep"));
        }
        let end = self.at.saturating_add(length);
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
            if let Field::Bytes(length) = field
                && length > end.saturating_sub(self.at)
            {
                let (left, at) = (end.saturating_sub(self.at), self.at);
                return Err(damaged(&format!(
                    "at byte {at} a field of {length} bytes begins where {left} are left"
                )));
            }
            each(self, tag >> 3, field)?;
        }
        self.depth -= 1;
        if self.at == end { Ok(()) } else { Err(damaged("a field crosses its message's end")) }
    }

    /// A number of variable length.
    fn number(&mut self) -> io::Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.file.read_exact(&mut byte).map_err(cut)?;
            self.at += 1;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged("a number has more than 64 bits"))
    }

    /// A repeated number: one, or a packed run of them.
    pub fn numbers(&mut self, field: Field, into: &mut Vec<u64>) -> io::Result<()> {
        match field {
            Field::Number(number) => into.push(number),
            Field::Bytes(length) if length > LONGEST_SMALL_FIELD => {
                return Err(damaged("a shape is longer than a mebibyte"));
            }
            Field::Bytes(length) => {
                let end = self.at + length;
                while self.at < end {
                    into.push(self.number()?);
                }
                if self.at != end {
                    return Err(damaged("a packed number crosses its field's end"));
                }
            }
            Field::Other => {}
        }
        Ok(())
    }

    /// A text; bytes that are no UTF-8 become replacement characters.
    pub fn text(&mut self, length: u64) -> io::Result<String> {
        if length > LONGEST_SMALL_FIELD {
            return Err(damaged("a name is longer than a mebibyte"));
        }
        let mut bytes = Vec::new();
        self.file.by_ref().take(length).read_to_end(&mut bytes)?;
        self.at += length;
        if bytes.len() as u64 != length {
            return Err(damaged("it ends inside a name"));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Passes over a field's content.
    pub fn skip(&mut self, field: Field) -> io::Result<()> {
        match field {
            Field::Bytes(length) => self.seek(length),
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

/// A file that ends too early is damaged; other errors stay what they are.
fn cut(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it ends inside a number"),
        _ => error,
    }
}

/// The error for bytes that no ONNX file has.
pub fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("truncated or no ONNX file: {what}"))
}
