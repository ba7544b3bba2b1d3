/*!
Formats values as Python does, so that files stay byte-compatible with the Python predecessor.

Covers `repr(float)`, `round(x, n)`, `csv.DictWriter` (QUOTE_MINIMAL, CRLF) and `json.dumps`
strings.
*/

use std::fmt;
use std::io::{self, Write};

/// One CSV field.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// `None`: an empty field.
    Empty,
    /// `str`.
    Text(String),
    /// `int`.
    Integer(i128),
    /// `float`, printed by [`float_repr`].
    Float(f64),
    /// `bool`: `True` or `False`.
    Bool(bool),
}

impl Cell {
    /// `round(value, digits)`, or empty. A value that rounds to zero has no sign, because `-0.0`
    /// suggests a meaning.
    pub fn rounded(value: Option<f64>, digits: usize) -> Self {
        value.map_or(Self::Empty, |value| Self::Float(round(value, digits) + 0.0))
    }

    /// A text, or empty.
    pub fn text(value: Option<&str>) -> Self {
        value.map_or(Self::Empty, |value| Self::Text(value.to_owned()))
    }

    /// A count, or empty.
    pub fn count(value: Option<usize>) -> Self {
        value.map_or(Self::Empty, |value| Self::Integer(value as i128))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => Ok(()),
            Self::Text(text) => f.write_str(text),
            Self::Integer(integer) => integer.fmt(f),
            Self::Float(float) => f.write_str(&float_repr(*float)),
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
        }
    }
}

/// Python's `round(value, digits)`: to the nearest decimal of the exact binary value, ties to even.
pub fn round(value: f64, digits: usize) -> f64 {
    if !value.is_finite() {
        return value;
    }
    // Rust also rounds from the exact value with ties to even when it prints a fixed number of
    // decimals.
    format!("{value:.digits$}").parse().unwrap_or(value)
}

/// Python's `repr(value)`: shortest digits that read back, always with `.0` or an exponent.
pub fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        // Python's float repr uses an exponent outside this range.
        exponent if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{value:?}"),
    }
}

/// Writes one row as `csv.writer` does by default: `,`, quotes only where needed, CRLF.
pub fn write_csv_row(
    out: &mut impl Write,
    fields: impl IntoIterator<Item = impl AsRef<str>>,
) -> io::Result<()> {
    for (index, field) in fields.into_iter().enumerate() {
        let field = field.as_ref();
        if index > 0 {
            out.write_all(b",")?;
        }
        if field.contains([',', '"', '\r', '\n']) {
            write!(out, "\"{}\"", field.replace('"', "\"\""))?;
        } else {
            out.write_all(field.as_bytes())?;
        }
    }
    out.write_all(b"\r\n")
}

/// A string as `json.dumps` writes it: everything outside ASCII as `\uXXXX`.
pub fn json_string(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_rounds_to_nothing_has_no_sign() {
        assert_eq!(Cell::rounded(Some(-0.000_01), 4).to_string(), "0.0");
        assert_eq!(Cell::rounded(Some(-0.01), 1).to_string(), "0.0");
        assert_eq!(Cell::rounded(Some(-0.06), 1).to_string(), "-0.1");
    }

    #[test]
    fn floats_print_as_python_prints_them() {
        for (value, expected) in [
            (2016.0, "2016.0"),
            (3.3, "3.3"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (1e16, "1e+16"),
            (1.25e22, "1.25e+22"),
            (1e100, "1e+100"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
            (-0.0, "-0.0"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(float_repr(value), expected);
        }
    }

    #[test]
    fn cells_print_as_python_prints_them() {
        let cells = [Cell::Empty, Cell::Bool(true), Cell::Bool(false), Cell::count(Some(7))];
        assert_eq!(cells.map(|cell| cell.to_string()), ["", "True", "False", "7"]);
        assert_eq!(Cell::rounded(Some(303.004), 2).to_string(), "303.0");
        assert_eq!(Cell::rounded(None, 2), Cell::Empty);
    }

    #[test]
    fn rounding_is_half_even_on_the_exact_value() {
        assert_eq!(round(0.125, 2), 0.12);
        assert_eq!(round(0.375, 2), 0.38);
        assert_eq!(round(2.675, 2), 2.67);
        assert_eq!(round(0.25, 1), 0.2);
        assert_eq!(round(-0.001, 2).to_bits(), (-0.0f64).to_bits());
    }

    #[test]
    fn json_escapes_beyond_the_basic_plane_as_surrogates() {
        assert_eq!(json_string("a\"\\\n\u{7f}é😀"), r#""a\"\\\n\u007f\u00e9\ud83d\ude00""#);
    }

    proptest! {
        #[test]
        fn a_printed_float_reads_back(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
            prop_assert_eq!(float_repr(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }

        #[test]
        fn a_written_row_reads_back(mut fields in prop::collection::vec(".*", 2..6)) {
            // The reader drops a byte-order mark at the start; a file begins with a header.
            fields[0].insert(0, 'v');
            let mut bytes = Vec::new();
            write_csv_row(&mut bytes, &fields).unwrap();
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&bytes[..]);
            let row = reader.records().next().unwrap().unwrap();
            prop_assert_eq!(row.iter().collect::<Vec<_>>(), fields);
        }
    }
}
