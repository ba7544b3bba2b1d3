/*!
The readings of the GPU's sensors during a pass.
*/

use serde::{Deserialize, Serialize};

use super::limits::Limits;

/// Sensors over one pass, from just before its first frame to just after its last; what happens
/// between the timed regions, such as decoding, lies inside. `None`: this board does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Length of the observation, s.
    pub seconds: f64,
    /// Number of readings, without the one before the first frame.
    pub readings: usize,
    /// Mean power, W: energy over time.
    pub power_mean_w: Option<f64>,
    /// Highest power reading, W.
    pub power_max_w: Option<f64>,
    /// Energy, J: by the board's own counter where it has one, else the integral of the power
    /// readings.
    pub energy_j: Option<f64>,
    /// Lowest clock of the multiprocessors, MHz.
    pub sm_clock_min_mhz: Option<f64>,
    /// Mean of the same clock, MHz.
    pub sm_clock_mean_mhz: Option<f64>,
    /// Highest of the same clock, MHz.
    pub sm_clock_max_mhz: Option<f64>,
    /// Mean clock of the memory, MHz.
    pub memory_clock_mhz: Option<f64>,
    /// Highest temperature of the GPU, °C.
    pub temperature_max_c: Option<f64>,
    /// Mean share of time in which the GPU was busy, %.
    pub utilisation_percent: Option<f64>,
    /// Everything that held the clocks down in any reading.
    pub limits: Option<Limits>,
    /// Most other processes that computed on the GPU at once, without `idle_processes`.
    pub other_processes: Option<usize>,
    /// Processes of the same comparison that had the GPU open and waited, if the caller stated
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_processes: Option<usize>,
    /// Frames that the pass fed, where the object at hand had not all of them: the energy is of
    /// these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_fed: Option<usize>,
    /// Most GPU memory that the driver counts for this process, MiB.
    pub process_memory_mib: Option<f64>,
    /// Most GPU memory in use by anyone, MiB.
    pub device_memory_mib: Option<f64>,
}

impl Observed {
    /// The same with this many waiting processes, which do not count as computing.
    pub fn beside_idle(self, processes: usize) -> Self {
        match processes {
            0 => self,
            waiting => Self {
                other_processes: self.other_processes.map(|seen| seen.saturating_sub(waiting)),
                idle_processes: Some(waiting),
                ..self
            },
        }
    }

    /// The same for an object that had `own` of the `fed` frames of the pass.
    pub fn of_frames(self, own: usize, fed: usize) -> Self {
        Self { frames_fed: Some(fed).filter(|fed| *fed != own), ..self }
    }

    /// Energy of a frame, J, of a pass in which the object at hand had `own` frames.
    pub fn energy_per_frame_j(&self, own: usize) -> Option<f64> {
        Some(self.energy_j? / self.frames_fed.unwrap_or(own) as f64)
    }
}

/// Several passes as one: time, readings and energy summed, means by time, extremes of all.
pub(super) fn pool(passes: &[Observed]) -> Option<Observed> {
    if passes.is_empty() {
        return None;
    }
    let seconds: f64 = passes.iter().map(|pass| pass.seconds).sum();
    // A number that one of the passes lacks is not a number of all passes.
    let all = |number: fn(&Observed) -> Option<f64>| passes.iter().map(number).collect();
    let sum = |number| {
        let numbers: Option<Vec<f64>> = all(number);
        numbers.map(|numbers| numbers.iter().sum::<f64>())
    };
    let mean = |number| {
        let numbers: Option<Vec<f64>> = all(number);
        let weighed = |numbers: Vec<f64>| {
            numbers.iter().zip(passes).map(|(number, pass)| number * pass.seconds).sum::<f64>()
        };
        numbers.filter(|_| seconds > 0.0).map(|numbers| weighed(numbers) / seconds)
    };
    let most =
        |number: fn(&Observed) -> Option<f64>| passes.iter().filter_map(number).reduce(f64::max);
    let least =
        |number: fn(&Observed) -> Option<f64>| passes.iter().filter_map(number).reduce(f64::min);
    Some(Observed {
        seconds,
        readings: passes.iter().map(|pass| pass.readings).sum(),
        power_mean_w: mean(|pass| pass.power_mean_w),
        power_max_w: most(|pass| pass.power_max_w),
        energy_j: sum(|pass| pass.energy_j),
        sm_clock_min_mhz: least(|pass| pass.sm_clock_min_mhz),
        sm_clock_mean_mhz: mean(|pass| pass.sm_clock_mean_mhz),
        sm_clock_max_mhz: most(|pass| pass.sm_clock_max_mhz),
        memory_clock_mhz: mean(|pass| pass.memory_clock_mhz),
        temperature_max_c: most(|pass| pass.temperature_max_c),
        utilisation_percent: mean(|pass| pass.utilisation_percent),
        limits: passes.iter().filter_map(|pass| pass.limits).reduce(Limits::union),
        other_processes: passes.iter().filter_map(|pass| pass.other_processes).max(),
        idle_processes: passes.iter().filter_map(|pass| pass.idle_processes).max(),
        frames_fed: passes.iter().map(|pass| pass.frames_fed).sum(),
        process_memory_mib: most(|pass| pass.process_memory_mib),
        device_memory_mib: most(|pass| pass.device_memory_mib),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::limits::Limit;

    #[test]
    fn processes_that_wait_are_not_among_those_that_compute() {
        let seen = Observed { other_processes: Some(3), ..Observed::default() };
        assert_eq!(seen.beside_idle(0), seen);
        let beside = seen.beside_idle(2);
        assert_eq!((beside.other_processes, beside.idle_processes), (Some(1), Some(2)));
        assert_eq!(seen.beside_idle(5).other_processes, Some(0));
        let blind = Observed::default().beside_idle(2);
        assert_eq!((blind.other_processes, blind.idle_processes), (None, Some(2)));
        // Sidecars from before have no such member, and lone benches write none.
        let text = serde_json::to_string(&seen).unwrap();
        assert!(!text.contains("idle"));
        assert_eq!(serde_json::from_str::<Observed>(&text).unwrap(), seen);
    }

    #[test]
    fn an_object_of_some_of_the_frames_does_not_pay_for_all_of_them() {
        let pass = Observed { energy_j: Some(60.0), ..Observed::default() };
        assert_eq!(pass.of_frames(30, 30), pass);
        assert_eq!(pass.of_frames(30, 30).energy_per_frame_j(30), Some(2.0));
        let late = pass.of_frames(10, 30);
        assert_eq!((late.frames_fed, late.energy_per_frame_j(10)), (Some(30), Some(2.0)));
        let pooled = pool(&[late, late]).unwrap();
        assert_eq!((pooled.frames_fed, pooled.energy_per_frame_j(20)), (Some(60), Some(2.0)));
        assert_eq!(Observed::default().energy_per_frame_j(10), None);
    }

    #[test]
    fn passes_pool_by_time_and_extremes() {
        let one = Observed {
            seconds: 1.0,
            readings: 10,
            power_mean_w: Some(100.0),
            energy_j: Some(100.0),
            sm_clock_min_mhz: Some(1900.0),
            limits: Some(Limits::of([Limit::PowerCap])),
            ..Observed::default()
        };
        let other = Observed {
            seconds: 3.0,
            readings: 30,
            power_mean_w: Some(200.0),
            energy_j: Some(600.0),
            sm_clock_min_mhz: Some(1500.0),
            limits: Some(Limits::default()),
            ..Observed::default()
        };
        let pooled = pool(&[one, other]).unwrap();
        assert_eq!((pooled.seconds, pooled.readings), (4.0, 40));
        assert_eq!((pooled.power_mean_w, pooled.energy_j), (Some(175.0), Some(700.0)));
        assert_eq!(pooled.sm_clock_min_mhz, Some(1500.0));
        assert_eq!(pooled.limits.map(Limits::text).as_deref(), Some("power_cap"));
        assert_eq!(pooled.temperature_max_c, None);
        let blind = Observed { seconds: 1.0, ..Observed::default() };
        assert_eq!(pool(&[one, blind]).unwrap().energy_j, None, "half an energy is none");
        assert_eq!(pool(&[]), None);
    }
}
