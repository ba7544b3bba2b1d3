/*!
Nesting of ranges on each thread.
*/

use std::collections::HashMap;

/// An interval on a thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadSpan {
    /// Thread.
    pub thread: i64,
    /// Start, ns.
    pub start: i64,
    /// End, ns.
    pub end: i64,
}

/// The place of an interval among the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The innermost interval of its thread that contains it.
    pub parent: Option<usize>,
    /// Number of intervals around it.
    pub level: usize,
    /// Number of intervals directly in it.
    pub children: usize,
}

/// The place of each interval. Of two with the same ends, the earlier one in the list is the outer
/// one.
pub fn nest(stretches: &[ThreadSpan]) -> Vec<Place> {
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
            // Start-end ranges may overlap without nesting. Ended ones are removed anywhere in the
            // stack, and the innermost that contains this one is its parent.
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
        let of = |&(thread, start, end): &(i64, i64, i64)| ThreadSpan { thread, start, end };
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
