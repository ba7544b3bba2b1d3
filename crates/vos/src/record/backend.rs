/*!
The program that ran the network. Rows keep it as typed facts; the label of the `backend` column is
derived from them and never parsed.
*/

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::precision::Precision;
use crate::track_variant::TrackVariant;

/// A backend with its version and its options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// ONNX Runtime on the exported graphs.
    OnnxRuntime {
        /// Its version; none where neither file nor build tell it.
        version: Option<String>,
        /// Where it ran them.
        provider: Provider,
    },
    /// TensorRT engines and CUDA kernels.
    TensorRt(TensorRtBackend),
}

/// Execution providers of ONNX Runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// The host's processor.
    Cpu,
    /// CUDA on device 0.
    Cuda,
    /// TensorRT inside ONNX Runtime, on device 0.
    Tensorrt,
}

/// The engines of a run and the parts that CUDA kernels compute in their place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorRtBackend {
    /// `TensorRT` or `TensorRT for RTX`.
    pub product: String,
    /// `8.6.1`.
    pub version: String,
    /// Arithmetic of the engines.
    pub precision: Precision,
    /// How the track step handles a memory bank that is not full.
    pub track: TrackVariant,
    /// The parts that CUDA kernels compute, in the order of a frame: their
    /// [labels](crate::bundle::FusedPart::LABEL).
    pub cuda_parts: Vec<String>,
    /// Engines and kernels have only what every GPU from Ampere (sm 80) on can run.
    #[serde(default)]
    pub ampere_plus: bool,
    /// Work is recorded as CUDA graphs and replayed.
    pub graphs: bool,
    /// Frames that the encoder takes at once.
    pub encode_batch: usize,
}

impl Backend {
    /// Version of the library.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::OnnxRuntime { version, .. } => version.as_deref(),
            Self::TensorRt(TensorRtBackend { version, .. }) => Some(version),
        }
    }

    /// The label without the version: either may differ alone.
    pub fn unversioned(&self) -> String {
        self.label(None)
    }

    fn label(&self, version: Option<&str>) -> String {
        let mut words = Vec::new();
        match self {
            Self::OnnxRuntime { provider, .. } => {
                words.push("onnxruntime".to_owned());
                words.extend(version.map(str::to_owned));
                words.extend(match provider {
                    Provider::Cpu => None,
                    Provider::Cuda => Some("cuda".to_owned()),
                    Provider::Tensorrt => Some("tensorrt".to_owned()),
                });
            }
            Self::TensorRt(engines) => {
                words.push(engines.product.to_lowercase());
                words.extend(version.map(str::to_owned));
                words.push(engines.precision.to_string());
                words.push(engines.track.name().to_owned());
                words.extend(engines.cuda_parts.iter().cloned());
                words.extend(engines.ampere_plus.then(|| "ampere+".to_owned()));
                words.push(if engines.graphs { "graph" } else { "enqueue" }.to_owned());
                let batch = engines.encode_batch;
                words.extend((batch > 1).then(|| format!("encode{batch}")));
            }
        }
        words.join(" ")
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.label(self.version()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_names_version_precision_and_parts() {
        let plain = TensorRtBackend {
            product: "TensorRT".to_owned(),
            version: "8.6.1".to_owned(),
            precision: Precision::Fp16,
            track: TrackVariant::Segmented,
            cuda_parts: Vec::new(),
            ampere_plus: false,
            graphs: false,
            encode_batch: 1,
        };
        let label = |engines: &TensorRtBackend| Backend::TensorRt(engines.clone()).to_string();
        assert_eq!(label(&plain), "tensorrt 8.6.1 fp16 segmented enqueue");
        let all = TensorRtBackend {
            cuda_parts: ["trunk", "decoder", "memory"].map(str::to_owned).to_vec(),
            graphs: true,
            encode_batch: 4,
            ..plain
        };
        assert_eq!(label(&all), "tensorrt 8.6.1 fp16 segmented trunk decoder memory graph encode4");
        let ampere = TensorRtBackend { ampere_plus: true, ..all.clone() };
        assert_eq!(
            label(&ampere),
            "tensorrt 8.6.1 fp16 segmented trunk decoder memory ampere+ graph encode4"
        );
        let backend = Backend::TensorRt(all);
        assert_eq!(
            backend.unversioned(),
            "tensorrt fp16 segmented trunk decoder memory graph encode4"
        );
        let text = serde_json::to_string(&backend).unwrap();
        assert_eq!(serde_json::from_str::<Backend>(&text).unwrap(), backend);
        let of = |version: Option<&str>, provider| {
            let version = version.map(str::to_owned);
            Backend::OnnxRuntime { version, provider }.to_string()
        };
        assert_eq!(of(Some("1.22"), Provider::Cpu), "onnxruntime 1.22");
        assert_eq!(of(None, Provider::Cuda), "onnxruntime cuda");
    }
}
