/*!
The click with the largest distance from the object's edge.

Of several pixels with the same distance, the one of the largest 4-connected component wins, then
the one nearest to that component's centroid, then the first in raster order; so a long bar is
clicked in its middle.
*/

use super::components::labelled;
use super::distance::squared_distances;
use crate::mask::Mask;

/// Column and row of that pixel; `None` if the mask is empty.
pub(super) fn interior_point(mask: &Mask) -> Option<(usize, usize)> {
    let width = mask.width();
    let distances = squared_distances(mask);
    let farthest = *distances.iter().max().filter(|&&distance| distance > 0)?;
    let (labels, components) = labelled(mask);
    let mut best: Option<((usize, usize), (usize, f64))> = None;
    for (x, y) in mask.pixels().filter(|&(x, y)| distances[y * width + x] == farthest) {
        let component = components[labels[y * width + x] as usize - 1];
        let (cx, cy) = component.centroid();
        let off_centre = (x as f64 - cx).powi(2) + (y as f64 - cy).powi(2);
        let better = best.is_none_or(|(_, (area, least))| {
            component.area > area || component.area == area && off_centre < least
        });
        if better {
            best = Some(((x, y), (component.area, off_centre)));
        }
    }
    best.map(|(point, _)| point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_component_wins_a_tie_and_its_middle_is_clicked() {
        // A 3x3 square first in raster order, then a 3x9 bar: both are 2 pixels deep.
        let mask = Mask::from_fn(20, 10, |x, y| {
            (1..4).contains(&x) && (1..4).contains(&y)
                || (6..15).contains(&x) && (6..9).contains(&y)
        });
        assert_eq!(interior_point(&mask), Some((10, 7)));
        assert_eq!(interior_point(&Mask::new(5, 5)), None);
    }

    #[test]
    fn the_image_border_is_an_edge() {
        let all = Mask::from_fn(9, 5, |_, _| true);
        assert_eq!(interior_point(&all), Some((4, 2)));
    }
}
