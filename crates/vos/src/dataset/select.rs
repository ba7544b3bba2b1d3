/*!
Selects the videos of a run and their order.
*/

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use super::shuffle::shuffle;

/// The videos of a run, each once even if it is listed more often: shuffled first, then limited (0
/// takes all).
///
/// A seed implies shuffling and gives the order of CPython's `random.seed(seed)` and
/// `random.shuffle(videos)`. Shuffling without a seed draws one and logs it, so that the run can be
/// repeated.
pub fn select(
    videos: &[String],
    limit_videos: usize,
    shuffle_videos: bool,
    seed: Option<i64>,
) -> Vec<String> {
    let mut seen = HashSet::new();
    let (mut order, again): (Vec<String>, Vec<String>) =
        videos.iter().cloned().partition(|video| seen.insert(video.clone()));
    if !again.is_empty() {
        log::warn!("listed more than once, and taken once: {}", again.join(", "));
    }
    let seed = seed.or_else(|| {
        shuffle_videos.then(|| {
            let drawn = i64::from(RandomState::new().hash_one("segtrt") as u32);
            log::info!("videos shuffled; --seed {drawn} repeats this order");
            drawn
        })
    });
    if let Some(seed) = seed {
        shuffle(&mut order, seed);
    }
    if limit_videos > 0 {
        order.truncate(limit_videos);
    }
    order
}
