/*!
Low-resolution mask logits of every frame of an object, from which its memories are written.

A run saves them with `--save-logits`. A teacher-forced run (`--teacher`) writes each frame's memory
from another run's logits, and its own masks are judged. So a wrong mask of one frame does not
affect later frames through the memory, and the drift curve shows the error of the arithmetic
without feedback (docs/explanation/how-we-compare.md).
*/

mod file;
mod npy;

use half::f16;

pub use file::{LogitsFile, file_name};

/// A logit as stored. Values beyond f16's range become its largest number, for which the sigmoid is
/// 0 or 1 too.
pub fn rounded(logit: f32) -> f16 {
    // NaN stays NaN.
    f16::from_f32(logit.clamp(f16::MIN.to_f32(), f16::MAX.to_f32()))
}

/// Logits that a pass outputs and takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exchange<'a> {
    /// The pass outputs the logits of each frame.
    pub save: bool,
    /// It writes its memories from these logits, the prompted frame's first.
    pub teacher: Option<&'a LogitsFile>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_are_rounded_and_never_infinite() {
        assert_eq!(rounded(-1024.0).to_f32(), -1024.0);
        assert_eq!(rounded(1.0 / 3.0).to_f32(), 0.333_251_95);
        assert_eq!(rounded(-7e4), f16::MIN);
        assert_eq!(rounded(f32::INFINITY), f16::MAX);
        assert!(rounded(f32::NAN).is_nan());
    }
}
