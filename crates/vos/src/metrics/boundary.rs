/*!
The two definitions of a mask's boundary, each a few shifts and XORs for 64 pixels.
*/

use crate::mask::Mask;

/// Boundary of the predecessor: 3 × 3 dilation minus 3 × 3 erosion, about two pixels thick.
///
/// OpenCV's default border is neutral in both, so the image's edge is not a boundary.
pub(super) fn gradient(mask: &Mask) -> Mask {
    let (width, height) = (mask.width(), mask.height());
    let mut out = Mask::new(width, height);
    let (mut any, mut all) = (EdgedRow::new(width), EdgedRow::new(width));
    for y in 0..height {
        // A missing neighbour repeats its row or pixel: neutral for OR as for AND.
        let above = mask.row(y.saturating_sub(1));
        let here = mask.row(y);
        let below = mask.row((y + 1).min(height - 1));
        let rows = || above.iter().zip(here).zip(below);
        any.fill(rows().map(|((above, here), below)| above | here | below));
        all.fill(rows().map(|((above, here), below)| above & here & below));
        let row = out.row_mut(y);
        for ((out, any), all) in row.iter_mut().zip(any.words.windows(3)).zip(all.words.windows(3))
        {
            let wide = any[1] | from_left(any) | from_right(any);
            let narrow = all[1] & from_left(all) & from_right(all);
            *out = wide & !narrow;
        }
        clear_past(width, row);
    }
    out
}

/// Boundary of DAVIS 2017 and SA-V: a pixel that differs from its right, lower or lower-right
/// neighbour. In the last row only the right one counts, in the last column only the lower one, and
/// the last pixel is never a boundary.
///
/// Rules of `seg2bmap` (D. Martin, 2003) as `sav_benchmark.py` applies them.
pub(super) fn half_pixel(mask: &Mask) -> Mask {
    let (width, height) = (mask.width(), mask.height());
    let mut out = Mask::new(width, height);
    let (mut here, mut below) = (EdgedRow::new(width), EdgedRow::new(width));
    for y in 0..height {
        // Beyond the last row and column the last ones repeat, so they add no difference.
        here.fill(mask.row(y).iter().copied());
        below.fill(mask.row((y + 1).min(height - 1)).iter().copied());
        let row = out.row_mut(y);
        for ((out, h), b) in row.iter_mut().zip(here.words.windows(3)).zip(below.words.windows(3)) {
            *out = (h[1] ^ from_right(h)) | (h[1] ^ b[1]) | (h[1] ^ from_right(b));
        }
        clear_past(width, row);
    }
    out
}

/// A row between two further words, with its first and last pixel repeated beyond its ends, so that
/// no word is a special case.
struct EdgedRow {
    words: Vec<u64>,
    width: usize,
}

impl EdgedRow {
    fn new(width: usize) -> Self {
        Self { words: vec![0; width.div_ceil(64) + 2], width }
    }

    fn fill(&mut self, row: impl Iterator<Item = u64>) {
        let end = self.words.len() - 1;
        self.words[1..end].iter_mut().zip(row).for_each(|(to, word)| *to = word);
        self.words[0] = self.words[1] << 63;
        let last = self.words[1 + (self.width - 1) / 64] >> ((self.width - 1) % 64) & 1;
        self.words[end] = 0;
        self.words[1 + self.width / 64] |= last << (self.width % 64);
    }
}

/// The middle one of three words, with each bit replaced by its left neighbour.
fn from_left(words: &[u64]) -> u64 {
    words[1] << 1 | words[0] >> 63
}

/// The middle one of three words, with each bit replaced by its right neighbour.
fn from_right(words: &[u64]) -> u64 {
    words[1] >> 1 | words[2] << 63
}

/// Clears the bits of a row past its width.
fn clear_past(width: usize, row: &mut [u64]) {
    if let (Some(last), 1..) = (row.last_mut(), width % 64) {
        *last &= (1 << (width % 64)) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_mask_has_no_boundary() {
        for (width, height) in [(1, 1), (64, 3), (65, 2), (7, 1), (128, 9)] {
            let full = Mask::from_fn(width, height, |_, _| true);
            assert!(gradient(&full).is_empty());
            assert!(half_pixel(&full).is_empty());
        }
    }

    #[test]
    fn one_pixel_has_a_square_gradient_and_three_half_pixel_neighbours() {
        let mut mask = Mask::new(5, 5);
        mask.set(2, 2, true);
        assert_eq!(gradient(&mask).area(), 9);
        let found: Vec<_> = half_pixel(&mask).pixels().collect();
        assert_eq!(found, [(1, 1), (2, 1), (1, 2), (2, 2)]);
    }
}
