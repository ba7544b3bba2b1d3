/*!
A binary mask as a bitset: rows of 64-bit words, one after another.

Rows start on a word boundary, so that shifting, eroding and dilating work on words; this makes the
metrics fast. Bits past the width are always zero, so counting needs no special case at the right
edge.
*/

/// A binary mask of `width` × `height` pixels.
#[derive(Clone, PartialEq, Eq)]
pub struct Mask {
    width: usize,
    height: usize,
    words_per_row: usize,
    words: Vec<u64>,
}

/// Inclusive pixel extents of the foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelBox {
    /// Left-most foreground column.
    pub x_min: usize,
    /// Top-most foreground row.
    pub y_min: usize,
    /// Right-most foreground column.
    pub x_max: usize,
    /// Bottom-most foreground row.
    pub y_max: usize,
}

impl Mask {
    /// An all-background mask.
    pub fn new(width: usize, height: usize) -> Self {
        let words_per_row = width.div_ceil(64);
        Self { width, height, words_per_row, words: vec![0; words_per_row * height] }
    }

    /// A mask from words in the layout of [`Mask::words`]; `None` if their number does not match
    /// the size. Bits past the width are cleared.
    pub fn from_words(width: usize, height: usize, words: Vec<u64>) -> Option<Self> {
        let words_per_row = width.div_ceil(64);
        if words.len() != words_per_row * height {
            return None;
        }
        let mut mask = Self { width, height, words_per_row, words };
        let last = width % 64;
        if last > 0 {
            for y in 0..height {
                if let Some(word) = mask.row_mut(y).last_mut() {
                    *word &= (1 << last) - 1;
                }
            }
        }
        Some(mask)
    }

    /// A mask whose pixel (x, y) is `f(x, y)`.
    pub fn from_fn(width: usize, height: usize, mut f: impl FnMut(usize, usize) -> bool) -> Self {
        let mut mask = Self::new(width, height);
        for y in 0..height {
            for (index, word) in mask.row_mut(y).iter_mut().enumerate() {
                let end = width.min(index * 64 + 64);
                for x in index * 64..end {
                    *word |= u64::from(f(x, y)) << (x % 64);
                }
            }
        }
        mask
    }

    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// 64-bit words that one row takes; bit `x % 64` of word `x / 64` is pixel x.
    pub fn words_per_row(&self) -> usize {
        self.words_per_row
    }

    /// All words, row after row.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The words of row `y`.
    pub fn row(&self, y: usize) -> &[u64] {
        &self.words[y * self.words_per_row..(y + 1) * self.words_per_row]
    }

    /// The words of row `y` for writing. Bits past the width must stay zero.
    pub(crate) fn row_mut(&mut self, y: usize) -> &mut [u64] {
        &mut self.words[y * self.words_per_row..(y + 1) * self.words_per_row]
    }

    /// Whether pixel (x, y) is foreground.
    pub fn get(&self, x: usize, y: usize) -> bool {
        debug_assert!(x < self.width && y < self.height);
        self.words[y * self.words_per_row + x / 64] >> (x % 64) & 1 == 1
    }

    /// Sets pixel (x, y).
    pub fn set(&mut self, x: usize, y: usize, on: bool) {
        debug_assert!(x < self.width && y < self.height);
        let word = &mut self.words[y * self.words_per_row + x / 64];
        *word = *word & !(1 << (x % 64)) | u64::from(on) << (x % 64);
    }

    /// Number of foreground pixels.
    pub fn area(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no pixel is foreground.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Whether both masks have the same width and height.
    pub fn same_size(&self, other: &Self) -> bool {
        self.width == other.width && self.height == other.height
    }

    /// Number of foreground pixels of both masks, and of either mask. Both masks must have the same
    /// size.
    pub fn intersection_union(&self, other: &Self) -> (usize, usize) {
        assert!(self.same_size(other), "masks of different sizes");
        let (mut both, mut either) = (0, 0);
        for (a, b) in self.words.iter().zip(&other.words) {
            both += (a & b).count_ones() as usize;
            either += (a | b).count_ones() as usize;
        }
        (both, either)
    }

    /// Intersection over union; two empty masks agree (1.0).
    pub fn iou(&self, other: &Self) -> f64 {
        match self.intersection_union(other) {
            (_, 0) => 1.0,
            (both, either) => both as f64 / either as f64,
        }
    }

    /// Foreground pixels in row-major order.
    pub fn pixels(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.height).flat_map(move |y| {
            self.row(y).iter().enumerate().flat_map(move |(index, &word)| {
                std::iter::successors((word != 0).then_some(word), |w| {
                    let rest = w & (w - 1);
                    (rest != 0).then_some(rest)
                })
                .map(move |w| (index * 64 + w.trailing_zeros() as usize, y))
            })
        })
    }

    /// Inclusive extents of the foreground; `None` when the mask is empty.
    pub fn extents(&self) -> Option<PixelBox> {
        let mut found: Option<PixelBox> = None;
        for (x, y) in self.pixels() {
            let b = found.get_or_insert(PixelBox { x_min: x, y_min: y, x_max: x, y_max: y });
            b.x_min = b.x_min.min(x);
            b.x_max = b.x_max.max(x);
            b.y_max = y;
        }
        found
    }

    /// Nearest-neighbour resize, pixel for pixel as OpenCV's `INTER_NEAREST`.
    pub fn resized_nearest(&self, width: usize, height: usize) -> Self {
        if self.width == 0 || self.height == 0 {
            return Self::new(width, height);
        }
        let column: Vec<usize> = (0..width).map(|x| nearest(x, width, self.width)).collect();
        let row: Vec<usize> = (0..height).map(|y| nearest(y, height, self.height)).collect();
        Self::from_fn(width, height, |x, y| self.get(column[x], row[y]))
    }
}

/// Source index of `index` when `from` pixels become `to`. OpenCV inverts the scale factor in
/// double precision before it multiplies, which differs from the exact quotient at one pixel in
/// some sizes.
fn nearest(index: usize, to: usize, from: usize) -> usize {
    let scale = 1.0 / (to as f64 / from as f64);
    ((index as f64 * scale).floor() as usize).min(from - 1)
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask {}x{}, area {}", self.width, self.height, self.area())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_and_extents_cross_word_boundaries() {
        let mut mask = Mask::new(130, 3);
        for (x, y) in [(129, 0), (63, 1), (64, 1), (0, 2)] {
            mask.set(x, y, true);
        }
        assert_eq!(mask.pixels().collect::<Vec<_>>(), [(129, 0), (63, 1), (64, 1), (0, 2)]);
        assert_eq!(mask.extents(), Some(PixelBox { x_min: 0, y_min: 0, x_max: 129, y_max: 2 }));
        assert_eq!(mask.area(), 4);
        assert_eq!(Mask::new(5, 5).extents(), None);
    }

    #[test]
    fn words_make_the_mask_that_they_came_from() {
        let mask = Mask::from_fn(70, 3, |x, y| (x + y) % 3 == 0);
        assert_eq!(Mask::from_words(70, 3, mask.words().to_vec()), Some(mask.clone()));
        let dirty =
            mask.words().iter().enumerate().map(|(i, w)| if i % 2 == 1 { w | 1 << 40 } else { *w });
        assert_eq!(Mask::from_words(70, 3, dirty.collect()), Some(mask));
        assert_eq!(Mask::from_words(70, 3, vec![0; 3]), None);
    }

    #[test]
    fn resize_rounds_as_opencv_does() {
        // cv2.resize of two pixels to 98 takes the first one for pixel 49, although 49 * 2 / 98 =
        // 1.
        let mask = Mask::from_fn(2, 1, |x, _| x == 1);
        let resized = mask.resized_nearest(98, 1);
        assert_eq!(resized.pixels().next(), Some((50, 0)));
        assert_eq!(resized.area(), 48);
        assert!(Mask::new(0, 0).resized_nearest(3, 3).is_empty());
    }

    #[test]
    fn iou_counts_two_empty_masks_as_agreement() {
        assert_eq!(Mask::new(4, 4).iou(&Mask::new(4, 4)), 1.0);
        let a = Mask::from_fn(4, 1, |x, _| x < 2);
        let b = Mask::from_fn(4, 1, |x, _| x == 1 || x == 2);
        assert_eq!(a.iou(&b), 1.0 / 3.0);
    }
}
