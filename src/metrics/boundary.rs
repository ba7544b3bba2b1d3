/*!
The two notions of a mask's boundary, each a handful of shifts and XORs per 64 pixels.
*/

use crate::mask::Mask;

/// Boundary of the predecessor: 3 × 3 dilation minus 3 × 3 erosion, about two pixels thick.
///
/// OpenCV's default border takes no part in either, so the image's edge is not a boundary.
pub(super) fn gradient(mask: &Mask) -> Mask {
    let (width, height) = (mask.width(), mask.height());
    let mut out = Mask::new(width, height);
    for y in 0..height {
        let above = mask.row(y.saturating_sub(1));
        let here = mask.row(y);
        let below = mask.row((y + 1).min(height - 1));
        // A missing neighbour repeats its row or pixel: neutral for OR as for AND.
        let any = |i: usize| above[i] | here[i] | below[i];
        let all = |i: usize| above[i] & here[i] & below[i];
        for (i, out) in out.row_mut(y).iter_mut().enumerate() {
            let valid = valid_bits(width, i);
            let wide = any(i) | from_left(any, i) | from_right(any, i, width);
            let narrow = all(i) & from_left(all, i) & from_right(all, i, width);
            *out = wide & !narrow & valid;
        }
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
    for y in 0..height {
        let last_row = y + 1 == height;
        let here = mask.row(y);
        let below = mask.row(if last_row { y } else { y + 1 });
        for (i, out) in out.row_mut(y).iter_mut().enumerate() {
            let right = from_right(|i| here[i], i, width);
            let mut differs = here[i] ^ right;
            if !last_row {
                differs |= here[i] ^ below[i];
                let diagonal = from_right(|i| below[i], i, width);
                // In the last column the repeated pixel makes this the lower neighbour again.
                differs |= here[i] ^ diagonal;
            }
            *out = differs & valid_bits(width, i);
        }
    }
    out
}

/// The bits of word `index` that are pixels of a row of `width`.
fn valid_bits(width: usize, index: usize) -> u64 {
    match width - (index * 64).min(width) {
        64.. => u64::MAX,
        used => (1 << used) - 1,
    }
}

/// Word `i` of a row moved right by one pixel, so that each bit shows its left neighbour; the first
/// pixel shows itself.
fn from_left(word: impl Fn(usize) -> u64, i: usize) -> u64 {
    let carry = if i == 0 { word(0) & 1 } else { word(i - 1) >> 63 };
    word(i) << 1 | carry
}

/// Word `i` of a row moved left by one pixel, so that each bit shows its right neighbour; the last
/// pixel shows itself.
fn from_right(word: impl Fn(usize) -> u64, i: usize, width: usize) -> u64 {
    let last = width - 1;
    let carry = if (i + 1) * 64 < width { word(i + 1) << 63 } else { 0 };
    let own = if i == last / 64 { word(i) & 1 << (last % 64) } else { 0 };
    word(i) >> 1 | carry | own
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
