/*!
The roofline: the least time of a stage at the peaks of a GPU, from the FLOPs and bytes of its graph.

Bundles count the work of each graph (`onnx/segexport/work.py`): what an implementation has to do
that fuses everything into its matmuls and convolutions. The peaks come from the platform table or
from a measurement. The result is a bound, never a forecast.
*/

use serde::Serialize;

use crate::bundle::{Graph, Manifest, Role};
use crate::platform::Platform;
use crate::precision::Precision;
use crate::record::StageTimes;
use crate::stage::Stage;

/// The stages that a network computes, with the graph that counts their work. Custom CUDA kernels
/// compute the same mathematics, so they have the same numbers.
pub const STAGES: [(Stage, Role); 4] = [
    (Stage::Encoder, Role::Encoder),
    (Stage::Prompt, Role::Prompt),
    (Stage::Track, Role::Track),
    (Stage::Memory, Role::Memory),
];

/// The stages of every tracked frame.
pub const OF_A_FRAME: [Stage; 3] = [Stage::Encoder, Stage::Track, Stage::Memory];

/// What a GPU can do at most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peaks {
    /// Dense fp16 matmuls with fp32 accumulation, GFLOP/s.
    pub gflops: f64,
    /// Bandwidth of the device memory, MB/s; none if it is unknown.
    pub mb_per_s: Option<f64>,
    /// Where the numbers are from.
    pub source: String,
}

impl Peaks {
    /// The publisher's numbers; none if the platform table has no peak of the tensor cores.
    pub fn of_platform(platform: &Platform) -> Option<Self> {
        Some(Self {
            gflops: platform.peak_gflops? as f64,
            mb_per_s: platform.memory_mb_per_s.map(|rate| rate as f64),
            source: format!("data sheet of the {} in engines/platforms.toml", platform.title),
        })
    }
}

/// What limits a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// The tensor cores.
    Compute,
    /// The device memory.
    Bandwidth,
}

/// The work of a stage on a GPU, for one frame and one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageBound {
    /// Column of the stage: `encoder_ms`.
    #[serde(serialize_with = "column")]
    pub stage: Stage,
    /// 2 x multiply-accumulates.
    pub flops: u64,
    /// Bytes read and written at least.
    pub bytes: u64,
    /// Fewest kernel launches.
    pub launches: u64,
    /// Least time, ms.
    pub least_ms: f64,
    /// What it takes.
    pub limited_by: LimitedBy,
}

fn column<S: serde::Serializer>(stage: &Stage, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(stage.column())
}

/// The bound of each stage whose work the bundle counts; empty for bundles of older exports.
/// `precision` is the engines', which may differ from the graphs'.
pub fn stages(bundle: &Manifest, precision: Precision, peaks: &Peaks) -> Vec<StageBound> {
    let counted = STAGES.into_iter().filter_map(|(stage, role)| Some((stage, bundle.graph(role)?)));
    counted.filter_map(|(stage, graph)| bound(stage, graph, bundle, precision, peaks)).collect()
}

fn bound(
    stage: Stage,
    graph: &Graph,
    bundle: &Manifest,
    precision: Precision,
    peaks: &Peaks,
) -> Option<StageBound> {
    let fp32 = precision == Precision::Fp32;
    // TF32 matmuls of fp32 engines have half the rate of fp16 on GPUs from Ampere on.
    let gflops = if fp32 { peaks.gflops / 2.0 } else { peaks.gflops };
    // Engines of half precision that were built from fp32 graphs.
    let halved = !fp32 && bundle.model.precision == "fp32";
    let bytes = if halved { graph.bytes? / 2 } else { graph.bytes? };
    let compute_ms = graph.flops as f64 / gflops / 1e6;
    let memory_ms = peaks.mb_per_s.map_or(0.0, |rate| bytes as f64 / rate / 1e3);
    let limited_by = if memory_ms > compute_ms { LimitedBy::Bandwidth } else { LimitedBy::Compute };
    Some(StageBound {
        stage,
        flops: graph.flops,
        bytes,
        launches: graph.launches?,
        least_ms: compute_ms.max(memory_ms),
        limited_by,
    })
}

/// The least times as the stages of a frame have them, ms.
pub fn least_times(bounds: &[StageBound]) -> StageTimes {
    StageTimes::of(bounds.iter().map(|bound| (bound.stage, bound.least_ms)))
}

/// Least time of a tracked frame of one object with one frame in flight, ms; none without the
/// numbers of all its stages.
pub fn frame_ms(bounds: &[StageBound]) -> Option<f64> {
    let of = |stage| Some(bounds.iter().find(|bound| bound.stage == stage)?.least_ms);
    OF_A_FRAME.into_iter().map(of).sum()
}

/// A measured frame on a GPU, and its bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// Name in bundle manifests.
    pub model: &'static str,
    /// Side of the network input, pixels.
    pub imgsz: usize,
    /// The bound of a frame at the data sheet's peaks, ms.
    pub least_ms: f64,
    /// Median of a frame with one frame in flight, ms.
    pub measured_ms: f64,
}

/// Where [`REACHED`] was measured.
pub const REACHED_ON: &str = "an H200 (docs/results.md)";

/// fp16 on an H200; EdgeTAM and SAM 2.1 tiny with the instructions of Ampere alone, as an Orin has,
/// the others of 23 November 2026 with all. The bounds follow from 35.1, 80.1 and 12.6 GFLOP and
/// 551, 226 and 97 MB of EdgeTAM's encoder, track step and memory encoder at 1024 pixels; for SAM
/// 2.1 from 286.8, 354.4, 640.4 and 1815.2 GFLOP of the encoders, 423 of the track step and 81 MB
/// of the memory encoder.
const REACHED: [Reached; 9] = [
    reached("edgetam", 512, 0.051, 0.69),
    reached("edgetam", 768, 0.114, 0.81),
    reached("edgetam", 1024, 0.216, 0.99),
    reached("sam2.1_tiny", 512, 0.133, 1.15),
    reached("sam2.1_tiny", 768, 0.343, 1.82),
    reached("sam2.1_tiny", 1024, 0.757, 3.11),
    reached("sam2.1_small", 1024, 0.803, 3.21),
    reached("sam2.1_base_plus", 1024, 1.092, 4.31),
    reached("sam2.1_large", 1024, 2.279, 7.45),
];

const fn reached(model: &'static str, imgsz: usize, least_ms: f64, measured_ms: f64) -> Reached {
    Reached { model, imgsz, least_ms, measured_ms }
}

impl Reached {
    /// The measurement of this model at the nearest size; none of a model that was not measured.
    pub fn nearest(model: &str, imgsz: usize) -> Option<Self> {
        let of_model = REACHED.into_iter().filter(|row| row.model == model);
        of_model.min_by_key(|row| row.imgsz.abs_diff(imgsz))
    }

    /// Share of the roofline, 0..1.
    pub fn share(&self) -> f64 {
        self.least_ms / self.measured_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Platforms;

    fn demo() -> Manifest {
        let text = include_str!("../../../onnx/bundles/edgetam_mini_256_fp32/manifest.toml");
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_stage_takes_the_longer_of_compute_and_bandwidth() {
        let mut bundle = demo();
        let graph = bundle.graphs.iter_mut().find(|graph| graph.role == Role::Encoder).unwrap();
        (graph.flops, graph.bytes) = (2_000_000_000, Some(6_000_000));
        let peaks = |gflops, mb_per_s| Peaks { gflops, mb_per_s, source: String::new() };
        let encoder = |precision, peaks: &Peaks| stages(&bundle, precision, peaks).remove(0);
        // 2 GFLOP at 500 GFLOP/s, in TF32 half as fast.
        let fp32 = encoder(Precision::Fp32, &peaks(1000.0, Some(3000.0)));
        assert_eq!((fp32.least_ms, fp32.limited_by), (4.0, LimitedBy::Compute));
        // Half of the fp32 graph's 6 MB at 1 GB/s.
        let fp16 = encoder(Precision::Fp16, &peaks(1000.0, Some(1000.0)));
        assert_eq!((fp16.least_ms, fp16.limited_by), (3.0, LimitedBy::Bandwidth));
        let unknown = encoder(Precision::Fp16, &peaks(1000.0, None));
        assert_eq!((unknown.least_ms, unknown.limited_by), (2.0, LimitedBy::Compute));
    }

    #[test]
    fn a_frame_is_its_three_stages_and_an_older_bundle_has_none() {
        let orin = Platforms::open(None).unwrap().get("orin").unwrap().clone();
        let peaks = Peaks::of_platform(&orin).unwrap();
        assert!(peaks.source.contains("AGX Orin"), "{}", peaks.source);
        let bounds = stages(&demo(), Precision::Fp16, &peaks);
        assert_eq!(bounds.len(), 4);
        let all: f64 = bounds.iter().filter(|b| b.stage != Stage::Prompt).map(|b| b.least_ms).sum();
        assert!((frame_ms(&bounds).unwrap() - all).abs() < 1e-12);
        let mut older = demo();
        older.graphs.iter_mut().for_each(|graph| graph.bytes = None);
        assert_eq!(frame_ms(&stages(&older, Precision::Fp16, &peaks)), None);
    }

    /// The numbers at 1024 pixels: GFLOP and MB of encoder, track step and memory encoder.
    #[test]
    fn the_bounds_of_measured_frames_follow_from_flops_and_bytes_of_their_stages() {
        let sam = |gflop, mb| [(gflop, mb), (423.0, 514.0), (11.6, 81.0)];
        let work = [
            ("edgetam", 512, [(8.77, 145.0), (13.54, 71.8), (3.31, 29.8)]),
            ("edgetam", 768, [(19.73, 314.2), (36.16, 132.2), (7.19, 57.5)]),
            ("edgetam", 1024, [(35.1, 551.0), (80.1, 226.0), (12.6, 97.0)]),
            ("sam2.1_tiny", 512, [(61.44, 442.3), (36.01, 139.1), (2.9, 22.3)]),
            ("sam2.1_tiny", 768, [(145.27, 891.0), (145.89, 287.9), (6.53, 46.7)]),
            ("sam2.1_tiny", 1024, [(286.76, 1512.3), (420.92, 496.2), (11.61, 80.9)]),
            ("sam2.1_small", 1024, sam(354.4, 1675.0)),
            ("sam2.1_base_plus", 1024, sam(640.4, 2893.0)),
            ("sam2.1_large", 1024, sam(1815.2, 6331.0)),
        ];
        let h200 = Platforms::open(None).unwrap().get("h200").unwrap().clone();
        let (gflops, rate) = (h200.peak_gflops.unwrap(), h200.memory_mb_per_s.unwrap());
        for (model, imgsz, stages) in work {
            let least: f64 = stages
                .iter()
                .map(|(gflop, mb)| (1e3 * gflop / gflops as f64).max(1e3 * mb / rate as f64))
                .sum();
            let row = Reached::nearest(model, imgsz).unwrap();
            assert_eq!(row.imgsz, imgsz);
            assert!((row.least_ms - least).abs() < 6e-4, "{model} {imgsz}: {least}");
            assert!((0.04..0.35).contains(&row.share()));
        }
        assert_eq!(Reached::nearest("edgetam", 620).unwrap().imgsz, 512);
        assert_eq!(Reached::nearest("edgetam_mini", 256), None);
    }
}
