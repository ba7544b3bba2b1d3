/*!
Maps numbers to positions on an axis, and chooses the round numbers of its ticks.
*/

/// Values that span more than this ratio are drawn on a logarithmic axis.
const LOG_FROM_RATIO: f64 = 25.0;

/// An axis: an interval of values mapped to an interval of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// From zero to a little above all values, which are not negative, mapped to `from..to` of the
    /// picture.
    pub fn from_zero(values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Self {
        let most = finite(values).fold(0.0, f64::max);
        // The highest mark keeps a little distance from the corner.
        Self::between(0.0, if most > 0.0 { most * 1.04 } else { 1.0 }, from, to)
    }

    /// Around the values; logarithmic if they span orders of magnitude. Without values it is 0..1.
    pub fn around(values: impl IntoIterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let most = finite(values.clone()).fold(f64::NEG_INFINITY, f64::max);
        let least = finite(values).fold(f64::INFINITY, f64::min);
        if !most.is_finite() || !least.is_finite() {
            return Self::between(0.0, 1.0, from, to);
        }
        if least > 0.0 && most / least > LOG_FROM_RATIO {
            let (low, high) = (decade_part(least, f64::floor), decade_part(most, f64::ceil));
            return Self { low, high, from, to, log: true };
        }
        let span = most - least;
        let span = if span > 0.0 { span } else { most.abs().max(1e-9) * 0.2 };
        let low = least - 0.03 * span;
        let low = if least >= 0.0 { low.max(0.0) } else { low };
        Self::between(low, most + 0.03 * span, from, to)
    }

    /// As [`Self::from_zero`] for values of similar size, logarithmic for others.
    pub fn rates(values: impl IntoIterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let around = Self::around(values.clone(), from, to);
        if around.log { around } else { Self::from_zero(values, from, to) }
    }

    /// Around values of similar size with some space; logarithmic for others.
    pub fn zoomed(values: impl IntoIterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let around = Self::around(values.clone(), from, to);
        if around.log { around } else { Self::zoomed_linear(values, from, to) }
    }

    /// Around the values with an eighth of their span as space on both sides, not below zero.
    pub fn zoomed_linear(
        values: impl IntoIterator<Item = f64> + Clone,
        from: f64,
        to: f64,
    ) -> Self {
        let most = finite(values.clone()).fold(f64::NEG_INFINITY, f64::max);
        let least = finite(values).fold(f64::INFINITY, f64::min);
        if !most.is_finite() || !least.is_finite() {
            return Self::between(0.0, 1.0, from, to);
        }
        let span = most - least;
        let span = if span > 0.0 { span } else { most.abs().max(1e-9) * 0.2 };
        let low = least - span / 8.0;
        Self::between(if least >= 0.0 { low.max(0.0) } else { low }, most + span / 8.0, from, to)
    }

    /// The lower end.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// Exactly from `low` to `high`.
    pub fn between(low: f64, high: f64, from: f64, to: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, from, to, log: false }
    }

    /// Position of a value; values outside are moved to the nearer end.
    pub fn at(&self, value: f64) -> f64 {
        let part = match self.log {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Whether equal distances are equal ratios.
    pub fn is_log(&self) -> bool {
        self.log
    }

    /// Round values along the axis with their labels.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        if self.log {
            return self.log_ticks();
        }
        let step = step(self.high - self.low, 5.0);
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last)
            .map(|n| n as f64 * step)
            .map(|value| (value, thousands(value, digits)))
            .collect()
    }

    fn log_ticks(&self) -> Vec<(f64, String)> {
        let decades = (self.high / self.low).log10();
        let parts: &[f64] = if decades > 3.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let values =
            (first..=last).flat_map(|power| parts.iter().map(move |part| part * 10f64.powi(power)));
        let inside = |value: &f64| *value >= self.low * 0.999 && *value <= self.high * 1.001;
        let label = |value: f64| thousands(value, (-value.log10().floor()).max(0.0) as usize);
        values.filter(inside).map(|value| (value, label(value))).collect()
    }
}

fn finite(values: impl IntoIterator<Item = f64>) -> impl Iterator<Item = f64> {
    values.into_iter().filter(|value| value.is_finite())
}

/// A round step, 1, 2 or 5 times a power of ten, that divides `span` into about `count` parts.
fn step(span: f64, count: f64) -> f64 {
    let raw = span / count;
    let power = 10f64.powf(raw.log10().floor());
    let part = raw / power;
    power
        * if part <= 1.0 {
            1.0
        } else if part <= 2.0 {
            2.0
        } else if part <= 5.0 {
            5.0
        } else {
            10.0
        }
}

/// The next of 1, 2, 5 times a power of ten in the direction of `rounded`.
fn decade_part(value: f64, rounded: fn(f64) -> f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let part = value / power;
    let up = rounded(0.5) > 0.5;
    let parts = [1.0, 2.0, 5.0, 10.0];
    let chosen = match up {
        true => parts.into_iter().find(|candidate| *candidate >= part * 0.999_999),
        false => parts.into_iter().rev().find(|candidate| *candidate <= part * 1.000_001),
    };
    power * chosen.unwrap_or(1.0)
}

/// A number with thin spaces between thousands.
pub fn thousands(value: f64, digits: usize) -> String {
    let text = format!("{:.digits$}", value.abs());
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let mut out = String::new();
    if value < 0.0 && text.bytes().any(|byte| byte.is_ascii_digit() && byte != b'0') {
        out.push('−');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) && whole.len() > 4 {
            out.push('\u{a0}');
        }
        out.push(digit);
    }
    if let Some(rest) = rest {
        out.push('.');
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let scale = Scale::from_zero([3.0, 466.2], 0.0, 100.0);
        assert_eq!(labels(&scale), ["0", "100", "200", "300", "400"]);
        assert_eq!((scale.at(0.0), scale.at(484.848), scale.at(900.0)), (0.0, 100.0, 100.0));
        assert_eq!(labels(&Scale::from_zero([0.61], 0.0, 1.0)), ["0.0", "0.2", "0.4", "0.6"]);
        assert_eq!(labels(&Scale::from_zero([], 0.0, 1.0)).len(), 6);
    }

    #[test]
    fn values_of_different_size_get_a_logarithmic_axis() {
        let scale = Scale::around([2.1, 480.0], 0.0, 100.0);
        assert!(scale.is_log());
        assert_eq!(labels(&scale), ["2", "5", "10", "20", "50", "100", "200", "500"]);
        assert!((scale.at(2.0), scale.at(500.0)) == (0.0, 100.0) && scale.at(0.0) == 0.0);
        assert!((scale.at(1000f64.sqrt()) - 50.0).abs() < 1e-9);
        assert!(!Scale::around([2.0, 40.0], 0.0, 1.0).is_log());
        assert!(!Scale::around([0.0, 40.0], 0.0, 1.0).is_log());
    }

    #[test]
    fn equal_and_missing_values_still_make_an_axis() {
        for scale in [
            Scale::around([2.15, 2.15], 0.0, 100.0),
            Scale::around([], 0.0, 100.0),
            Scale::around([f64::NAN, f64::INFINITY], 0.0, 100.0),
            Scale::from_zero([0.0], 0.0, 100.0),
            Scale::between(3.0, 3.0, 0.0, 100.0),
        ] {
            assert!(scale.ticks().len() >= 2, "{scale:?}");
            assert!(scale.at(2.15).is_finite());
        }
    }

    #[test]
    fn numbers_are_spaced_by_thousands() {
        assert_eq!(thousands(1234.0, 0), "1234");
        assert_eq!(thousands(12345.6, 1), "12\u{a0}345.6");
        assert_eq!(thousands(-0.004, 2), "0.00");
        assert_eq!(thousands(-1.5, 1), "−1.5");
    }
}
