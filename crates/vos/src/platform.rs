/*!
The platform table: build defaults and memory caps for each board.

`engines/platforms.toml` is compiled in; `--platforms FILE` replaces it, for other boards.
*/

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::precision::Precision;
use crate::track_variant::TrackVariant;

/// The committed table.
pub const BUILT_IN: &str = include_str!("../../../engines/platforms.toml");

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Its name on the command line, the table's key.
    #[serde(skip)]
    pub name: String,
    /// Its name for display.
    pub title: String,
    /// Compute capability, 87 for 8.7.
    pub sm: u32,
    /// Smallest device memory of this product, MiB.
    pub memory_mb: u64,
    /// The GPU uses the host's memory.
    pub unified: bool,
    /// Models that are built by default, with their names in bundle manifests.
    pub models: Vec<String>,
    /// Default precision.
    pub precision: Precision,
    /// Default side of the network input, pixels.
    pub imgsz: usize,
    /// Default cap of TensorRT's workspace, MiB.
    pub workspace_mb: u64,
    /// How a bank that is not full yet is run.
    pub track_variant: TrackVariant,
    /// Default builder optimization level.
    pub opt_level: u8,
    /// Parts of the driver's name of this GPU.
    pub device_names: Vec<String>,
    /// Peak of the tensor cores, dense fp16 with fp32 accumulation, GFLOP/s; none without a source.
    #[serde(default)]
    pub peak_gflops: Option<u64>,
    /// Peak of the device memory, MB/s; none without a source.
    #[serde(default)]
    pub memory_mb_per_s: Option<u64>,
    /// A Jetson: only the board itself has a TensorRT for it.
    #[serde(default)]
    pub tegra: bool,
}

/// Compute capabilities for which TensorRT for RTX builds all graphs without the GPU, tested with
/// 1.7.1. It refuses 87 and 90, and for 75 it has no matmul in fp32.
pub const BUILT_AHEAD: [u32; 5] = [80, 86, 89, 120, 121];

/// The oldest compute capability of the custom kernels other than attention.
const OLDEST_SM: u32 = 75;

/// The oldest compute capability of the custom attention kernels.
pub const OLDEST_FUSED_SM: u32 = 80;

impl Platform {
    /// Whether TensorRT for RTX can build for it on any machine.
    pub fn can_be_built_ahead(&self) -> bool {
        !self.tegra && BUILT_AHEAD.contains(&self.sm)
    }

    /// Length of the longest of its device names that is in this one.
    fn length_in(&self, device: &str) -> Option<usize> {
        let names = self.device_names.iter().filter(|name| device.contains(name.as_str()));
        names.map(String::len).max()
    }

    /// Why the track step cannot have this variant on this platform, as a phrase.
    pub fn refuses(&self, variant: TrackVariant) -> Option<String> {
        let too_old = variant == TrackVariant::Segmented && self.sm < OLDEST_FUSED_SM;
        too_old.then(|| {
            format!(
                "the segmented track step's attention kernels need sm {OLDEST_FUSED_SM} (Ampere) \
                 or more, and {} is sm {}: use padded",
                self.title, self.sm
            )
        })
    }
}

/// All rows, by name.
#[derive(Clone, Debug)]
pub struct Platforms(BTreeMap<String, Platform>);

impl Platforms {
    /// The committed table, or another file of the same format.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has an unknown key or an invalid value.
    pub fn open(file: Option<&Path>) -> Result<Self> {
        let Some(path) = file else { return Self::parse(BUILT_IN).context("the built-in table") };
        let text = std::fs::read_to_string(path).with_context(|| {
            format!(
                "cannot read the platform table {}; omit --platforms to use the built-in one",
                path.display()
            )
        })?;
        Self::parse(&text).with_context(|| {
            format!(
                "{} is not a platform table; see engines/platforms.toml for an \
                     example",
                path.display()
            )
        })
    }

    fn parse(text: &str) -> Result<Self> {
        let mut rows: BTreeMap<String, Platform> = toml::from_str(text)?;
        for (name, row) in &mut rows {
            row.name.clone_from(name);
            if row.imgsz == 0 || row.imgsz % 32 != 0 {
                bail!("[{name}] imgsz {}: expected a multiple of 32", row.imgsz);
            }
            if row.opt_level > 5 {
                bail!("[{name}] opt_level {}: expected 0 to 5", row.opt_level);
            }
            if row.sm < OLDEST_SM {
                bail!(
                    "[{name}] sm {}: expected {OLDEST_SM} (Turing) or more, which segtrt's CUDA \
                     kernels need",
                    row.sm
                );
            }
            if let Some(why) = row.refuses(row.track_variant) {
                bail!("[{name}] track_variant: {why}");
            }
            for (key, peak) in
                [("peak_gflops", row.peak_gflops), ("memory_mb_per_s", row.memory_mb_per_s)]
            {
                if peak == Some(0) {
                    bail!("[{name}] {key} must be more than 0; omit it if it is unknown");
                }
            }
            if row.workspace_mb == 0 {
                bail!("[{name}] workspace_mb must be more than 0");
            }
        }
        Ok(Self(rows))
    }

    /// The row with this name.
    pub fn get(&self, name: &str) -> Option<&Platform> {
        self.0.get(name)
    }

    /// All names, for messages.
    pub fn names(&self) -> String {
        self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// The row whose GPU has this name, as rows of a run state it: the longest name that is in it.
    pub fn of_name(&self, device: &str) -> Option<&Platform> {
        let rows = self.0.values().filter_map(|row| Some((row.length_in(device)?, row)));
        rows.max_by_key(|(length, _)| *length).map(|(_, row)| row)
    }

    /// The row of a GPU: same compute capability, and the longest name that the driver's name
    /// contains.
    pub fn of_device(&self, device: &str, sm: u32) -> Option<&Platform> {
        let rows = self.0.values().filter(|row| row.sm == sm);
        let rows = rows.filter_map(|row| Some((row.length_in(device)?, row)));
        rows.max_by_key(|(length, _)| *length).map(|(_, row)| row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_table_holds_the_boards_and_caps_orin_at_256_mib() {
        let table = Platforms::open(None).unwrap();
        for name in ["orin", "orin-nano", "rtx3090", "rtx4090", "a100", "h100", "h200"] {
            assert_eq!(table.get(name).unwrap().name, name);
        }
        let orin = table.get("orin").unwrap();
        assert_eq!((orin.workspace_mb, orin.unified, orin.sm), (256, true, 87));
        assert_eq!((orin.peak_gflops, orin.memory_mb_per_s), (Some(42_500), Some(204_800)));
        // The data sheets say with sparsity, which is twice as much.
        assert_eq!(table.get("h200").unwrap().peak_gflops, Some(989_500));
        let zero = BUILT_IN.replace("memory_mb_per_s = 204800", "memory_mb_per_s = 0");
        let why = Platforms::parse(&zero).unwrap_err().to_string();
        assert_eq!(why, "[orin] memory_mb_per_s must be more than 0; omit it if it is unknown");
        assert!(!orin.can_be_built_ahead() && table.get("rtx3090").unwrap().can_be_built_ahead());
        assert!(!table.get("h200").unwrap().can_be_built_ahead());
    }

    #[test]
    fn the_longest_name_of_the_same_capability_wins() {
        let table = Platforms::open(None).unwrap();
        let found = |name, sm| table.of_device(name, sm).map(|row| row.name.as_str());
        assert_eq!(found("NVIDIA H200", 90), Some("h200"));
        assert_eq!(found("Orin", 87), Some("orin"));
        assert_eq!(found("Orin Nano (nvgpu)", 87), Some("orin-nano"));
        assert_eq!(found("NVIDIA H200", 86), None);
        assert_eq!(found("Quadro P400", 61), None);
        let named = |name| table.of_name(name).map(|row| row.name.as_str());
        assert_eq!((named("Orin NX (nvgpu)"), named("Quadro P400")), (Some("orin-nx"), None));
    }

    #[test]
    fn a_wrong_key_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, BUILT_IN.replacen("sm = 87", "sm = 87\nclock = 3", 1)).unwrap();
        let error = format!("{:#}", Platforms::open(Some(&path)).unwrap_err());
        assert!(error.contains("mine.toml") && error.contains("clock"), "{error}");
    }

    #[test]
    fn a_gpu_older_than_the_kernels_is_refused_with_the_oldest_that_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("older.toml");
        let refused = |sm: &str| {
            std::fs::write(&path, BUILT_IN.replacen("sm = 86", sm, 1)).unwrap();
            format!("{:#}", Platforms::open(Some(&path)).unwrap_err())
        };
        let error = refused("sm = 70");
        assert!(error.contains("[rtx3090] sm 70: expected 75 (Turing) or more"), "{error}");
        let error = refused("sm = 75");
        assert!(
            error.contains(
                "[rtx3090] track_variant: the segmented track step's attention kernels need sm 80 \
                 (Ampere) or more"
            ),
            "{error}"
        );
    }
}
