/*!
Sweeps: a side with every combination of several settings.
*/

mod setting;

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use setting::Setting;

/// A setting with its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// The setting.
    pub setting: Setting,
    /// Its values, in the order of the command line.
    pub values: Vec<String>,
}

/// A setting with one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coordinate {
    /// The setting.
    pub setting: Setting,
    /// Its value.
    pub value: String,
}

/// One combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination {
    /// `fp32`, `fp16` or `mixed`.
    pub precision: String,
    /// The swept settings with their values, in the order of the axes.
    pub point: Vec<Coordinate>,
}

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = Setting::ALL.into_iter().map(Setting::name).collect();
        let Some((name, values)) = text.split_once('=') else {
            return Err(format!(
                "{text:?} has no '='; expected NAME=VALUE,… such as encode_batch=1,2,4"
            ));
        };
        let Some(setting) = Setting::of_name(name.trim()) else {
            return Err(format!("{name:?} cannot be swept; expected one of {}", names.join(", ")));
        };
        let mut found: Vec<String> = Vec::new();
        for value in values.split(',').map(str::trim) {
            let Some(value) = setting.value(value) else {
                return Err(format!(
                    "{value:?} is no value of {}; expected {}",
                    setting.name(),
                    setting.expected()
                ));
            };
            if found.contains(&value) {
                return Err(format!("{} has {value} twice", setting.name()));
            }
            found.push(value);
        }
        Ok(Self { setting, values: found })
    }
}

impl Display for Axis {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}={}", self.setting.name(), self.values.join(","))
    }
}

/// Every combination of the axes; the last axis varies fastest. A sweep without the axis
/// `precision` uses `precision`. An error text if an axis appears twice.
pub fn combinations(axes: &[Axis], precision: &str) -> Result<Vec<Combination>, String> {
    let base = Combination { precision: precision.to_owned(), point: Vec::new() };
    let mut all = vec![base];
    for (at, axis) in axes.iter().enumerate() {
        if axes[..at].iter().any(|known| known.setting == axis.setting) {
            return Err(format!(
                "{} is swept twice; give all its values at once",
                axis.setting.name()
            ));
        }
        all = all
            .iter()
            .flat_map(|so_far| {
                axis.values.iter().map(move |value| so_far.with(axis.setting, value))
            })
            .collect();
    }
    Ok(all)
}

impl Combination {
    fn with(&self, setting: Setting, value: &str) -> Self {
        let mut next = self.clone();
        if setting == Setting::Precision {
            value.clone_into(&mut next.precision);
        }
        next.point.push(Coordinate { setting, value: value.to_owned() });
        next
    }

    /// The value of a setting, if it is swept.
    pub fn value(&self, setting: Setting) -> Option<&str> {
        let found = self.point.iter().find(|coordinate| coordinate.setting == setting);
        found.map(|coordinate| coordinate.value.as_str())
    }

    /// The same as a number.
    pub fn number(&self, setting: Setting) -> Option<usize> {
        self.value(setting)?.parse().ok()
    }

    /// Its name in folders and of its Nsight Systems report: `encode_batch_04`,
    /// `precision_fp16-imgsz_0512`.
    pub fn name(&self) -> String {
        let part = |Coordinate { setting, value }: &Coordinate| {
            format!("{}_{}", setting.name(), setting.padded(value))
        };
        match self.point.as_slice() {
            [] => self.precision.clone(),
            point => point.iter().map(part).collect::<Vec<_>>().join("-"),
        }
    }

    /// What decides over the network's input.
    fn input(&self) -> Vec<&Coordinate> {
        self.point.iter().filter(|coordinate| coordinate.setting.changes_input()).collect()
    }
}

/// The index of each combination's reference: of the same size and decoder, in fp32 if possible and
/// else in its precision, with the fewest objects together. It may be the combination itself, and
/// is one of the `usable` ones where there is any.
pub fn references(all: &[Combination], usable: &[bool]) -> Vec<usize> {
    let single = "fp32";
    let of = |(own, combination): (usize, &Combination)| {
        let fits = |other: &&(usize, &Combination)| {
            other.1.input() == combination.input() && usable.get(other.0) == Some(&true)
        };
        let numbered: Vec<(usize, &Combination)> = all.iter().enumerate().collect();
        let candidates: Vec<_> = numbered.iter().filter(fits).collect();
        let precision = match candidates.iter().any(|(_, other)| other.precision == single) {
            true => single,
            false => combination.precision.as_str(),
        };
        let fits = candidates.iter().filter(|(_, other)| other.precision == precision);
        fits.min_by_key(|(_, other)| other.number(Setting::Objects)).map_or(own, |(at, _)| *at)
    };
    all.iter().enumerate().map(of).collect()
}

/// The indices of the points before each point, nearest first: along the last axis on which it is
/// not at the first value, all other settings the same. None for the very first point.
pub fn steps_before(axes: &[Axis], at: usize) -> Vec<usize> {
    // The distance between two neighbours on the axis.
    let mut stride = 1;
    for axis in axes.iter().rev() {
        let place = at / stride % axis.values.len();
        if place > 0 {
            return (1..=place).map(|back| at - back * stride).collect();
        }
        stride *= axis.values.len();
    }
    Vec::new()
}

/// A curve of a sweep: the points along its longest axis, all other settings the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Index of the axis.
    pub axis: usize,
    /// The other settings, such as `precision fp16`; empty with one axis.
    pub others: String,
    /// Indices of the points, in the order of the axis.
    pub points: Vec<usize>,
}

/// All curves: along the axis with the most values, the last of equal ones.
pub fn curves(axes: &[Axis]) -> Vec<Curve> {
    let Some(along) = (0..axes.len()).max_by_key(|at| axes[*at].values.len()) else {
        return Vec::new();
    };
    let total: usize = axes.iter().map(|axis| axis.values.len()).product();
    let places = |point: usize| {
        let mut rest = point;
        let mut places: Vec<usize> = axes
            .iter()
            .rev()
            .map(|axis| {
                let place = rest % axis.values.len();
                rest /= axis.values.len();
                place
            })
            .collect();
        places.reverse();
        places
    };
    let mut found: Vec<Curve> = Vec::new();
    for point in 0..total {
        let places = places(point);
        let others: Vec<String> = (0..axes.len())
            .filter(|at| *at != along)
            .map(|at| format!("{} {}", axes[at].setting.name(), axes[at].values[places[at]]))
            .collect();
        let others = others.join(", ");
        match found.iter_mut().find(|curve| curve.others == others) {
            Some(curve) => curve.points.push(point),
            None => found.push(Curve { axis: along, others, points: vec![point] }),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(texts: &[&str]) -> Vec<Axis> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn names(axes: &[Axis]) -> Vec<String> {
        combinations(axes, "fp16").unwrap().iter().map(Combination::name).collect()
    }

    #[test]
    fn every_combination_comes_once_in_order() {
        let two = axes(&["precision=fp32,fp16", "imgsz=512,1024"]);
        let expected = ["fp32-imgsz_0512", "fp32-imgsz_1024", "fp16-imgsz_0512", "fp16-imgsz_1024"];
        assert_eq!(names(&two), expected.map(|name| format!("precision_{name}")));
        let all = combinations(&two, "fp16").unwrap();
        assert_eq!(references(&all, &[true; 4]), [0, 1, 0, 1]);
        assert_eq!(references(&all, &[false, true, true, true]), [0, 1, 2, 1], "it failed");
        let objects = axes(&["objects=2,1,4"]);
        assert_eq!(names(&objects), ["objects_02", "objects_01", "objects_04"]);
        assert_eq!(references(&combinations(&objects, "fp16").unwrap(), &[true; 3]), [1, 1, 1]);
        assert_eq!(names(&[]), ["fp16"]);
        // nvJPEG's pixels are others.
        let decoders = combinations(&axes(&["jpeg-decoder=turbo,nvjpeg"]), "fp16").unwrap();
        assert_eq!(references(&decoders, &[true; 2]), [0, 1]);
    }

    #[test]
    fn names_sort_as_their_numbers_do() {
        let given = axes(&["encode_batch=1,2,4,8,16"]);
        let names = names(&given);
        assert_eq!((names[0].as_str(), names[4].as_str()), ("encode_batch_01", "encode_batch_16"));
        assert!(names.is_sorted());
        assert_eq!(given[0].to_string(), "encode_batch=1,2,4,8,16");
    }

    #[test]
    fn a_step_changes_one_setting() {
        let one = axes(&["encode_batch=1,2,4"]);
        assert_eq!([0, 1, 2].map(|at| steps_before(&one, at)), [vec![], vec![0], vec![1, 0]]);
        let two = axes(&["precision=fp32,fp16", "imgsz=256,512,1024"]);
        assert_eq!(steps_before(&two, 3), [0], "fp16 at 256 follows fp32 at 256");
        assert_eq!(steps_before(&two, 5), [4, 3]);
        let curves = curves(&two);
        assert_eq!(curves[1].others, "precision fp16");
        assert_eq!((curves[1].axis, curves[1].points.as_slice()), (1, &[3, 4, 5][..]));
        let square = super::curves(&axes(&["encode_batch=1,2,4", "precision=fp32,fp16"]));
        assert_eq!((square.len(), square[1].points.as_slice()), (2, &[1, 3, 5][..]));
    }

    #[test]
    fn what_cannot_be_swept_is_refused() {
        for (text, says) in [
            ("precision", "has no '='"),
            ("batch=1", "\"batch\" cannot be swept; expected one of lanes, encode_batch"),
            ("precision=fp8", "\"fp8\" is no value of precision; expected fp32, fp16 or mixed"),
            ("objects=0", "\"0\" is no value"),
            ("encode_batch=3", "expected 1, 2, 4, 8 or 16"),
            ("encode_ahead=33", "expected 1 to 32"),
            ("imgsz=", "\"\" is no value"),
            ("imgsz=512,0512", "512 twice"),
        ] {
            let error = text.parse::<Axis>().unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let twice = combinations(&axes(&["objects=1", "objects=2"]), "fp16").unwrap_err();
        assert_eq!(twice, "objects is swept twice; give all its values at once");
    }
}
