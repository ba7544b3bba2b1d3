/*!
The header of numpy's array files for one kind of array: `<f2`, C order, three dimensions.

Crates for such files support all kinds and depend on a parser generator or a matrix library; this
header is one line of text.
*/

use std::io::Read;

use anyhow::{Context, Result, bail, ensure};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The data begins at a multiple of this.
const ALIGNMENT: usize = 64;
/// Size of magic, version (two bytes) and length (two bytes).
const FIXED: usize = 10;
/// A header of three dimensions has about 80 bytes; a longer one is another kind.
const LONGEST: usize = 4096;

/// The bytes before the data of an array with this shape.
pub(super) fn header(shape: [usize; 3]) -> Result<Vec<u8>> {
    let [a, b, c] = shape;
    let mut text =
        format!("{{'descr': '<f2', 'fortran_order': False, 'shape': ({a}, {b}, {c}), }}");
    // One byte for the final newline.
    let padding = (FIXED + text.len() + 1).next_multiple_of(ALIGNMENT) - (FIXED + text.len() + 1);
    text.push_str(&" ".repeat(padding));
    text.push('\n');
    let length = u16::try_from(text.len()).context("the header is too long")?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend(length.to_le_bytes());
    bytes.extend(text.bytes());
    Ok(bytes)
}

/// Reads a header up to the first byte of the data and returns the shape.
///
/// # Errors
/// It is not a numpy file, or has another kind of array.
pub(super) fn read_header(from: &mut impl Read) -> Result<[usize; 3]> {
    let mut fixed = [0; 8];
    from.read_exact(&mut fixed).context("found less than a header, expected a numpy array file")?;
    ensure!(
        fixed.starts_with(MAGIC),
        "not a numpy array file; expected one that begins with \\x93NUMPY"
    );
    let length = match fixed[6] {
        1 => {
            let mut bytes = [0; 2];
            from.read_exact(&mut bytes).context("its header is truncated")?;
            usize::from(u16::from_le_bytes(bytes))
        }
        2 | 3 => {
            let mut bytes = [0; 4];
            from.read_exact(&mut bytes).context("its header is truncated")?;
            usize::try_from(u32::from_le_bytes(bytes))?
        }
        other => bail!("found version {other} of numpy's format, expected 1, 2 or 3"),
    };
    ensure!(length <= LONGEST, "found a header of {length} bytes, expected at most {LONGEST}");
    let mut text = vec![0; length];
    from.read_exact(&mut text).context("its header is truncated")?;
    shape_of(&String::from_utf8_lossy(&text))
}

/// The shape in a header's dictionary.
fn shape_of(text: &str) -> Result<[usize; 3]> {
    let of = |name: &str| -> Result<&str> {
        let found = text.split_once(&format!("'{name}':")).map(|(_, rest)| rest.trim_start());
        found.with_context(|| format!("its header has no {name}"))
    };
    let kind = of("descr")?;
    ensure!(
        kind.starts_with("'<f2'"),
        "found values of the type {}, expected '<f2' (half precision)",
        kind.split(',').next().unwrap_or_default()
    );
    ensure!(of("fortran_order")?.starts_with("False"), "found Fortran's order, expected C's");
    let shape = of("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (shape, _) = shape.context("its header has no shape")?;
    let extents: Vec<usize> = shape
        .split(',')
        .map(str::trim)
        .filter(|extent| !extent.is_empty())
        .map(|extent| extent.parse().with_context(|| format!("its shape is ({shape})")))
        .collect::<Result<_>>()?;
    extents
        .try_into()
        .map_err(|_| anyhow::anyhow!("found the shape ({shape}), expected [frames, side, side]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_numpys_byte_for_byte() {
        let bytes = header([2, 64, 64]).unwrap();
        // numpy.save of zeros((2, 64, 64), "<f2"), numpy 2.
        let numpys =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<f2', 'fortran_order': False, 'shape': (2, \
                       64, 64), }";
        assert_eq!(bytes.len(), 128);
        assert_eq!(&bytes[..numpys.len()], numpys);
        assert!(bytes[numpys.len()..127].iter().all(|byte| *byte == b' ') && bytes[127] == b'\n');
        for shape in [[0, 1, 1], [2, 64, 64], [12500, 256, 256], [usize::MAX, 1, 7]] {
            let bytes = header(shape).unwrap();
            assert_eq!((read_header(&mut bytes.as_slice()).unwrap(), bytes.len() % 64), (shape, 0));
        }
    }

    #[test]
    fn what_is_no_such_array_is_told_apart() {
        let good = String::from_utf8_lossy(&header([2, 4, 4]).unwrap()[10..]).into_owned();
        let with = |from: &str, to: &str| {
            let text = good.replace(from, to);
            let mut bytes = b"\x93NUMPY\x02\x00".to_vec();
            bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            bytes.extend(text.bytes());
            bytes
        };
        assert_eq!(read_header(&mut with("", "").as_slice()).unwrap(), [2, 4, 4], "version 2");
        for (bytes, said) in [
            (with("<f2", "<f4"), "'<f4', expected '<f2'"),
            (with("False", "True"), "expected C's"),
            (with("(2, 4, 4)", "(2, 4)"), "found the shape (2, 4)"),
            (with("(2, 4, 4)", "(2, -4, 4)"), "its shape is (2, -4, 4)"),
            (with("'shape'", "'form'"), "has no shape"),
            (b"\x93NUM".to_vec(), "less than a header"),
            (b"{\"frames\":[]}".to_vec(), "not a numpy array file"),
            (b"\x93NUMPY\x01\x00\xff\x0fshort".to_vec(), "truncated"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "at most 4096"),
            (b"\x93NUMPY\x09\x00\x00\x00".to_vec(), "version 9"),
        ] {
            let error = format!("{:#}", read_header(&mut bytes.as_slice()).unwrap_err());
            assert!(error.contains(said), "{said:?} is not in {error}");
        }
    }
}
