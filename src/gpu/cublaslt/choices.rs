/*!
Which of the algorithms that cuBLASLt names each product of a trunk gets: found where engines are built, and kept with them, so that what is
computed is the same from run to run, which a choice at every start would not promise.
*/

use serde::{Deserialize, Serialize};

use super::library::CublasLt;
use super::product::ProductShape;

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
}

/// The algorithm of one shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The product.
    #[serde(flatten)]
    pub shape: ProductShape,
    /// Its place among those that cuBLASLt names; 0 is cuBLASLt's own choice.
    pub algorithm: usize,
    /// How many those are.
    pub of: usize,
    /// The kernel of this program's that computes the product and the activation behind it instead; cuBLASLt and the activation's own
    /// kernel where there is none, or where it is not known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

impl Choices {
    /// Whether they were made with this library on such a GPU.
    pub fn fit(&self, lt: &CublasLt) -> bool {
        self.library == lt.to_string() && self.device == lt.gpu().facts().name
    }

    /// Whether they have all these shapes.
    pub fn have(&self, shapes: &[ProductShape]) -> bool {
        shapes.iter().all(|shape| self.of(*shape).is_some())
    }

    /// That of a shape.
    pub fn of(&self, shape: ProductShape) -> Option<&Choice> {
        self.products.iter().find(|choice| choice.shape == shape)
    }

    /// How many are not cuBLASLt's own.
    pub fn others(&self) -> usize {
        let other = |choice: &&Choice| choice.algorithm > 0 || choice.kernel.is_some();
        self.products.iter().filter(other).count()
    }
}
