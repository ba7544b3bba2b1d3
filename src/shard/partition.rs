/*!
Which clips a part gets.

Clips are heavy first (frames to run, times objects), each to the part that has the least so far; on
a tie to the part with fewer clips, then to the one that comes first. Nothing but the clips decides,
so every process comes to the same parts.
*/

use super::Shard;

/// The places of the clips that `shard` gets, in order; `frames` are those that each clip costs.
pub fn partition(frames: &[u64], shard: Shard) -> Vec<usize> {
    let mut order: Vec<usize> = (0..frames.len()).collect();
    // Stable: clips of one length stay in the order of the manifest.
    order.sort_by_key(|clip| std::cmp::Reverse(frames[*clip]));
    let mut parts: Vec<(u64, Vec<usize>)> = vec![(0, Vec::new()); shard.of];
    for clip in order {
        let lightest = parts.iter_mut().min_by_key(|(load, clips)| (*load, clips.len()));
        if let Some((load, clips)) = lightest {
            *load += frames[clip];
            clips.push(clip);
        }
    }
    let mut mine =
        parts.into_iter().nth(shard.part - 1).map(|(_, clips)| clips).unwrap_or_default();
    mine.sort_unstable();
    mine
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(frames: &[u64], of: usize) -> Vec<Vec<usize>> {
        Shard::all(of).map(|shard| partition(frames, shard)).collect()
    }

    #[test]
    fn the_heavy_ones_are_spread_first() {
        assert_eq!(parts(&[10, 90, 20, 60], 2), [vec![1], vec![0, 2, 3]]);
        assert_eq!(parts(&[5, 5, 5, 5, 5], 2), [vec![0, 2, 4], vec![1, 3]]);
        // Clips that cannot be opened cost nothing, and are spread too: each has a row.
        assert_eq!(parts(&[0, 0, 0], 2), [vec![0, 2], vec![1]]);
        assert_eq!(parts(&[7], 3), [vec![0], vec![], vec![]]);
        assert_eq!(parts(&[], 2), [vec![0; 0], vec![]]);
    }

    proptest! {
        #[test]
        fn every_clip_is_in_one_part_and_no_part_is_far_from_another(
            frames in prop::collection::vec(0u64..1000, 0..60), of in 1usize..12,
        ) {
            let parts = parts(&frames, of);
            let mut all: Vec<usize> = parts.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..frames.len()).collect::<Vec<_>>());
            prop_assert!(parts.iter().all(|part| part.is_sorted()));
            let loads = parts.iter().map(|part| part.iter().map(|clip| frames[*clip]).sum::<u64>());
            let loads: Vec<u64> = loads.collect();
            let heaviest = frames.iter().copied().max().unwrap_or_default();
            let (most, least) = (loads.iter().max().unwrap(), loads.iter().min().unwrap());
            prop_assert!(most - least <= heaviest, "{:?}", loads);
        }
    }
}
