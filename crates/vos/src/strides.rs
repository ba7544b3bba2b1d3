/*!
Strides: the frames of a clip that the network gets, and the annotations that are scored.

Clips have 24 frames a second. A model that gets every second frame sees 12; annotations can be
thinned independently. Only frames that the network got can be scored: the predecessor gave skipped
frames with annotations a score of zero.
*/

use serde::{Deserialize, Serialize};

/// Frames a second of the clips, according to their folder's name.
const CLIP_FPS: f64 = 24.0;

/// Steps between frames, counted from the prompted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strides {
    /// Stride of the network's frames; 1 uses all.
    pub input: usize,
    /// Stride of scored annotations in frames; 0 and 1 score all.
    pub annotation: usize,
}

impl Default for Strides {
    fn default() -> Self {
        Self { input: 1, annotation: 0 }
    }
}

impl Strides {
    /// Whether all frames and annotations are used.
    pub fn leave_nothing_out(self) -> bool {
        self.input <= 1 && self.annotation <= 1
    }

    /// Frames a second of the clip that the network gets.
    pub fn input_fps(self) -> f64 {
        CLIP_FPS / self.input.max(1) as f64
    }

    /// Whether the annotation of frame `index` is scored if the network got the frame; `prompted`
    /// is the prompted frame.
    pub fn scores(self, prompted: usize, index: usize) -> bool {
        index
            .checked_sub(prompted)
            .is_some_and(|after| after.is_multiple_of(self.annotation.max(1)))
    }

    /// The part of the fidelity string about omitted frames.
    pub fn fidelity(self) -> String {
        match self.input {
            0 | 1 => "noskip".to_owned(),
            stride => format!("stride{stride}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_counted_from_the_prompted_frame() {
        let every_eighth = Strides { input: 1, annotation: 8 };
        let scored: Vec<usize> = (0..40).filter(|&index| every_eighth.scores(4, index)).collect();
        assert_eq!(scored, [4, 12, 20, 28, 36]);
        for all in [0, 1] {
            let all = Strides { input: 3, annotation: all };
            assert!((4..40).all(|index| all.scores(4, index)) && !all.scores(4, 3));
        }
    }

    #[test]
    fn a_stride_of_the_input_is_a_lower_rate_and_another_fidelity() {
        let usual = Strides::default();
        assert_eq!((usual.input_fps(), usual.fidelity().as_str()), (24.0, "noskip"));
        let seventh = Strides { input: 7, annotation: 0 };
        assert_eq!((seventh.input_fps(), seventh.fidelity().as_str()), (24.0 / 7.0, "stride7"));
        assert!(usual.leave_nothing_out() && !seventh.leave_nothing_out());
        assert!(!Strides { input: 1, annotation: 4 }.leave_nothing_out());
    }
}
