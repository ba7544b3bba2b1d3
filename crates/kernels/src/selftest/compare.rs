/*!
Outputs against their references: bit for bit, or within limits.
*/

use anyhow::{Result, ensure};

use vos::stats::Timing;

/// A case's outcome.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Elements that were compared.
    pub elements: usize,
    /// Elements that differ.
    pub different: usize,
    /// The relative error, where bits are not compared.
    pub error: Option<f64>,
    /// The first difference in words; none where the case passed.
    pub first: Option<String>,
    /// The time of one launch.
    pub timing: Option<Timing>,
}

impl Checked {
    /// Several outputs of one launch as one outcome: the first that is wrong is named.
    pub fn of_outputs(outputs: &[(&str, Self)]) -> Self {
        for (name, checked) in outputs {
            log::debug!("{name}: {:?} of {} elements", checked.error, checked.elements);
        }
        let all = || outputs.iter().map(|(_, checked)| checked);
        let wrong =
            outputs.iter().find_map(|(name, checked)| Some((name, checked.first.as_ref()?)));
        Self {
            elements: all().map(|checked| checked.elements).sum(),
            different: all().map(|checked| checked.different).sum(),
            error: all().filter_map(|checked| checked.error).reduce(f64::max),
            first: wrong.map(|(name, why)| format!("{name}: {why}")),
            timing: None,
        }
    }

    /// Notes that a further run on the same inputs gave other bits, unless the case failed before.
    pub fn not_repeated(&mut self) {
        let why = || "two runs on the same inputs gave other bits".to_owned();
        self.first.get_or_insert_with(why);
    }
}

/// How far results may be off those of float64.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The relative error, of norms over the sample.
    pub error: f64,
    /// A single element's error, in root mean squares of the elements.
    pub deviation: f64,
}

impl Limits {
    /// A sample of an output, each element's place and expected value, against the elements that
    /// came.
    pub fn judge(&self, sample: &[(usize, f64)], came: impl Fn(usize) -> f64) -> Checked {
        let norm = sample.iter().map(|(_, wanted)| wanted * wanted).sum::<f64>().sqrt();
        let limit = self.deviation * norm / (sample.len() as f64).sqrt();
        let squares = sample.iter().map(|(at, wanted)| (came(*at) - wanted).powi(2));
        let error = squares.sum::<f64>().sqrt() / norm;
        // A NaN is no small difference.
        let off = |(at, wanted): &&(usize, f64)| {
            let difference = (came(*at) - wanted).abs();
            difference.is_nan() || difference > limit
        };
        let different = sample.iter().filter(off).count();
        let first = match sample.iter().find(off) {
            Some((at, wanted)) => Some(format!(
                "{different} elements are off by more than {limit:.1e}, the first is element \
                 {at}: {}, {wanted:.6} is expected",
                came(*at)
            )),
            None if error.is_nan() || error > self.error => {
                Some(format!("the relative error is {error:.1e}, {:.0e} is the limit", self.error))
            }
            None => None,
        };
        Checked { elements: sample.len(), different, error: Some(error), first, timing: None }
    }
}

/// Counts the elements of `width` bytes that differ, and describes the first.
///
/// # Errors
/// Another number of bytes.
pub fn compare(found: &[u8], expected: &[u8], width: usize) -> Result<Checked> {
    ensure!(
        found.len() == expected.len(),
        "{} bytes came, {} are expected",
        found.len(),
        expected.len()
    );
    let elements = expected.len() / width;
    if found == expected {
        return Ok(Checked { elements, different: 0, error: None, first: None, timing: None });
    }
    let pairs = || found.chunks(width).zip(expected.chunks(width)).enumerate();
    let different = pairs().filter(|(_, (found, expected))| found != expected).count();
    let first = pairs().find(|(_, (found, expected))| found != expected);
    let first = first.map(|(at, (found, expected))| {
        let (found, expected) = (hex(found), hex(expected));
        format!(
            "{different} elements differ from the CPU's, the first is element {at}: {found}, \
             {expected} is expected"
        )
    });
    Ok(Checked { elements, different, error: None, first, timing: None })
}

/// A little-endian element as people write numbers.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().rev().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest::row;

    #[test]
    fn a_difference_is_counted_and_shown() {
        let same = compare(&[1, 2, 3, 4], &[1, 2, 3, 4], 2).unwrap();
        assert_eq!((same.elements, same.different, same.first), (2, 0, None));
        let other = compare(&[1, 2, 3, 4], &[1, 2, 3, 5], 2).unwrap();
        assert_eq!((other.elements, other.different), (2, 1));
        assert!(other.first.unwrap().ends_with("element 1: 0x0403, 0x0503 is expected"));
        assert!(compare(&[1], &[1, 2], 1).is_err());
        assert!(row("k", "c", compare(&[1], &[2], 1)).reason.is_some());
        assert_eq!(row("k", "c", compare(&[2], &[2], 1)).reason, None);
    }
}
