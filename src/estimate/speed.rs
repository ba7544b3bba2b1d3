/*!
The range of FPS that a roofline allows.
*/

use serde::Serialize;

use vos::roofline::{REACHED_ON, Reached};

/// FPS of one object with one frame in flight.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FpsRange {
    /// At 100 % of the roofline: no implementation is faster.
    pub most: f64,
    /// At the share of the roofline that this model reached elsewhere; none of a model that was not
    /// measured.
    pub least: Option<f64>,
    /// That share in words, with its source.
    pub least_from: Option<String>,
}

impl FpsRange {
    /// For a frame with this least time, ms.
    pub fn of(model: &str, imgsz: usize, frame_ms: f64) -> Self {
        let most = 1e3 / frame_ms;
        let reached = Reached::nearest(model, imgsz);
        Self {
            most,
            least: reached.map(|row| row.share() * most),
            least_from: reached.map(|row| {
                let Reached { model, imgsz, .. } = row;
                format!(
                    "{:.0} % of the roofline, as {model} at {imgsz} pixels on {REACHED_ON}",
                    100.0 * row.share()
                )
            }),
        }
    }

    /// "12 to 80", or "up to 80".
    pub fn text(&self) -> String {
        let number = |fps: f64| match fps {
            fps if fps < 10.0 => format!("{fps:.1}"),
            fps => format!("{fps:.0}"),
        };
        match self.least {
            Some(least) => format!("{} to {}", number(least), number(self.most)),
            None => format!("up to {}", number(self.most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_end_is_the_share_that_was_reached_elsewhere() {
        let range = FpsRange::of("edgetam", 1024, 5.0);
        assert_eq!((range.most, range.text().as_str()), (200.0, "44 to 200"));
        let from = range.least_from.unwrap();
        assert!(from.contains("22 %") && from.contains("H200"), "{from}");
        assert_eq!(FpsRange::of("edgetam_mini", 256, 125.0).text(), "up to 8.0");
    }
}
