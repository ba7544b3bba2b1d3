/*!
The encode stage of a run: the output that is encoded, and the thread that does it.
*/

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The output of the encode stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EncodeOutput {
    /// The frames with their masks: an mp4 with ffmpeg, else PNG files.
    Overlay,
    /// Palette PNG files.
    Masks,
}

/// Whether a frame's time includes its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EncodePlace {
    /// On the frame's thread, inside its time.
    Inside,
    /// On another thread, outside its time.
    Beside,
}

/// An encode stage, in text such as `overlay,inside`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncodeStage {
    /// The output.
    pub output: EncodeOutput,
    /// Inside the frame's time or beside it.
    pub place: EncodePlace,
}

impl fmt::Display for EncodeStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let output = match self.output {
            EncodeOutput::Overlay => "overlay",
            EncodeOutput::Masks => "masks",
        };
        let place = match self.place {
            EncodePlace::Inside => "inside",
            EncodePlace::Beside => "beside",
        };
        write!(f, "{output},{place}")
    }
}

impl FromStr for EncodeStage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (output, place) = text.split_once(',').unwrap_or((text, "beside"));
        let output = match output {
            "overlay" => EncodeOutput::Overlay,
            "masks" => EncodeOutput::Masks,
            _ => return Err(format!("{output:?} is no output; expected overlay or masks")),
        };
        let place = match place {
            "inside" => EncodePlace::Inside,
            "beside" => EncodePlace::Beside,
            _ => return Err(format!("{place:?} is no place; expected inside or beside")),
        };
        Ok(Self { output, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_reads_back_and_is_beside_by_default() {
        for text in ["overlay,inside", "overlay,beside", "masks,inside", "masks,beside"] {
            assert_eq!(text.parse::<EncodeStage>().unwrap().to_string(), text);
        }
        assert_eq!("masks".parse::<EncodeStage>().unwrap().to_string(), "masks,beside");
        assert!("film".parse::<EncodeStage>().unwrap_err().contains("overlay or masks"));
        assert!("masks,".parse::<EncodeStage>().unwrap_err().contains("inside or beside"));
    }
}
