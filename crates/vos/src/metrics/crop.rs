/*!
Crops two masks to their common occupied region.

Most objects cover a small part of the image, and the scores depend only on pixels of the masks and
their neighbours. After the crop the cost is proportional to the object.
*/

use std::ops::Range;

use crate::mask::Mask;

/// Both masks cropped to the rows and words with any pixel of either, with at least one pixel of
/// background around them inside the image. `None` if both are empty.
///
/// The image's edges stay edges: a crop never puts one next to a foreground pixel.
pub(super) fn crop(a: &Mask, b: &Mask) -> Option<(Mask, Mask)> {
    let rows = occupied_rows(a, b)?;
    let rows = rows.start.saturating_sub(1)..(rows.end + 1).min(a.height());
    let words = occupied_words(a, b)?;
    Some((cut(a, &rows, &words), cut(b, &rows, &words)))
}

fn occupied_rows(a: &Mask, b: &Mask) -> Option<Range<usize>> {
    let any = |y: &usize| a.row(*y).iter().chain(b.row(*y)).any(|&word| word != 0);
    let first = (0..a.height()).find(any)?;
    let last = (first..a.height()).rev().find(any)?;
    Some(first..last + 1)
}

fn occupied_words(a: &Mask, b: &Mask) -> Option<Range<usize>> {
    let mut all = vec![0; a.words_per_row()];
    for y in 0..a.height() {
        for ((all, a), b) in all.iter_mut().zip(a.row(y)).zip(b.row(y)) {
            *all |= a | b;
        }
    }
    let first = all.iter().position(|&word| word != 0)?;
    let last = all.iter().rposition(|&word| word != 0)?;
    // A pixel at a word's border needs its neighbour from the next word.
    let start = if all[first] & 1 == 1 { first.saturating_sub(1) } else { first };
    let end = if all[last] >> 63 == 1 { (last + 2).min(all.len()) } else { last + 1 };
    Some(start..end)
}

fn cut(mask: &Mask, rows: &Range<usize>, words: &Range<usize>) -> Mask {
    let end = (words.end * 64).min(mask.width());
    let mut out = Mask::new(end - words.start * 64, rows.len());
    for (to, from) in rows.clone().enumerate() {
        out.row_mut(to).copy_from_slice(&mask.row(from)[words.clone()]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_keeps_a_rim_except_at_the_image_edge() {
        let mut a = Mask::new(400, 50);
        a.set(128, 20, true);
        let mut b = Mask::new(400, 50);
        b.set(255, 22, true);
        let (a, b) = crop(&a, &b).unwrap();
        // Words 1 to 4, rows 19 to 23.
        assert_eq!((a.width(), a.height()), (256, 5));
        assert!(a.get(64, 1) && b.get(191, 3));
        let mut corner = Mask::new(100, 30);
        corner.set(99, 29, true);
        let (cut, _) = crop(&corner, &Mask::new(100, 30)).unwrap();
        assert_eq!((cut.width(), cut.height()), (36, 2));
        assert!(cut.get(35, 1));
        assert!(crop(&Mask::new(9, 9), &Mask::new(9, 9)).is_none());
    }
}
