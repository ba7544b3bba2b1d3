/*!
The algorithm of each matmul of an encoder trunk, as autotuning chose it when the engines were
built.

It is kept with the engines, so that results are the same from run to run; a choice at every start
would not promise that.
*/

use std::fmt;

use serde::{Deserialize, Serialize};

use super::library::CublasLt;
use super::shape::MatmulShape;

/// The algorithms of all matmuls of a trunk, on one GPU with one library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    /// "cuBLASLt 13.1.0 (for CUDA 13)"
    pub library: String,
    /// The GPU's name.
    pub device: String,
    /// Microseconds of all blocks: with cuBLASLt's first choices, and with these.
    pub us: [f64; 2],
    /// One for each shape.
    pub products: Vec<Choice>,
    /// Kernels that start by programmatic dependent launch.
    #[serde(default, skip_serializing_if = "PdlKernels::is_none")]
    pub pdl: PdlKernels,
    /// Custom kernels that were timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// Kernels of whole blocks or attention halves that lost to several kernels. Those that are not
    /// named are used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub separate: Vec<String>,
}

/// Kinds of custom kernels that start by programmatic dependent launch (PDL), before the previous
/// kernel has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PdlKernels {
    /// Matmuls with their fused epilogues.
    pub products: bool,
    /// Attention in windows and of all tokens.
    pub windows: bool,
    /// Short kernels: LayerNorms of their own, fused blocks, max pooling, the neck.
    pub norms: bool,
}

impl PdlKernels {
    /// All kinds.
    pub const ALL: Self = Self { products: true, windows: true, norms: true };

    /// None of them.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The kinds that are in both.
    pub fn intersection(self, other: Self) -> Self {
        Self {
            products: self.products && other.products,
            windows: self.windows && other.windows,
            norms: self.norms && other.norms,
        }
    }

    /// Every non-empty subset of these kinds, each once.
    pub fn subsets(self) -> impl Iterator<Item = Self> {
        let all = (1..8).map(|bits| Self {
            products: bits & 1 > 0,
            windows: bits & 2 > 0,
            norms: bits & 4 > 0,
        });
        all.filter(move |subset| {
            (self.products || !subset.products)
                && (self.windows || !subset.windows)
                && (self.norms || !subset.norms)
        })
    }
}

impl fmt::Display for PdlKernels {
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
    /// The matmul.
    #[serde(flatten)]
    pub shape: MatmulShape,
    /// Its index in cuBLASLt's list; 0 is cuBLASLt's first choice.
    pub algorithm: usize,
    /// The length of that list.
    pub of: usize,
    /// The custom kernel that computes the matmul and its fused epilogue instead of cuBLASLt; none
    /// for cuBLASLt with separate kernels, or if it is not known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

impl Choices {
    /// Whether they were timed with this library on such a GPU.
    pub fn fit(&self, lt: &CublasLt) -> bool {
        self.library == lt.to_string() && self.device == lt.gpu().facts().name
    }

    /// Whether these custom kernels, and no others, were timed.
    pub fn tried(&self, kernels: &[&str]) -> bool {
        self.kernels == kernels
    }

    /// Whether several kernels were faster than this one of a whole block or attention half.
    pub fn is_separate(&self, kernel: &str) -> bool {
        self.separate.iter().any(|name| name == kernel)
    }

    /// Whether they have all these shapes.
    pub fn have(&self, shapes: &[MatmulShape]) -> bool {
        shapes.iter().all(|shape| self.of(*shape).is_some())
    }

    /// The choice for a shape.
    pub fn of(&self, shape: MatmulShape) -> Option<&Choice> {
        self.products.iter().find(|choice| choice.shape == shape)
    }

    /// How many differ from cuBLASLt's first choice.
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
    fn choices_with_older_names_of_the_sizes_or_without_kernels_are_read() {
        let text = concat!(
            r#"{"rows":4096,"columns":2304,"depth":576,"output":"f16","residual":false,"#,
            r#""algorithm":0,"of":8}"#
        );
        let older: Choice = serde_json::from_str(text).unwrap();
        let (m, n, k, output) = (4096, 2304, 576, Element::F16);
        let shape = MatmulShape { m, n, k, output, residual: false };
        assert_eq!(older, Choice { shape, algorithm: 0, of: 8, kernel: None });
        let text =
            r#"{"m":4096,"n":2304,"k":576,"output":"f16","residual":false,"algorithm":0,"of":8}"#;
        assert_eq!(serde_json::to_string(&older).unwrap(), text);
        assert_eq!(serde_json::from_str::<Choice>(text).unwrap(), older);
        let kernel = Some("gemm_bias_gelu_128_two_groups".to_owned());
        let newer = Choice { kernel, ..older.clone() };
        let again = serde_json::from_str(&serde_json::to_string(&newer).unwrap()).unwrap();
        assert_eq!(newer, again);
        let choices = |products| {
            let (library, device) = (String::new(), String::new());
            let (pdl, kernels, separate) = (PdlKernels::default(), Vec::new(), Vec::new());
            Choices { library, device, us: [2.0, 1.0], products, pdl, kernels, separate }
        };
        assert_eq!((choices(vec![older]).others(), choices(vec![newer]).others()), (0, 1));
        let tried =
            Choices { kernels: vec!["a".to_owned(), "b".to_owned()], ..choices(Vec::new()) };
        assert!(tried.tried(&["a", "b"]));
        // One that has been deleted since, one that is new.
        assert!(!tried.tried(&["a"]) && !tried.tried(&["a", "b", "c"]));
    }

    #[test]
    fn kinds_of_pdl_kernels_are_named_and_kept_and_each_subset_comes_once() {
        let subsets: Vec<PdlKernels> = PdlKernels::ALL.subsets().collect();
        assert!(
            subsets.len() == 7
                && subsets.contains(&PdlKernels::ALL)
                && !subsets.iter().any(PdlKernels::is_none)
        );
        assert!(subsets.iter().enumerate().all(|(at, subset)| !subsets[..at].contains(subset)));
        let two = PdlKernels { windows: false, ..PdlKernels::ALL };
        assert!(two.subsets().all(|subset| !subset.windows) && two.subsets().count() == 3);
        assert_eq!(PdlKernels::default().subsets().count(), 0);
        let other = PdlKernels { norms: false, ..PdlKernels::ALL };
        let products = PdlKernels { products: true, ..PdlKernels::default() };
        assert_eq!((two.intersection(other), two.intersection(PdlKernels::ALL)), (products, two));
        assert!(products.intersection(PdlKernels { products: false, ..two }).is_none());
        assert_eq!(two.to_string(), "products and norms");
        assert_eq!(PdlKernels::ALL.to_string(), "products, windows and norms");
        assert_eq!(PdlKernels::default().to_string(), "none");
        let text = serde_json::to_string(&two).unwrap();
        assert_eq!(serde_json::from_str::<PdlKernels>(&text).unwrap(), two);
    }
}
