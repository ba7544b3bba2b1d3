/*!
What a row's fidelity says of the clip at hand.
*/

use super::Conditions;

/// Which of the string's parts, split by slashes, is the resize.
const RESIZE: usize = 3;

impl Conditions {
    /// Those of a clip that is a video file, which `decoder` decoded: the resize of the fidelity
    /// names it. `None`: the clip's frames are JPEG files.
    #[must_use]
    pub fn of_video(&self, decoder: Option<&str>) -> Self {
        let Some(decoder) = decoder else { return self.clone() };
        let mut parts: Vec<String> = self.fidelity.split('/').map(str::to_owned).collect();
        if let Some(resize) = parts.get_mut(RESIZE) {
            *resize = format!("{resize}-{decoder}");
        }
        Self { fidelity: parts.join("/"), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_videos_decoder_stands_behind_the_resize() {
        let fidelity = "mem7/ptr16/256/bicubic-predecoded-u8/noskip/nofill".to_owned();
        let conditions = Conditions { fidelity, ..Conditions::default() };
        assert_eq!(conditions.of_video(None), conditions);
        assert_eq!(
            conditions.of_video(Some("ffmpeg-5.1.9")).fidelity,
            "mem7/ptr16/256/bicubic-predecoded-u8-ffmpeg-5.1.9/noskip/nofill"
        );
    }
}
