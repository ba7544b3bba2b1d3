/*!
The mask decoder's selection among its three candidate masks.

Half precision may select another mask than fp32. A comparison finds such frames by these numbers.
*/

use serde::{Deserialize, Serialize};

/// Predicted IoUs of the candidate masks of one frame, mask tokens 1 to 3.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaskSelection {
    ious: [f32; Self::CANDIDATES],
}

impl MaskSelection {
    /// Candidate masks of a frame.
    pub const CANDIDATES: usize = 3;

    /// The selection by these predicted IoUs; none if one of them is NaN or infinite.
    pub fn new(ious: [f32; Self::CANDIDATES]) -> Option<Self> {
        ious.iter().all(|iou| iou.is_finite()).then_some(Self { ious })
    }

    /// The predicted IoUs.
    pub fn ious(&self) -> [f32; Self::CANDIDATES] {
        self.ious
    }

    /// Number of the selected mask, 1 to 3: the first one with the highest predicted IoU.
    pub fn chosen(&self) -> u8 {
        let [first, second, third] = self.ious;
        match (second > first, third > first.max(second)) {
            (_, true) => 3,
            (true, false) => 2,
            (false, false) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equals_is_selected() {
        let chosen = |ious| MaskSelection::new(ious).map(|selection| selection.chosen());
        assert_eq!(chosen([0.9, 0.1, 0.8]), Some(1));
        assert_eq!(chosen([0.1, 0.9, 0.8]), Some(2));
        assert_eq!(chosen([0.1, 0.8, 0.9]), Some(3));
        assert_eq!(chosen([0.5, 0.5, 0.5]), Some(1));
        assert_eq!(chosen([0.1, 0.5, 0.5]), Some(2));
        assert_eq!(chosen([0.5, 0.1, 0.5]), Some(1));
        assert_eq!(chosen([0.5, f32::NAN, 0.1]), None);
    }
}
