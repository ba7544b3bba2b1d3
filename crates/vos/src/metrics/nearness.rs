/*!
Counts the pixels of one boundary near another one.

Dilating a whole image for a few thousand pixels is a waste. For each word of the first boundary
with pixels, this collects the other boundary's rows from near to far in one 128-bit window, widens
it on the way, and stops as soon as every pixel has a neighbour. Usually that is at once, because
good predictions are close.
*/

use crate::mask::Mask;
use crate::morphology::dilate;

/// Pixels of a window on either side of its 64.
const REACH: usize = 32;

/// Number of pixels of `of` within the element around some pixel of `others`; half-widths as in
/// [`dilate`]. Both masks must have the same size.
pub(super) fn count_near(of: &Mask, others: &Mask, half_widths: &[usize]) -> usize {
    let Some(&widest) = half_widths.first() else { return 0 };
    if widest > REACH {
        let near = dilate(others, half_widths);
        return of.words().iter().zip(near.words()).map(|(a, b)| ones(a & b)).sum();
    }
    let windows = Windows::of(others, half_widths.len() - 1);
    // A row joins at its distance and takes part in all widenings from there to the tip, which
    // together make its half-width.
    let next = half_widths.iter().skip(1).chain([&0]);
    let widenings: Vec<Vec<u32>> =
        half_widths.iter().zip(next).map(|(near, far)| doubling_steps(near - far)).collect();
    let mut count = 0;
    for y in 0..of.height() {
        for (index, &word) in of.row(y).iter().enumerate().filter(|(_, word)| **word != 0) {
            let mut near = 0;
            let mut alone = word;
            for (distance, steps) in widenings.iter().enumerate() {
                near |= windows.around(y, index, distance);
                for step in steps {
                    near |= near << step | near >> step;
                }
                alone = word & !((near >> REACH) as u64);
                if alone == 0 {
                    break;
                }
            }
            count += ones(word) - ones(alone);
        }
    }
    count
}

fn ones(word: u64) -> usize {
    word.count_ones() as usize
}

/// Shifts that together widen by `amount` without holes: each at most one more than the sum of all
/// before it.
fn doubling_steps(amount: usize) -> Vec<u32> {
    let (mut steps, mut done) = (Vec::new(), 0);
    while done < amount {
        let step = (amount - done).min(done + 1);
        steps.push(step as u32);
        done += step;
    }
    steps
}

/// For each word of a mask, the word and 32 pixels on either side of it, with empty rows above and
/// below the image in place of bounds checks.
struct Windows {
    words_per_row: usize,
    margin: usize,
    windows: Vec<u128>,
}

impl Windows {
    fn of(mask: &Mask, margin: usize) -> Self {
        let words_per_row = mask.words_per_row();
        let mut windows = vec![0; (mask.height() + 2 * margin) * words_per_row];
        for y in 0..mask.height() {
            let row = mask.row(y);
            let start = (y + margin) * words_per_row;
            let mut left = 0;
            for (index, window) in windows[start..start + words_per_row].iter_mut().enumerate() {
                let right = row.get(index + 1).copied().unwrap_or(0);
                *window = u128::from(left) >> REACH
                    | u128::from(row[index]) << REACH
                    | u128::from(right) << (64 + REACH);
                left = row[index];
            }
        }
        Self { words_per_row, margin, windows }
    }

    /// Both windows of word `index` at `distance` rows from row `y`, combined.
    fn around(&self, y: usize, index: usize, distance: usize) -> u128 {
        let at = |row: usize| self.windows[row * self.words_per_row + index];
        at(y + self.margin - distance) | at(y + self.margin + distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::morphology::{disk, square};
    use proptest::prelude::*;

    #[test]
    fn steps_widen_without_holes() {
        assert_eq!(doubling_steps(0), [0; 0]);
        assert_eq!(doubling_steps(6), [1, 2, 3]);
        assert_eq!(doubling_steps(18), [1, 2, 4, 8, 3]);
    }

    proptest! {
        /// tests/metrics.rs compares [`dilate`] itself with a pixel-by-pixel definition.
        #[test]
        fn counts_what_a_dilation_would(
            width in 1..300usize, height in 1..60usize, radius in 0..40usize, seed in any::<u64>(),
            rarity in 1..400u64,
        ) {
            let mut state = seed;
            let mut sparse = || Mask::from_fn(width, height, |_, _| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % rarity == 0
            });
            let (of, others) = (sparse(), sparse());
            for element in [disk(radius), square(radius)] {
                let expected = of.intersection_union(&dilate(&others, &element)).0;
                prop_assert_eq!(count_near(&of, &others, &element), expected);
            }
        }
    }
}
