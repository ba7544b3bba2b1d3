/*!
Dilation of bitset masks, 64 pixels at a time.

A symmetric, convex structuring element is given by its half-width at each vertical distance. Each
occupied run of words in a row is widened step by step, from the element's tip to its waist, and
ORed into the rows above and below. The cost is the number of occupied words times the element's
height, so the thin boundaries of the metrics are cheap.
*/

use std::ops::Range;

use crate::mask::Mask;

/// Longest shift that stays within neighbouring words.
const MAX_SHIFT: usize = 63;

/// Half-widths of a (2r+1) × (2r+1) square.
pub fn square(radius: usize) -> Vec<usize> {
    vec![radius; radius + 1]
}

/// Half-widths of the digital disk x² + y² ≤ r².
pub fn disk(radius: usize) -> Vec<usize> {
    (0..=radius).map(|dy| (radius * radius - dy * dy).isqrt()).collect()
}

/// The mask dilated by the element whose half-width `dy` rows from its centre is `half_widths[dy]`.
///
/// Half-widths must not grow with the distance, as those of [`square`] and [`disk`]. Pixels outside
/// the image are background.
pub fn dilate(mask: &Mask, half_widths: &[usize]) -> Mask {
    debug_assert!(half_widths.is_sorted_by(|near, far| near >= far));
    let (width, height) = (mask.width(), mask.height());
    let mut out = Mask::new(width, height);
    // Wider half-widths reach only to the image's edge.
    let reach = half_widths.first().copied().unwrap_or(0).min(width).div_ceil(64);
    let mut widened = Widened::new(mask.words_per_row());
    for y in 0..height {
        let row = mask.row(y);
        let mut start = 0;
        while let Some(words) = next_stretch(row, start, reach) {
            start = words.end;
            widened.start(&row[words.clone()]);
            for (dy, &half_width) in half_widths.iter().enumerate().rev() {
                widened.widen_to(half_width.min(width));
                let above = y.checked_sub(dy);
                let below = Some(y + dy).filter(|&below| dy > 0 && below < height);
                for target in above.into_iter().chain(below) {
                    let target = &mut out.row_mut(target)[words.clone()];
                    target.iter_mut().zip(widened.row()).for_each(|(out, word)| *out |= word);
                }
            }
        }
    }
    clear_past_width(&mut out);
    out
}

/// The next run of words with pixels from `start` on, with `reach` words before and after. Gaps
/// that the widening would close are part of the run.
fn next_stretch(row: &[u64], start: usize, reach: usize) -> Option<Range<usize>> {
    let occupied = |from: usize, to: usize| row[from..to].iter().position(|&word| word != 0);
    let first = start + occupied(start, row.len())?;
    let mut end = first + 1;
    while let Some(gap) = occupied(end, (end + 2 * reach + 1).min(row.len())) {
        end += gap + 1;
    }
    Some(first.saturating_sub(reach)..(end + reach).min(row.len()))
}

fn clear_past_width(mask: &mut Mask) {
    let used = mask.width() % 64;
    if used > 0 {
        for y in 0..mask.height() {
            if let Some(last) = mask.row_mut(y).last_mut() {
                *last &= (1 << used) - 1;
            }
        }
    }
}

/// One row, dilated horizontally by a growing half-width. A zero word before and after it replaces
/// bounds checks in the inner loop.
struct Widened {
    words: Vec<u64>,
    next: Vec<u64>,
    len: usize,
    half_width: usize,
}

impl Widened {
    fn new(words_per_row: usize) -> Self {
        let zeros = vec![0; words_per_row + 2];
        Self { words: zeros.clone(), next: zeros, len: 0, half_width: 0 }
    }

    fn start(&mut self, row: &[u64]) {
        self.len = row.len();
        self.half_width = 0;
        self.words[1..=self.len].copy_from_slice(row);
        self.words[self.len + 1] = 0;
        self.next[self.len + 1] = 0;
    }

    fn row(&self) -> &[u64] {
        &self.words[1..=self.len]
    }

    fn widen_to(&mut self, half_width: usize) {
        while self.half_width < half_width {
            // A longer step than half_width + 1 would leave holes at the image's edge, where the
            // pixels that should fill them were cut off.
            let step = (half_width - self.half_width).min(self.half_width + 1).min(MAX_SHIFT);
            let back = 64 - step;
            for (out, near) in self.next[1..=self.len].iter_mut().zip(self.words.windows(3)) {
                let [left, middle, right] = [near[0], near[1], near[2]];
                let from_left = middle << step | left >> back;
                let from_right = middle >> step | right << back;
                *out = middle | from_left | from_right;
            }
            std::mem::swap(&mut self.words, &mut self.next);
            self.half_width += step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_becomes_the_element() {
        let mut point = Mask::new(9, 9);
        point.set(4, 4, true);
        let grown = dilate(&point, &disk(3));
        let expected = Mask::from_fn(9, 9, |x, y| x.abs_diff(4).pow(2) + y.abs_diff(4).pow(2) <= 9);
        assert_eq!(grown, expected);
        assert_eq!(dilate(&point, &square(2)).area(), 25);
        assert_eq!(dilate(&point, &disk(0)), point);
    }

    #[test]
    fn disks_have_the_known_number_of_pixels() {
        // Gauss's circle problem, OEIS A000328.
        let sizes = [1, 5, 13, 29, 49, 81, 113, 149, 197];
        for (radius, size) in sizes.into_iter().enumerate() {
            let pixels: usize = disk(radius)
                .iter()
                .enumerate()
                .map(|(dy, half)| (2 * half + 1) * if dy == 0 { 1 } else { 2 })
                .sum();
            assert_eq!(pixels, size, "radius {radius}");
        }
    }
}
