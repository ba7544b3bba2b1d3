/*!
Device memory of a model by what it is for, and whether the worker's memory kept growing.
*/

use serde::{Deserialize, Serialize};

use crate::trend::Trend;

/// Growth below this, MiB, is no leak.
const LEAST_GROWTH_MIB: f64 = 50.0;

/// What is known of a model's memory. All of it is optional: ONNX Runtime tells nothing, and short
/// runs have no trend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelMemory {
    /// Device memory by use; none without a GPU pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceMemoryUse>,
    /// Resident memory of the worker against frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_mib_per_1000_frames: Option<Trend>,
    /// Device memory of the worker against frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_mib_per_1000_frames: Option<Trend>,
}

/// Device memory by use, MiB: the most that was held between two clips.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceMemoryUse {
    /// Weights of engines and kernels, and what else TensorRT allocates itself.
    pub weights: f64,
    /// Activations and workspace of engines and kernels, which share one block.
    pub activations: f64,
    /// Decoded frames and the network's input.
    pub inputs: f64,
    /// The image encoder's outputs.
    pub features: f64,
    /// The memory bank.
    pub bank: f64,
    /// Logits, scores and masks.
    pub outputs: f64,
    /// This program's constants and tables.
    pub own: f64,
    /// What the process holds beside: context, code of kernels, libraries. None where the driver
    /// does not tell what the process holds.
    pub outside: Option<f64>,
    /// The engines, in the order in which a frame meets them.
    pub engines: Vec<EngineMemory>,
}

/// What TensorRT says of one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineMemory {
    /// What it does, such as `encoder`.
    pub role: String,
    /// Size of the plan, which holds the weights, MiB.
    pub plan: f64,
    /// Activations and workspace of its largest profile, MiB.
    pub activations: f64,
}

impl DeviceMemoryUse {
    /// Each use by its name.
    pub fn uses(&self) -> [(&'static str, Option<f64>); 8] {
        [
            ("weights", Some(self.weights)),
            ("activations and workspace", Some(self.activations)),
            ("inputs", Some(self.inputs)),
            ("features", Some(self.features)),
            ("memory bank", Some(self.bank)),
            ("outputs", Some(self.outputs)),
            ("own tables", Some(self.own)),
            ("context and libraries", self.outside),
        ]
    }

    /// Keeps the larger number of each use.
    pub fn at_least(&mut self, other: Self) {
        let pairs = [
            (&mut self.weights, other.weights),
            (&mut self.activations, other.activations),
            (&mut self.inputs, other.inputs),
            (&mut self.features, other.features),
            (&mut self.bank, other.bank),
            (&mut self.outputs, other.outputs),
            (&mut self.own, other.own),
        ];
        for (mine, theirs) in pairs {
            *mine = mine.max(theirs);
        }
        self.outside = [self.outside, other.outside].into_iter().flatten().reduce(f64::max);
        self.engines = other.engines;
    }
}

impl ModelMemory {
    /// With another worker's: the larger use, and the trend of whoever has one.
    pub fn of_another_worker(&mut self, other: Self) {
        match (&mut self.device, other.device) {
            (Some(mine), Some(theirs)) => mine.at_least(theirs),
            (mine, theirs) => *mine = mine.take().or(theirs),
        }
        self.host_mib_per_1000_frames =
            self.host_mib_per_1000_frames.or(other.host_mib_per_1000_frames);
        self.device_mib_per_1000_frames =
            self.device_mib_per_1000_frames.or(other.device_mib_per_1000_frames);
    }

    /// A sentence for each memory that kept growing.
    pub fn leaks(&self) -> Vec<String> {
        let told = |(what, trend): (&str, Option<Trend>)| {
            let trend = trend.filter(|trend| trend.is_leak(LEAST_GROWTH_MIB))?;
            Some(format!(
                "the worker's {what} memory kept growing by {:.1} MiB each 1000 frames (95 % \
                 interval {:.1} to {:.1}), {:.0} MiB in all: a leak, if longer runs go on so",
                trend.slope, trend.low, trend.high, trend.grown
            ))
        };
        let both =
            [("host", self.host_mib_per_1000_frames), ("device", self.device_mib_per_1000_frames)];
        both.into_iter().filter_map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_of_each_use_is_kept() {
        let mut memory = DeviceMemoryUse { weights: 5.0, bank: 1.0, ..Default::default() };
        memory.at_least(DeviceMemoryUse { bank: 2.0, outside: Some(300.0), ..Default::default() });
        assert_eq!((memory.weights, memory.bank, memory.outside), (5.0, 2.0, Some(300.0)));
        assert_eq!(memory.uses().iter().filter_map(|(_, mib)| *mib).sum::<f64>(), 307.0);
    }

    #[test]
    fn a_leak_needs_an_interval_above_zero_and_growth_that_matters() {
        let series = |mib: f64| -> Vec<(f64, f64)> {
            (0..40).map(|at| (f64::from(at) * 0.5, 700.0 + f64::from(at) * mib)).collect()
        };
        let of = |mib| ModelMemory {
            host_mib_per_1000_frames: Trend::of(&series(mib)),
            ..ModelMemory::default()
        };
        let told = of(4.0).leaks();
        assert!(
            told[0].contains("host memory kept growing by 8.0 MiB each 1000 frames"),
            "{told:?}"
        );
        assert!(of(0.1).leaks().is_empty(), "4 MiB do not matter");
        assert!(of(-4.0).leaks().is_empty() && ModelMemory::default().leaks().is_empty());
    }
}
