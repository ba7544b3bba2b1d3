/*!
Which of the algorithms that cuBLASLt names each product of a trunk gets: found where engines are built, and kept with them, so that what is
computed is the same from run to run, which a choice at every start would not promise.
*/

use std::fmt;

use serde::{Deserialize, Serialize};

use super::library::CublasLt;
use super::shape::MatmulShape;

/// The algorithms of all products of a trunk, on one GPU with one library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    /// "cuBLASLt 13.1.0 (for CUDA 13)"
    pub library: String,
    /// The GPU's name.
    pub device: String,
    /// Microseconds of all blocks: with cuBLASLt's own choices, and with these.
    pub us: [f64; 2],
    /// One for each shape.
    pub products: Vec<Choice>,
    /// What begins before the kernel in front of it has ended.
    #[serde(default, skip_serializing_if = "Early::is_none")]
    pub begin_early: Early,
    /// This program's kernels that had their turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
}

/// The kinds of this program's kernels that begin before the kernel in front of them has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Early {
    /// Products, with what is behind them.
    pub products: bool,
    /// Attention inside windows.
    pub windows: bool,
    /// Norms by themselves.
    pub norms: bool,
}

impl Early {
    /// All kinds.
    pub const ALL: Self = Self { products: true, windows: true, norms: true };

    /// None of them.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Every way in which any of these kinds do, each once.
    pub fn ways(self) -> impl Iterator<Item = Self> {
        let all = (1..8).map(|bits| Self {
            products: bits & 1 > 0,
            windows: bits & 2 > 0,
            norms: bits & 4 > 0,
        });
        all.filter(move |way| {
            (self.products || !way.products)
                && (self.windows || !way.windows)
                && (self.norms || !way.norms)
        })
    }
}

impl fmt::Display for Early {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { products, windows, norms } = *self;
        let kinds = [(products, "products"), (windows, "windows"), (norms, "norms")];
        let named: Vec<&str> = kinds.iter().filter(|kind| kind.0).map(|kind| kind.1).collect();
        match named.split_last() {
            None => to.write_str("none"),
            Some((last, [])) => to.write_str(last),
            Some((last, others)) => write!(to, "{} and {last}", others.join(", ")),
        }
    }
}

/// The algorithm of one shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The product.
    #[serde(flatten)]
    pub shape: MatmulShape,
    /// Its place among those that cuBLASLt names; 0 is cuBLASLt's own choice.
    pub algorithm: usize,
    /// How many those are.
    pub of: usize,
    /// The kernel of this program's that computes the product instead, with the activation or the norm behind it where there is one; cuBLASLt
    /// and their own kernels where there is none, or where it is not known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

impl Choices {
    /// Whether they were made with this library on such a GPU.
    pub fn fit(&self, lt: &CublasLt) -> bool {
        self.library == lt.to_string() && self.device == lt.gpu().facts().name
    }

    /// Whether these kernels of this program's, and no others, had their turn.
    pub fn tried(&self, kernels: &[&str]) -> bool {
        self.kernels == kernels
    }

    /// Whether they have all these shapes.
    pub fn have(&self, shapes: &[MatmulShape]) -> bool {
        shapes.iter().all(|shape| self.of(*shape).is_some())
    }

    /// That of a shape.
    pub fn of(&self, shape: MatmulShape) -> Option<&Choice> {
        self.products.iter().find(|choice| choice.shape == shape)
    }

    /// How many are not cuBLASLt's own.
    pub fn others(&self) -> usize {
        let other = |choice: &&Choice| choice.algorithm > 0 || choice.kernel.is_some();
        self.products.iter().filter(other).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Element;

    #[test]
    fn choices_from_before_there_were_kernels_are_read_and_written_as_they_were() {
        let text = r#"{"rows":4096,"columns":2304,"depth":576,"output":"f16","residual":false,"algorithm":0,"of":8}"#;
        let older: Choice = serde_json::from_str(text).unwrap();
        let (rows, columns, depth, output) = (4096, 2304, 576, Element::F16);
        let shape = MatmulShape { rows, columns, depth, output, residual: false };
        assert_eq!(older, Choice { shape, algorithm: 0, of: 8, kernel: None });
        assert_eq!(serde_json::to_string(&older).unwrap(), text);
        let kernel = Some("product_gelu_192_by_2".to_owned());
        let newer = Choice { kernel, ..older.clone() };
        let again = serde_json::from_str(&serde_json::to_string(&newer).unwrap()).unwrap();
        assert_eq!(newer, again);
        let choices = |products| {
            let (library, device) = (String::new(), String::new());
            let (begin_early, kernels) = (Early::default(), Vec::new());
            Choices { library, device, us: [2.0, 1.0], products, begin_early, kernels }
        };
        assert_eq!((choices(vec![older]).others(), choices(vec![newer]).others()), (0, 1));
    }

    #[test]
    fn kinds_that_begin_early_are_named_and_kept_and_each_way_comes_once() {
        let ways: Vec<Early> = Early::ALL.ways().collect();
        assert!(ways.len() == 7 && ways.contains(&Early::ALL) && !ways.iter().any(Early::is_none));
        assert!(ways.iter().enumerate().all(|(at, way)| !ways[..at].contains(way)));
        let two = Early { windows: false, ..Early::ALL };
        assert!(two.ways().all(|way| !way.windows) && two.ways().count() == 3);
        assert_eq!(Early::default().ways().count(), 0);
        assert_eq!(two.to_string(), "products and norms");
        assert_eq!(Early::ALL.to_string(), "products, windows and norms");
        assert_eq!(Early::default().to_string(), "none");
        let text = serde_json::to_string(&two).unwrap();
        assert_eq!(serde_json::from_str::<Early>(&text).unwrap(), two);
    }
}
