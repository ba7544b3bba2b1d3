/*!
Places of names next to points, so that no name covers another one or a point.
*/

use super::words::width;

/// A rectangle: left, top, right, bottom.
type Place = (f64, f64, f64, f64);

/// Rectangles that are taken, and the frame in which names must lie.
pub struct Taken {
    frame: Place,
    places: Vec<Place>,
}

impl Taken {
    /// A frame with points in it.
    pub fn new(
        (left, right): (f64, f64),
        (top, bottom): (f64, f64),
        points: &[(f64, f64)],
    ) -> Self {
        const POINT: f64 = 6.0;
        let point = |(x, y): &(f64, f64)| (x - POINT, y - POINT, x + POINT, y + POINT);
        Self { frame: (left, top, right, bottom), places: points.iter().map(point).collect() }
    }

    fn is_free(&self, place: &Place) -> bool {
        let (left, top, right, bottom) = self.frame;
        let inside = place.0 >= left && place.1 >= top && place.2 <= right && place.3 <= bottom;
        let apart =
            |t: &Place| t.2 <= place.0 || t.0 >= place.2 || t.3 <= place.1 || t.1 >= place.3;
        inside && self.places.iter().all(apart)
    }
}

/// The left end of the baseline of `text` near a point; `None` if there is no room.
pub fn place(taken: &mut Taken, (x, y): (f64, f64), text: &str, size: f64) -> Option<(f64, f64)> {
    if text.is_empty() {
        return None;
    }
    let wide = width(text, size);
    let right = x + 10.0;
    let left = x - 10.0 - wide;
    let centred = x - wide / 2.0;
    let candidates = [
        (right, y - 6.0),
        (right, y + 14.0),
        (left, y - 6.0),
        (left, y + 14.0),
        (centred, y - 12.0),
        (centred, y + 20.0),
        (right, y - 20.0),
        (right, y + 28.0),
        (left, y - 20.0),
        (left, y + 28.0),
    ];
    for (lx, ly) in candidates {
        let place = (lx, ly - size, lx + wide, ly + 3.0);
        if taken.is_free(&place) {
            taken.places.push(place);
            return Some((lx, ly));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_close_points_do_not_touch() {
        let points = [(100.0, 100.0), (104.0, 101.0)];
        let mut taken = Taken::new((0.0, 400.0), (0.0, 300.0), &points);
        let first = place(&mut taken, points[0], "sam2_tiny_points", 11.0).unwrap();
        let second = place(&mut taken, points[1], "sam2_small_points", 11.0).unwrap();
        assert!((first.1 - second.1).abs() > 11.0 || (first.0 - second.0).abs() > 80.0);
        let mut narrow = Taken::new((0.0, 20.0), (0.0, 20.0), &[(10.0, 10.0)]);
        assert_eq!(place(&mut narrow, (10.0, 10.0), "long name", 11.0), None);
    }
}
