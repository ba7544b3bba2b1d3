/*!
IoUs as people read them: rounded down. A mean of many frames that are the same and one that is not
must not read 1.00000 beside a lowest of 0.9999, a lowest must not read above the mean, and a number
below a limit must not read as the limit.
*/

/// Digits of a mean: it moves less than a single frame.
const MEAN_DIGITS: usize = 5;
/// Digits of one frame's IoU.
const FRAME_DIGITS: usize = 4;

/// A mean over frames.
pub fn mean(iou: f64) -> String {
    down(iou, MEAN_DIGITS)
}

/// One frame's IoU, such as the lowest.
pub fn frame(iou: f64) -> String {
    down(iou, FRAME_DIGITS)
}

/// A mean and the lowest of its frames, for a cell.
pub fn pair(mean_iou: f64, lowest: f64) -> String {
    format!("{} / {}", mean(mean_iou), frame(lowest))
}

/// `value`, 0 or more, cut behind `digits` decimals. The twelve that come first keep 0.9957, whose
/// nearest binary number is a little less, from becoming 0.9956.
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
    fn nothing_reads_as_more_than_it_is() {
        // 29 frames that are the same, and one of which a pixel in 25000 is not: what a real
        // comparison printed as "0.99999 / 1.0000".
        assert_eq!(pair(0.999_999, 0.999_96), "0.99999 / 0.9999");
        assert_eq!(frame(0.989_98), "0.9899", "a mismatch at a limit of 0.99 is not 0.9900");
    }

    #[test]
    fn what_is_exact_stays() {
        assert_eq!(pair(1.0, 1.0), "1.00000 / 1.0000");
        assert_eq!(pair(0.9957, 0.0), "0.99570 / 0.0000");
        assert_eq!(frame(0.1 + 0.2), "0.3000");
    }
}
