/*!
Pairs of views: both are run in step, and a view's time is that of the pair.
*/

use std::collections::BTreeMap;

use super::clip_run::ClipPass;
use super::runner::Tracked;
use vos::dataset::VIEWS;
use vos::record::{FrameTime, FrameTimes, StageTimes};

/// Whether each view has an object and all begin with the same pair of frames; else a pass would
/// lack the work of a view.
pub fn in_step(objects: &[Tracked]) -> bool {
    let pairs: Vec<usize> = objects.iter().map(|object| object.span.start / VIEWS).collect();
    let views = |view: usize| objects.iter().any(|object| object.span.start % VIEWS == view);
    pairs.windows(2).all(|two| two[0] == two[1]) && (0..VIEWS).all(views)
}

/// Gives each frame the time and the stages of its pair.
pub fn add_up(passes: &mut [ClipPass]) {
    let mut frames: BTreeMap<usize, FrameTimes> = BTreeMap::new();
    for times in passes.iter().flat_map(|pass| &pass.times) {
        frames.insert(times.frame, *times);
    }
    for times in passes.iter_mut().flat_map(|pass| &mut pass.times) {
        let first = times.frame - times.frame % VIEWS;
        let pair: Vec<&FrameTimes> =
            (first..first + VIEWS).filter_map(|at| frames.get(&at)).collect();
        let ms = pair.iter().map(|view| view.time.ms()).sum();
        times.time = match times.time {
            FrameTime::Latency(_) => FrameTime::Latency(ms),
            FrameTime::Interval(_) | FrameTime::Lane { .. } => FrameTime::Interval(ms),
        };
        let sum = |of: &dyn Fn(&FrameTimes) -> Option<f64>| {
            pair.iter().filter_map(|view| of(view)).reduce(|sum, ms| sum + ms)
        };
        times.stages = StageTimes::each(|stage| sum(&|view| view.stages[stage]));
        times.gpu_ms = sum(&|view| view.gpu_ms);
        times.enqueued.ms = sum(&|view| view.enqueued.ms);
        let count = |of: &dyn Fn(&FrameTimes) -> Option<u64>| {
            pair.iter().map(|view| of(view)).sum::<Option<u64>>()
        };
        times.enqueued.launches = count(&|view| view.enqueued.launches);
        times.enqueued.graph_launches = count(&|view| view.enqueued.graph_launches);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::record::Enqueued;
    use vos::stage::Stage;

    #[test]
    fn both_views_have_the_time_of_their_pair() {
        let frame = |frame, ms| FrameTimes {
            frame,
            time: FrameTime::Latency(ms),
            stages: StageTimes::of([(Stage::Track, ms / 2.0)]),
            enqueued: Enqueued { ms: Some(ms), launches: Some(40), graph_launches: None },
            ..FrameTimes::default()
        };
        let pass = |times| ClipPass { times, ..ClipPass::default() };
        let mut passes =
            [pass(vec![frame(0, 1.0), frame(2, 2.0)]), pass(vec![frame(1, 10.0), frame(3, 20.0)])];
        add_up(&mut passes);
        for pass in &passes {
            assert_eq!([pass.times[0].time.ms(), pass.times[1].time.ms()], [11.0, 22.0]);
            assert_eq!(pass.times[1].stages[Stage::Track], Some(11.0));
            let pair = Enqueued { ms: Some(22.0), launches: Some(80), graph_launches: None };
            assert_eq!(pass.times[1].enqueued, pair);
        }
    }
}
