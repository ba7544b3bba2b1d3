/*!
Sweeps: a side with every combination of several settings.
*/

use std::str::FromStr;

/// A setting with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The setting.
    pub setting: Setting,
    /// Its values, in the order of the command line.
    pub values: Vec<String>,
}

/// Settings that can be swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// Precision of graphs or engines.
    Precision,
    /// Objects tracked together.
    Objects,
    /// Side of the network input.
    Imgsz,
}

/// One combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination {
    /// `fp32` or `fp16`.
    pub precision: String,
    /// Objects tracked together; none if the sweep has no such axis.
    pub objects: Option<usize>,
    /// Side of the network input, pixels; none if the sweep has no such axis.
    pub imgsz: Option<usize>,
}

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected precision=fp32,fp16, objects=1,2,4 or imgsz=512,1024";
        let Some((name, values)) = text.split_once('=') else {
            return Err(format!("{text:?} has no '='; {expected}"));
        };
        let setting = match name.trim() {
            "precision" => Setting::Precision,
            "objects" => Setting::Objects,
            "imgsz" => Setting::Imgsz,
            other => return Err(format!("{other:?} cannot be swept; {expected}")),
        };
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        for (at, value) in values.iter().enumerate() {
            let good = match setting {
                Setting::Precision => ["fp32", "fp16"].contains(&value.as_str()),
                Setting::Objects | Setting::Imgsz => value.parse::<usize>().is_ok_and(|n| n > 0),
            };
            if !good {
                return Err(format!("{value:?} is no value of {name}; {expected}"));
            }
            if values[..at].contains(value) {
                return Err(format!("{name} has {value} twice"));
            }
        }
        Ok(Self { setting, values })
    }
}

/// Every combination of the axes. A sweep without the axis `precision` uses `precision`. An error
/// text if an axis appears twice.
pub fn combinations(axes: &[Axis], precision: &str) -> Result<Vec<Combination>, String> {
    let base = Combination { precision: precision.to_owned(), objects: None, imgsz: None };
    let mut all = vec![base];
    for (at, axis) in axes.iter().enumerate() {
        if axes[..at].iter().any(|known| known.setting == axis.setting) {
            return Err(format!("{:?} is swept twice; give all its values at once", axis.setting)
                .to_lowercase());
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
        let number = || value.parse().ok();
        match setting {
            Setting::Precision => Self { precision: value.to_owned(), ..self.clone() },
            Setting::Objects => Self { objects: number(), ..self.clone() },
            Setting::Imgsz => Self { imgsz: number(), ..self.clone() },
        }
    }

    /// Its name in folders: `fp16_x2_1024`.
    pub fn name(&self) -> String {
        let objects = self.objects.map_or_else(String::new, |n| format!("_x{n}"));
        let imgsz = self.imgsz.map_or_else(String::new, |side| format!("_{side}"));
        format!("{}{objects}{imgsz}", self.precision)
    }
}

/// The index of each combination's reference: of the same size, in fp32 if possible and else in its
/// precision, with the fewest objects together. It may be the combination itself.
pub fn references(all: &[Combination]) -> Vec<usize> {
    let single = "fp32";
    let of = |combination: &Combination| {
        let same_size = |other: &&(usize, &Combination)| other.1.imgsz == combination.imgsz;
        let numbered: Vec<(usize, &Combination)> = all.iter().enumerate().collect();
        let candidates: Vec<_> = numbered.iter().filter(same_size).collect();
        let precision = match candidates.iter().any(|(_, other)| other.precision == single) {
            true => single,
            false => combination.precision.as_str(),
        };
        let fits = candidates.iter().filter(|(_, other)| other.precision == precision);
        fits.min_by_key(|(_, other)| other.objects).map_or(0, |(at, _)| *at)
    };
    all.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(texts: &[&str]) -> Vec<Axis> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn every_combination_comes_once_in_order() {
        let all = combinations(&axes(&["precision=fp32,fp16", "imgsz=512,1024"]), "fp16").unwrap();
        let names: Vec<String> = all.iter().map(Combination::name).collect();
        assert_eq!(names, ["fp32_512", "fp32_1024", "fp16_512", "fp16_1024"]);
        assert_eq!(references(&all), [0, 1, 0, 1]);
        let all = combinations(&axes(&["objects=2,1,4"]), "fp16").unwrap();
        assert_eq!(
            all.iter().map(Combination::name).collect::<Vec<_>>(),
            ["fp16_x2", "fp16_x1", "fp16_x4"]
        );
        assert_eq!(references(&all), [1, 1, 1]);
        assert_eq!(combinations(&[], "fp32").unwrap().len(), 1);
    }

    #[test]
    fn what_cannot_be_swept_is_refused() {
        for (text, says) in [
            ("precision", "has no '='"),
            ("batch=1", "\"batch\" cannot be swept"),
            ("precision=fp8", "\"fp8\" is no value"),
            ("objects=0", "\"0\" is no value"),
            ("imgsz=", "\"\" is no value"),
            ("imgsz=512,512", "512 twice"),
        ] {
            let error = text.parse::<Axis>().unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let twice = combinations(&axes(&["objects=1", "objects=2"]), "fp16").unwrap_err();
        assert_eq!(twice, "objects is swept twice; give all its values at once");
    }
}
