/*!
The order of a run is CPython's; `data/shuffle/golden.txt` was printed by Python 3.11.
*/

use proptest::prelude::*;
use vos::dataset::{select, shuffle};

#[test]
fn shuffles_as_cpython_does() {
    let mut count = 0;
    let golden = include_str!("../data/shuffle/golden.txt");
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let [seed, length, order] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let mut items: Vec<usize> = (0..length.parse().unwrap()).collect();
        shuffle(&mut items, seed.parse().unwrap());
        let order: Vec<usize> = order.split(',').filter_map(|n| n.parse().ok()).collect();
        assert_eq!(items, order, "seed {seed}, {length} items");
        count += 1;
    }
    assert_eq!(count, 130);
}

fn videos(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("sav_{i:03}")).collect()
}

#[test]
fn a_seed_implies_shuffling_and_limits_come_after_it() {
    let all = videos(5);
    assert_eq!(select(&all, 0, false, None), all);
    assert_eq!(select(&all, 2, false, None), all[..2]);
    // Golden line "0 5 2,1,0,4,3".
    let order = [2, 1, 0, 4, 3].map(|i| all[i].clone());
    assert_eq!(select(&all, 0, false, Some(0)), order);
    assert_eq!(select(&all, 3, true, Some(0)), order[..3]);
    assert_eq!(select(&all, 99, false, Some(0)), order);
}

proptest! {
    #[test]
    fn every_shuffle_is_a_permutation(count in 0_usize..300, seed: Option<i64>) {
        let all = videos(count);
        let mut order = select(&all, 0, true, seed);
        if let Some(seed) = seed {
            prop_assert_eq!(&order, &select(&all, 0, false, Some(seed)));
        }
        order.sort();
        prop_assert_eq!(order, all);
    }
}
