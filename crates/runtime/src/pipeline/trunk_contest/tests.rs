use std::cell::{Cell, RefCell};

use super::*;
use cuda::Element;
use cuda::cublaslt::MatmulShape;
use vos::noise::Noise;

/// A trunk that takes what `cost` says when it is recorded, µs, times what the noise makes of each replay.
struct Made<F> {
    cost: F,
    noise: RefCell<Noise>,
    /// Deviation of the noise, and how much longer each replay takes than the one before, as shares.
    noisy: f64,
    drift: f64,
    replays: Cell<usize>,
    recordings: Cell<usize>,
    most_recordings: usize,
}

impl<F: Fn() -> Result<f64>> Made<F> {
    fn new(cost: F) -> Self {
        let noise = RefCell::new(Noise::new(1, "replays"));
        let [replays, recordings] = [Cell::new(0), Cell::new(0)];
        Self {
            cost,
            noise,
            noisy: 0.0,
            drift: 0.0,
            replays,
            recordings,
            most_recordings: usize::MAX,
        }
    }
}

impl<F: Fn() -> Result<f64>> Clock for Made<F> {
    type Take = f64;

    fn record(&self) -> Result<f64> {
        self.recordings.set(self.recordings.get() + 1);
        (self.cost)()
    }

    fn us(&self, take: &mut f64) -> Result<f64> {
        self.replays.set(self.replays.get() + 1);
        let noise = self.noisy * f64::from(self.noise.borrow_mut().normal());
        Ok(*take * (1.0 + noise + self.drift * self.replays.get() as f64))
    }

    fn refresh(&self) -> Result<()> {
        Ok(())
    }

    fn is_up(&self) -> bool {
        self.recordings.get() >= self.most_recordings
    }
}

fn way(columns: usize, kernels: &[&'static str]) -> Way {
    let (rows, depth, output) = (4096, 2304, Element::F32);
    let shape = MatmulShape { rows, columns, depth, output, residual: true };
    Way::new(shape, kernels.iter().copied(), None)
}

/// What stays of two kernels with which the whole takes so long, with this much noise and drift; cuBLASLt takes 100, and a third kernel fails.
fn kept(one: f64, another: f64, noisy: f64, drift: f64) -> Option<&'static str> {
    let way = way(576, &["one", "another", "broken"]);
    let cost = || match way.kernel() {
        Some("one") => Ok(one),
        Some("another") => Ok(another),
        Some(_) => anyhow::bail!("refused"),
        None => Ok(100.0),
    };
    let clock = Made { noisy, drift, ..Made::new(cost) };
    let mut contest = Contest::new(&clock).unwrap();
    choose_way(&mut contest, &way).unwrap();
    assert_eq!(
        contest.so_far,
        way.kernel().map_or(100.0, |name| if name == "one" { one } else { another })
    );
    way.kernel()
}

#[test]
fn a_kernel_stays_where_the_whole_is_faster_with_it_by_more_than_the_noise() {
    for noisy in [0.0, 0.002, 0.01] {
        assert_eq!(kept(95.0, 90.0, noisy, 0.0), Some("another"), "{noisy}");
        assert_eq!(kept(90.0, 95.0, noisy, 0.0), Some("one"), "{noisy}");
    }
    assert_eq!(kept(99.5, 101.0, 0.0005, 0.0), Some("one"));
    assert_eq!(kept(99.5, 101.0, 0.01, 0.0), None, "half a percent within noise of one percent");
    assert_eq!(kept(99.95, 101.0, 0.0, 0.0), None, "it is worth no change");
}

#[test]
fn noise_and_drift_are_no_reason_to_change() {
    // The shortest of nine replays of one would often be shorter than that of the other.
    assert_eq!(kept(100.0, 100.0, 0.01, 0.0), None);
    for drift in [0.001, -0.001] {
        assert_eq!(
            kept(100.0, 100.0, 0.0005, drift),
            None,
            "clocks that change by {drift} a replay"
        );
        assert_eq!(kept(96.0, 100.0, 0.0005, drift), Some("one"), "{drift}");
    }
}

#[test]
fn rivals_that_are_far_behind_take_no_rounds_and_none_is_recorded_when_the_time_is_up() {
    let way = way(576, &["one", "another", "third"]);
    let clock = Made::new(|| Ok(if way.kernel().is_some() { 110.0 } else { 100.0 }));
    let mut contest = Contest::new(&clock).unwrap();
    assert_eq!(choose_way(&mut contest, &way).unwrap(), Some("one"));
    assert_eq!((way.kernel(), clock.replays.get()), (None, 4 * GLANCES));

    let clock = Made { most_recordings: 2, ..Made::new(|| Ok(90.0)) };
    let mut contest = Contest::new(&clock).unwrap();
    for _ in 0..9 {
        choose_way(&mut contest, &way).unwrap();
    }
    assert_eq!(clock.recordings.get(), 2);
}

#[test]
fn kernels_that_are_faster_only_together_are_found() {
    let ways = [way(192, &["a"]), way(384, &["b"]), way(576, &["c"])];
    let ways: Vec<&Way> = ways.iter().collect();
    let took = |together: f64| {
        let cost = || {
            Ok(match [0, 1, 2].map(|at: usize| ways[at].kernel().is_some()) {
                [false, false, false] => 100.0,
                [true, true, false] => together,
                // The third makes everything slower.
                [true, true, true] => together + 1.0,
                _ => 101.0,
            })
        };
        let clock = Made { noisy: 0.0005, ..Made::new(cost) };
        let mut contest = Contest::new(&clock).unwrap();
        choose_ways(&mut contest, &ways).unwrap();
        contest.so_far
    };
    assert_eq!(took(90.0), 90.0);
    assert_eq!([0, 1, 2].map(|at: usize| ways[at].kernel()), [Some("a"), Some("b"), None]);
    ways.iter().for_each(|way| way.choose(None));
    assert_eq!(took(100.0), 100.0);
    assert_eq!([0, 1, 2].map(|at: usize| ways[at].kernel()), [None; 3]);
}
