/*!
4-connected components of a mask, in the raster order of their first pixels.

That order is `scipy.ndimage.label`'s, which determines the predecessor's click.
*/

use crate::mask::Mask;

/// Sums over one component for its size and centroid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Component {
    /// Pixels.
    pub area: usize,
    sum_x: usize,
    sum_y: usize,
}

impl Component {
    /// Mean column and row, fractions cut off.
    pub fn truncated_centroid(&self) -> (usize, usize) {
        (self.sum_x / self.area, self.sum_y / self.area)
    }

    /// Mean column and row.
    pub fn centroid(&self) -> (f64, f64) {
        (self.sum_x as f64 / self.area as f64, self.sum_y as f64 / self.area as f64)
    }
}

/// The components in raster order of their first pixels.
pub(super) fn components(mask: &Mask) -> Vec<Component> {
    labelled(mask).1
}

/// A label for each pixel (0 is background, component k has label k + 1), and the components.
pub(super) fn labelled(mask: &Mask) -> (Vec<u32>, Vec<Component>) {
    let (width, height) = (mask.width(), mask.height());
    let mut labels = vec![0_u32; width * height];
    let mut found = Vec::new();
    let mut open = Vec::new();
    for (x, y) in mask.pixels() {
        if labels[y * width + x] != 0 {
            continue;
        }
        let label = found.len() as u32 + 1;
        let mut component = Component::default();
        let mut visit = |x: usize, y: usize, open: &mut Vec<(usize, usize)>| {
            if mask.get(x, y) && labels[y * width + x] == 0 {
                labels[y * width + x] = label;
                open.push((x, y));
            }
        };
        visit(x, y, &mut open);
        while let Some((x, y)) = open.pop() {
            component.area += 1;
            component.sum_x += x;
            component.sum_y += y;
            if x > 0 {
                visit(x - 1, y, &mut open);
            }
            if x + 1 < width {
                visit(x + 1, y, &mut open);
            }
            if y > 0 {
                visit(x, y - 1, &mut open);
            }
            if y + 1 < height {
                visit(x, y + 1, &mut open);
            }
        }
        found.push(component);
    }
    (labels, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagonal_neighbours_are_apart_and_order_is_raster() {
        let rows = ["..#", "##.", ".##"];
        let mask = Mask::from_fn(3, 3, |x, y| rows[y].as_bytes()[x] == b'#');
        let (labels, found) = labelled(&mask);
        assert_eq!(labels, [0, 0, 1, 2, 2, 0, 0, 2, 2]);
        assert_eq!(found.iter().map(|c| c.area).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(found[0].truncated_centroid(), (2, 0));
        assert_eq!(found[1].truncated_centroid(), (1, 1));
    }
}
