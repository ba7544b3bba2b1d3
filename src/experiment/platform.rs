/*!
Jetson or desktop, by the rule of the predecessor's shell script, and the defaults of each.
*/

use std::path::Path;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use host::board;
use vos::platform::Platform;

/// The predecessor's two platforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlatformKind {
    /// A Jetson board.
    Jetson,
    /// Everything else.
    Desktop,
}

impl PlatformKind {
    /// By what lies below `root`, which is `/`; in a container, where that may tell nothing, by the
    /// GPU's row in the platform table.
    pub fn detect(root: &Path, row: Option<&Platform>) -> Self {
        match board::is_jetson(root) || row.is_some_and(|row| row.tegra) {
            true => Self::Jetson,
            false => Self::Desktop,
        }
    }

    /// The word in folder names and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jetson => "jetson",
            Self::Desktop => "desktop",
        }
    }

    /// The predecessor's models for it.
    pub fn usual_models(self) -> &'static [&'static str] {
        const ALL: [&str; 6] = [
            "sam2_tiny_points",
            "sam2_tiny_bbox",
            "sam2_small_points",
            "sam2_small_bbox",
            "sam2_base_points",
            "sam2_base_bbox",
        ];
        match self {
            Self::Jetson => &ALL[..4],
            Self::Desktop => &ALL,
        }
    }

    /// The host's name as the predecessor wrote it: always the same for a Jetson.
    pub fn hostname(self) -> String {
        let own = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        match self {
            Self::Jetson => "jetson-orin".to_owned(),
            Self::Desktop => match own().trim() {
                "" => "unknown".to_owned(),
                name => name.to_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::platform::Platforms;

    #[test]
    fn the_board_or_the_table_tells_a_jetson() {
        let root = tempfile::tempdir().unwrap();
        let table = Platforms::open(None).unwrap();
        assert_eq!(PlatformKind::detect(root.path(), None), PlatformKind::Desktop);
        assert_eq!(PlatformKind::detect(root.path(), table.get("h200")), PlatformKind::Desktop);
        assert_eq!(PlatformKind::detect(root.path(), table.get("orin")), PlatformKind::Jetson);
        std::fs::create_dir(root.path().join("etc")).unwrap();
        std::fs::write(root.path().join("etc/nv_tegra_release"), "# R35").unwrap();
        assert_eq!(PlatformKind::detect(root.path(), None), PlatformKind::Jetson);
        assert_eq!(PlatformKind::Jetson.usual_models().len(), 4);
        assert_eq!(PlatformKind::Jetson.hostname(), "jetson-orin");
        assert_eq!(PlatformKind::Desktop.usual_models()[5], "sam2_base_bbox");
    }
}
