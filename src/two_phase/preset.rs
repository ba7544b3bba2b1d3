/*!
The presets of the predecessor's `run_jetson_benchmark.sh`. There they overrode what the user typed;
here the user wins.
*/

use clap::ValueEnum;

/// Flags that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// One object of one clip at 384 pixels with EdgeTAM.
    Quick,
    /// 1024 pixels.
    Standard,
    /// 512 pixels, few frames in memory, half the workspace.
    MemorySafe,
    /// 1024 pixels; SAM 2.1 tiny, small and base+ and EdgeTAM, by points and by box.
    Full,
}

/// The values of a preset; `None` leaves the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PresetValues {
    /// Side of the network input, pixels.
    pub imgsz: Option<usize>,
    /// Clips.
    pub limit_videos: Option<usize>,
    /// Objects of each clip.
    pub limit_objects: Option<usize>,
    /// Model tags.
    pub models: Option<&'static str>,
    /// Most frames in memory.
    pub max_frames_in_mem: Option<u32>,
    /// Cap of TensorRT's workspace, MiB.
    pub workspace_mb: Option<u64>,
}

/// All models of the full preset.
const FULL: &str = "sam2_tiny_points,sam2_tiny_bbox,sam2_small_points,sam2_small_bbox,\
    sam2_base_points,sam2_base_bbox,edgetam_points,edgetam_bbox";

impl Preset {
    /// Its values.
    pub fn values(self) -> PresetValues {
        let none = PresetValues::default();
        match self {
            Self::Quick => PresetValues {
                imgsz: Some(384),
                limit_videos: Some(1),
                limit_objects: Some(1),
                models: Some("edgetam_points"),
                max_frames_in_mem: Some(300),
                ..none
            },
            Self::Standard => {
                PresetValues { imgsz: Some(1024), max_frames_in_mem: Some(600), ..none }
            }
            Self::MemorySafe => PresetValues {
                imgsz: Some(512),
                max_frames_in_mem: Some(300),
                workspace_mb: Some(128),
                ..none
            },
            Self::Full => PresetValues { imgsz: Some(1024), models: Some(FULL), ..none },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::model_tag::ModelTag;
    use vos::prompt::PromptKind;

    #[test]
    fn the_full_preset_names_models_that_are_known() {
        let tags: Vec<&str> = FULL.split(',').collect();
        assert_eq!(tags.len(), 8);
        assert!(tags.iter().all(|tag| ModelTag::parse(tag, PromptKind::Mask).is_some()));
    }
}
