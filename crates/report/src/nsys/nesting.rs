/*!
Which range lies in which, thread by thread.
*/

use std::collections::HashMap;

/// A stretch on a thread.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// Thread.
    pub thread: i64,
    /// First moment, ns.
    pub start: i64,
    /// Last moment, ns.
    pub end: i64,
}

/// Where a stretch stands among the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The innermost stretch of its thread that it lies in.
    pub parent: Option<usize>,
    /// Stretches around it.
    pub level: usize,
    /// Stretches that lie directly in it.
    pub children: usize,
}

/// The place of each stretch. Of two with the same ends, the earlier one in the list is the outer
/// one.
pub fn nest(stretches: &[Stretch]) -> Vec<Place> {
    let mut places = vec![Place::default(); stretches.len()];
    let mut threads: HashMap<i64, Vec<usize>> = HashMap::new();
    for (at, stretch) in stretches.iter().enumerate() {
        threads.entry(stretch.thread).or_default().push(at);
    }
    for mut order in threads.into_values() {
        order.sort_by_key(|&at| (stretches[at].start, -stretches[at].end, at));
        let mut open: Vec<usize> = Vec::new();
        for at in order {
            let stretch = stretches[at];
            // Started and ended ranges may overlap without one being in the other: those that are
            // over are dropped wherever they stand, and the innermost that holds this one is looked
            // for.
            open.retain(|&other| stretches[other].end >= stretch.start);
            let parent =
                open.iter().rev().copied().find(|&other| stretches[other].end >= stretch.end);
            if let Some(parent) = parent {
                places[at] =
                    Place { parent: Some(parent), level: places[parent].level + 1, children: 0 };
                places[parent].children += 1;
            }
            open.push(at);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(stretches: &[(i64, i64, i64)]) -> Vec<(Option<usize>, usize, usize)> {
        let of = |&(thread, start, end): &(i64, i64, i64)| Stretch { thread, start, end };
        let places = nest(&stretches.iter().map(of).collect::<Vec<_>>());
        places.into_iter().map(|place| (place.parent, place.level, place.children)).collect()
    }

    #[test]
    fn stages_lie_in_their_frame_and_on_their_thread() {
        let places = nested(&[
            (1, 0, 100),
            (1, 10, 20),
            (1, 30, 90),
            (1, 40, 50),
            (2, 10, 20),
            (1, 100, 200),
        ]);
        assert_eq!(
            places,
            [
                (None, 0, 2),
                (Some(0), 1, 0),
                (Some(0), 1, 1),
                (Some(2), 2, 0),
                (None, 0, 0),
                (None, 0, 0)
            ]
        );
    }

    #[test]
    fn equal_ranges_nest_in_their_order_and_overlapping_ones_do_not() {
        assert_eq!(nested(&[(1, 0, 9), (1, 0, 9)]), [(None, 0, 1), (Some(0), 1, 0)]);
        let places = nested(&[(1, 0, 50), (1, 40, 100), (1, 45, 48), (1, 60, 70)]);
        assert_eq!(places, [(None, 0, 0), (None, 0, 2), (Some(1), 1, 0), (Some(1), 1, 0)]);
    }
}
