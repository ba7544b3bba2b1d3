/*!
COCO run-length encoding of masks, which is small in JSON and widely readable.

Runs follow the columns and alternate between background and foreground, background first. The
compressed form is pycocotools' string: each count from the fourth on as its difference to the count
two before, in groups of five bits with a continuation bit, offset by 48 into printable ASCII.
*/

use serde::{Deserialize, Serialize};

use crate::mask::Mask;

/// A mask in COCO's JSON form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rle {
    /// Height and width, pixels.
    pub size: [usize; 2],
    /// Run lengths, pixels.
    pub counts: Counts,
}

/// Run lengths in either of COCO's forms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Counts {
    /// Plain numbers.
    Plain(Vec<u64>),
    /// pycocotools' string.
    Compressed(String),
}

/// Why counts are not a mask.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RleError {
    /// The runs do not fill the image exactly.
    #[error("the runs cover {found} pixels, but {height} x {width} pixels make {expected}")]
    Length {
        /// Pixels that the runs cover (saturated).
        found: u64,
        /// Pixels of the image.
        expected: u64,
        /// Height, pixels.
        height: usize,
        /// Width, pixels.
        width: usize,
    },
    /// A byte outside the alphabet of compressed strings, or a string that ends inside a count.
    #[error("the compressed counts are damaged at byte {0}")]
    Damaged(usize),
}

impl Rle {
    /// Encodes with plain counts.
    pub fn plain(mask: &Mask) -> Self {
        Self { size: [mask.height(), mask.width()], counts: Counts::Plain(runs(mask)) }
    }

    /// Encodes with pycocotools' string.
    pub fn compressed(mask: &Mask) -> Self {
        let counts = Counts::Compressed(compress(&runs(mask)));
        Self { size: [mask.height(), mask.width()], counts }
    }

    /// Decodes; fails if the counts are damaged or do not fill the image.
    pub fn to_mask(&self) -> Result<Mask, RleError> {
        let [height, width] = self.size;
        let decompressed;
        let counts = match &self.counts {
            Counts::Plain(counts) => counts,
            Counts::Compressed(text) => {
                decompressed = decompress(text)?;
                &decompressed
            }
        };
        let expected = (height as u64).saturating_mul(width as u64);
        let found = counts.iter().fold(0u64, |sum, &count| sum.saturating_add(count));
        if found != expected {
            return Err(RleError::Length { found, expected, height, width });
        }
        let mut mask = Mask::new(width, height);
        let mut at = 0;
        for (index, &count) in counts.iter().enumerate() {
            let end = at + count as usize;
            if index % 2 == 1 {
                (at..end).for_each(|pixel| mask.set(pixel / height, pixel % height, true));
            }
            at = end;
        }
        Ok(mask)
    }
}

/// Lengths of the runs down the columns, background first.
fn runs(mask: &Mask) -> Vec<u64> {
    let (mut counts, mut length, mut on) = (Vec::new(), 0, false);
    for x in 0..mask.width() {
        for y in 0..mask.height() {
            if mask.get(x, y) != on {
                counts.push(length);
                length = 0;
                on = !on;
            }
            length += 1;
        }
    }
    counts.push(length);
    counts
}

const BITS: u32 = 5;
const CONTINUES: i64 = 1 << BITS;
const SIGN: i64 = CONTINUES >> 1;
const OFFSET: u8 = 48;

fn compress(counts: &[u64]) -> String {
    let mut text = String::new();
    for (index, &count) in counts.iter().enumerate() {
        let before = if index > 2 { counts[index - 2] as i64 } else { 0 };
        let mut rest = count as i64 - before;
        loop {
            let mut group = rest & (CONTINUES - 1);
            rest >>= BITS;
            // Stop when the rest is only the sign, which the group's top bit already has.
            let done = if group & SIGN == 0 { rest == 0 } else { rest == -1 };
            group |= if done { 0 } else { CONTINUES };
            text.push(char::from(group as u8 + OFFSET));
            if done {
                break;
            }
        }
    }
    text
}

fn decompress(text: &str) -> Result<Vec<u64>, RleError> {
    let mut counts: Vec<u64> = Vec::new();
    let (mut value, mut shift) = (0i64, 0u32);
    for (index, byte) in text.bytes().enumerate() {
        let damaged = RleError::Damaged(index);
        let group = byte.checked_sub(OFFSET).filter(|&group| i64::from(group) < 2 * CONTINUES);
        let Some(group) = group.map(i64::from).filter(|_| shift < 60) else { return Err(damaged) };
        value |= (group & (CONTINUES - 1)) << shift;
        shift += BITS;
        if group & CONTINUES != 0 {
            continue;
        }
        if group & SIGN != 0 {
            value |= -1 << shift;
        }
        let before = if counts.len() > 2 { counts[counts.len() - 2] } else { 0 };
        counts.push(before.checked_add_signed(value).ok_or(damaged)?);
        (value, shift) = (0, 0);
    }
    if shift > 0 { Err(RleError::Damaged(text.len())) } else { Ok(counts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_go_down_the_columns() {
        let mask = Mask::from_fn(3, 2, |x, y| x == 1 || (x, y) == (2, 0));
        assert_eq!(Rle::plain(&mask).counts, Counts::Plain(vec![2, 3, 1]));
        let full = Mask::from_fn(2, 2, |_, _| true);
        assert_eq!(Rle::plain(&full).counts, Counts::Plain(vec![0, 4]));
    }

    #[test]
    fn damaged_counts_are_refused() {
        let short = Rle { size: [2, 2], counts: Counts::Plain(vec![1, 2]) };
        assert_eq!(
            short.to_mask().unwrap_err().to_string(),
            "the runs cover 3 pixels, but 2 x 2 pixels make 4"
        );
        let huge = Rle { size: [2, 2], counts: Counts::Plain(vec![u64::MAX, 5]) };
        assert!(matches!(huge.to_mask(), Err(RleError::Length { .. })));
        for (text, at) in [("P", 1), ("1é", 1), ("oooooooooooooo0", 12), ("~", 0), ("/", 0)] {
            let rle = Rle { size: [2, 2], counts: Counts::Compressed(text.into()) };
            assert_eq!(rle.to_mask(), Err(RleError::Damaged(at)), "{text}");
        }
    }
}
