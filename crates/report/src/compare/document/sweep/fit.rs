/*!
A frame's time as a line of the number of objects: t = E + M n, by least squares.
*/

use crate::compare::judge::SweepRow;
use crate::compare::sweep::{Axis, Setting, curves};
use vos::record::Judgement;

/// Half width of a two-sided 95 % interval in standard errors: Student's t for 1, 2, … degrees of
/// freedom.
const STUDENT_T: [f64; 10] = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
/// For more degrees of freedom than the table has: a little too wide.
const MORE: f64 = 2.228;

/// A value with the half width of its 95 % interval, ms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Estimate {
    value: f64,
    margin: f64,
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{:.3} ± {:.3} ms", self.value, self.margin)
    }
}

/// A sentence for each curve over the number of objects with three or more usable speeds.
pub fn per_object(axes: &[Axis], rows: &[&SweepRow]) -> Vec<String> {
    let mut lines = Vec::new();
    for curve in curves(axes).into_iter().filter(|c| axes[c.axis].setting == Setting::Objects) {
        let rows = curve.points.iter().filter_map(|at| rows.get(*at));
        let points: Vec<(f64, f64)> = rows.filter_map(|row| time_of(row)).collect();
        let Some([frame, object]) = line(&points) else { continue };
        let others = match curve.others.as_str() {
            "" => String::new(),
            others => format!(" ({others})"),
        };
        lines.push(format!(
            "time of a frame = E + M × objects{others}: E = {frame} for the frame, M = {object} for \
             each object (least squares over {} points, 95 % intervals)",
            points.len()
        ));
    }
    lines
}

/// Objects and ms of a frame of a row whose speed counts.
fn time_of(row: &SweepRow) -> Option<(f64, f64)> {
    let fps = row.object_fps.filter(|fps| *fps > 0.0)?;
    let objects = row.objects_together as f64;
    (row.verdict.judgement != Judgement::Invalid).then(|| (objects, 1000.0 * objects / fps))
}

/// Intercept and slope; none for fewer than three points or for one number of objects.
fn line(points: &[(f64, f64)]) -> Option<[Estimate; 2]> {
    let freedom = points.len().checked_sub(2).filter(|freedom| *freedom > 0)?;
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_n, mean_t) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|(n, _)| (n - mean_n).powi(2)).sum();
    if spread <= 0.0 {
        return None;
    }
    let slope = points.iter().map(|(n, t)| (n - mean_n) * (t - mean_t)).sum::<f64>() / spread;
    let intercept = mean_t - slope * mean_n;
    let residues: f64 = points.iter().map(|(n, t)| (t - intercept - slope * n).powi(2)).sum();
    let variance = residues / freedom as f64;
    let width = STUDENT_T.get(freedom - 1).copied().unwrap_or(MORE);
    let of_slope = (variance / spread).sqrt();
    let of_intercept = (variance * (1.0 / count + mean_n.powi(2) / spread)).sqrt();
    Some([
        Estimate { value: intercept, margin: width * of_intercept },
        Estimate { value: slope, margin: width * of_slope },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(objects: usize, ms: f64, judgement: Judgement) -> SweepRow {
        SweepRow {
            objects_together: objects,
            object_fps: Some(1000.0 * objects as f64 / ms),
            verdict: vos::record::Verdict { judgement, findings: Vec::new() },
            ..SweepRow::default()
        }
    }

    #[test]
    fn a_frame_and_an_object_are_told_apart() {
        let axes = ["objects=1,2,4,8".parse::<Axis>().unwrap()];
        let rows: Vec<_> = [(1, 1.5), (2, 2.1), (4, 3.1), (8, 5.5)]
            .map(|(objects, ms)| row(objects, ms, Judgement::Valid))
            .into();
        let told = |rows: &[SweepRow]| per_object(&axes, &rows.iter().collect::<Vec<_>>());
        // By hand: slope 16.35 / 28.75, intercept 3.05 - 3.75 slope, residues 0.0118261.
        assert_eq!(
            told(&rows),
            ["time of a frame = E + M × objects: E = 0.917 ± 0.284 ms for the frame, M = 0.569 ± \
              0.062 ms for each object (least squares over 4 points, 95 % intervals)"]
        );
        let mut disturbed = rows.clone();
        disturbed[3] = row(8, 50.0, Judgement::Invalid);
        assert!(told(&disturbed)[0].contains("over 3 points"), "an INVALID speed does not count");
        assert_eq!(told(&rows[..2]), Vec::<String>::new(), "two points always lie on a line");
        let elsewhere = ["encode_batch=1,2,4".parse::<Axis>().unwrap()];
        assert!(per_object(&elsewhere, &rows.iter().collect::<Vec<_>>()).is_empty());
    }
}
