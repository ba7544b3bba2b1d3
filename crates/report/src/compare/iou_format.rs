/*!
IoUs as text, rounded down. A mean of many equal frames and one different frame must not print as
1.00000 next to a lowest IoU of 0.9999. The lowest IoU must not print above the mean, and a value
below a limit must not print as the limit.
*/

/// Digits of a mean, which varies less than a single frame.
const MEAN_DIGITS: usize = 5;
/// Digits of one frame's IoU.
const FRAME_DIGITS: usize = 4;

/// A mean over frames.
pub fn mean(iou: f64) -> String {
    down(iou, MEAN_DIGITS)
}

/// The IoU of one frame, such as the lowest.
pub fn frame(iou: f64) -> String {
    down(iou, FRAME_DIGITS)
}

/// A mean and the lowest IoU of its frames, for a table cell.
pub fn pair(mean_iou: f64, lowest: f64) -> String {
    format!("{} / {}", mean(mean_iou), frame(lowest))
}

/// `value`, 0 or more, truncated after `digits` decimals. It is first rounded to twelve decimals,
/// so that 0.9957 does not become 0.9956: its nearest binary number is a little less.
fn down(value: f64, digits: usize) -> String {
    let mut text = format!("{value:.12}");
    if let Some(point) = text.find('.') {
        text.truncate(point + 1 + digits);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_iou_is_rounded_up() {
        // 29 equal frames and one frame with one different pixel in 25000. A real comparison
        // printed "0.99999 / 1.0000" for it.
        assert_eq!(pair(0.999_999, 0.999_96), "0.99999 / 0.9999");
        assert_eq!(frame(0.989_98), "0.9899", "a mismatch at a limit of 0.99 is not 0.9900");
    }

    #[test]
    fn exact_values_stay() {
        assert_eq!(pair(1.0, 1.0), "1.00000 / 1.0000");
        assert_eq!(pair(0.9957, 0.0), "0.99570 / 0.0000");
        assert_eq!(frame(0.1 + 0.2), "0.3000");
    }
}
