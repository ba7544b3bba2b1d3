/*!
How faithfully a row follows the original code: sizes of the memory bank and where pixels come from.
*/

use serde::{Deserialize, Serialize};

use crate::preprocess::Filter;
use crate::stored_values::Values;
use crate::strides::Strides;

/// The facts besides the network that determine the masks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fidelity {
    /// Frames that the memory bank holds.
    pub memories: usize,
    /// Object pointers that it holds.
    pub pointers: usize,
    /// How the frames were resized.
    #[serde(default)]
    pub resize: Filter,
    /// nvJPEG decoded the frames: the pixels are not Pillow's.
    #[serde(default)]
    pub nvjpeg: bool,
    /// The frames were decoded ahead of the run and stored as these values.
    #[serde(default)]
    pub predecoded: Option<Values>,
    /// The clip is a video file, which this program decoded.
    #[serde(default)]
    pub video_decoder: Option<String>,
}

impl Fidelity {
    /// `mem7/ptr16/1024/pil13-bicubic/noskip/nofill`.
    pub(super) fn label(&self, imgsz: usize, strides: Strides) -> String {
        let nvjpeg = if self.nvjpeg { "-nvjpeg" } else { "" };
        let stored = self.predecoded.map(|values| format!("-predecoded-{}", values.name()));
        let video = self.video_decoder.as_ref().map(|decoder| format!("-{decoder}"));
        format!(
            "mem{}/ptr{}/{imgsz}/{}{nvjpeg}{}{}/{}/nofill",
            self.memories,
            self.pointers,
            self.resize.fidelity(),
            stored.unwrap_or_default(),
            video.unwrap_or_default(),
            strides.fidelity()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Conditions;

    #[test]
    fn a_videos_decoder_follows_the_resize() {
        let fidelity = Fidelity {
            memories: 7,
            pointers: 16,
            resize: Filter::PillowBicubic,
            nvjpeg: false,
            predecoded: Some(Values::U8),
            video_decoder: None,
        };
        let conditions =
            Conditions { imgsz: 256, fidelity: Some(fidelity), ..Conditions::default() };
        assert_eq!(conditions.of_video(None), conditions);
        assert_eq!(
            conditions.of_video(Some("ffmpeg-5.1.9")).fidelity().as_deref(),
            Some("mem7/ptr16/256/pil13-bicubic-predecoded-u8-ffmpeg-5.1.9/noskip/nofill")
        );
    }
}
