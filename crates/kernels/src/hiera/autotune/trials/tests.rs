use std::cell::{Cell, RefCell};

use super::*;
use cuda::Element;
use cuda::cublaslt::MatmulShape;
use vos::noise::Noise;

/// A trunk whose recording costs `cost` µs, times the noise of each replay.
struct NoisyClock<F> {
    cost: F,
    noise: RefCell<Noise>,
    /// Deviation of the noise, and how much longer each replay takes than the one before, as
    /// shares.
    noisy: f64,
    drift: f64,
    replays: Cell<usize>,
    recordings: Cell<usize>,
    most_recordings: usize,
}

impl<F: Fn() -> Result<f64>> NoisyClock<F> {
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

impl<F: Fn() -> Result<f64>> Clock for NoisyClock<F> {
    type Recording = f64;

    fn record(&self) -> Result<f64> {
        self.recordings.set(self.recordings.get() + 1);
        (self.cost)()
    }

    fn us(&self, recording: &mut f64) -> Result<f64> {
        self.replays.set(self.replays.get() + 1);
        let noise = self.noisy * f64::from(self.noise.borrow_mut().normal());
        Ok(*recording * (1.0 + noise + self.drift * self.replays.get() as f64))
    }

    fn refresh(&self) -> Result<()> {
        Ok(())
    }

    fn is_up(&self) -> bool {
        self.recordings.get() >= self.most_recordings
    }
}

fn gemm(n: usize, kernels: &[&'static str]) -> GemmImpl {
    let (m, k, output) = (4096, 2304, Element::F32);
    let shape = MatmulShape { m, n, k, output, residual: true };
    GemmImpl::new(shape, kernels.iter().copied(), None)
}

/// The choice between two kernels of these costs under noise and drift; cuBLASLt costs 100, and a
/// third kernel fails.
fn kept(one: f64, another: f64, noisy: f64, drift: f64) -> Option<&'static str> {
    let gemm = gemm(576, &["one", "another", "broken"]);
    let cost = || match gemm.kernel() {
        Some("one") => Ok(one),
        Some("another") => Ok(another),
        Some(_) => anyhow::bail!("refused"),
        None => Ok(100.0),
    };
    let clock = NoisyClock { noisy, drift, ..NoisyClock::new(cost) };
    let mut trials = Trials::new(&clock).unwrap();
    tune_gemm_impl(&mut trials, &gemm).unwrap();
    assert_eq!(
        trials.best,
        gemm.kernel().map_or(100.0, |name| if name == "one" { one } else { another })
    );
    gemm.kernel()
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
fn candidates_that_are_far_slower_take_no_rounds_and_none_is_recorded_when_the_time_is_up() {
    let gemm = gemm(576, &["one", "another", "third"]);
    let clock = NoisyClock::new(|| Ok(if gemm.kernel().is_some() { 110.0 } else { 100.0 }));
    let mut trials = Trials::new(&clock).unwrap();
    assert_eq!(tune_gemm_impl(&mut trials, &gemm).unwrap(), Some("one"));
    assert_eq!((gemm.kernel(), clock.replays.get()), (None, 4 * BRIEF_REPLAYS));

    let clock = NoisyClock { most_recordings: 2, ..NoisyClock::new(|| Ok(90.0)) };
    let mut trials = Trials::new(&clock).unwrap();
    for _ in 0..9 {
        tune_gemm_impl(&mut trials, &gemm).unwrap();
    }
    assert_eq!(clock.recordings.get(), 2);
}

#[test]
fn a_kernel_of_whole_blocks_stays_unless_a_trial_found_it_slower() {
    let took = |fused: f64, most_recordings: usize| {
        let used = Cell::new(false);
        let cost = || Ok(if used.get() { fused } else { 100.0 });
        let clock = NoisyClock { noisy: 0.0005, most_recordings, ..NoisyClock::new(cost) };
        let mut trials = Trials::new(&clock).unwrap();
        let lost = tune_fused(&mut trials, &["whole"], |_, fused| used.set(fused)).unwrap();
        (lost.len(), used.get(), trials.best)
    };
    assert_eq!(took(90.0, usize::MAX), (0, true, 90.0));
    assert_eq!(took(110.0, usize::MAX), (1, false, 100.0));
    assert_eq!(took(110.0, 1), (0, true, 100.0), "there is no time for a trial");
}

#[test]
fn kernels_that_are_faster_only_together_are_found() {
    let gemms = [gemm(192, &["a"]), gemm(384, &["b"]), gemm(576, &["c"])];
    let gemms: Vec<&GemmImpl> = gemms.iter().collect();
    let took = |together: f64| {
        let cost = || {
            Ok(match [0, 1, 2].map(|at: usize| gemms[at].kernel().is_some()) {
                [false, false, false] => 100.0,
                [true, true, false] => together,
                // The third makes everything slower.
                [true, true, true] => together + 1.0,
                _ => 101.0,
            })
        };
        let clock = NoisyClock { noisy: 0.0005, ..NoisyClock::new(cost) };
        let mut trials = Trials::new(&clock).unwrap();
        tune_gemm_impls(&mut trials, &gemms).unwrap();
        trials.best
    };
    assert_eq!(took(90.0), 90.0);
    assert_eq!([0, 1, 2].map(|at: usize| gemms[at].kernel()), [Some("a"), Some("b"), None]);
    gemms.iter().for_each(|gemm| gemm.choose(None));
    assert_eq!(took(100.0), 100.0);
    assert_eq!([0, 1, 2].map(|at: usize| gemms[at].kernel()), [None; 3]);
}

#[test]
fn kinds_with_pdl_stay_unless_another_set_is_faster() {
    let norms = PdlKernels { norms: true, ..PdlKernels::default() };
    let took = |can: PdlKernels, before: PdlKernels, of: fn(PdlKernels) -> f64| {
        let used = Cell::new(before);
        let clock = NoisyClock { noisy: 0.0005, ..NoisyClock::new(|| Ok(of(used.get()))) };
        let mut trials = Trials::new(&clock).unwrap();
        let found = tune_pdl(&mut trials, can, before, |kinds| used.set(kinds)).unwrap();
        assert_eq!(found, used.get());
        (found, clock.recordings.get())
    };
    let none = PdlKernels::default();
    // One recording is that of the set in use, the others are those of all other sets.
    assert_eq!(took(PdlKernels::ALL, none, |_| 100.0), (none, 8));
    assert_eq!(took(PdlKernels::ALL, norms, |_| 100.0), (norms, 8));
    assert_eq!(took(PdlKernels::ALL, norms, |of| if of.is_none() { 90.0 } else { 95.0 }).0, none);
    let windows = |of: PdlKernels| if of.windows && !of.products { 90.0 } else { 100.0 };
    assert!(took(PdlKernels::ALL, norms, windows).0.windows);
    assert_eq!(took(none, none, |_| 100.0), (none, 1), "no kind can");
}
