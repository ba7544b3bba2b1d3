/*!
Low-resolution mask logits of every frame of an object: what its memories were written from.

A run saves them (`--save-logits`); a teacher-forced run (`--teacher`) takes another run's in place
of its own, on every frame, when it writes the frame's memory. Its own masks are what it is judged
by. So a wrong mask of one frame does not reach later frames by way of the memory, and a drift curve
tells arithmetic from what feedback makes of it (docs/comparing.md).
*/

mod file;
mod npy;

use half::f16;

pub use file::{LogitsFile, file_name};

/// A logit as it is kept. What half precision cannot hold is its largest number: the sigmoid of
/// either is 0 or 1.
pub fn rounded(logit: f32) -> f16 {
    // Not a number stays what it is.
    f16::from_f32(logit.clamp(f16::MIN.to_f32(), f16::MAX.to_f32()))
}

/// What of an object's logits leaves a pass, and what enters it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exchange<'a> {
    /// The pass hands out the logits of each frame.
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
