/*!
Which of the algorithms that cuBLASLt names is the fastest, found by time where engines are built and kept with them: what is computed
then is the same from run to run, which a choice at every start would not promise.
*/

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::error::CublasLtError;
use super::library::CublasLt;
use super::product::{ALIGNMENT, Product, ProductShape};
use crate::gpu::kernels::Element;
use crate::gpu::{Event, Gpu, Purpose, Stream, View};

/// Launches between two events, and how often each algorithm has a turn; the shortest counts, for what disturbs a launch makes it longer.
const LAUNCHES: usize = 10;
const TURNS: usize = 5;
/// Another algorithm than the first must take less than this share of its time: what is less may be chance.
const WORTH: f64 = 0.97;
/// What operands are filled with: 1.06 in f16, 0.01 in f32. Zeros would let the GPU run cooler than it does.
const FILL: u8 = 0x3c;

/// The algorithms of all products of a trunk, on one GPU with one library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    /// "cuBLASLt 13.1.0 (for CUDA 13)"
    pub library: String,
    /// The GPU's name.
    pub device: String,
    /// One for each shape.
    pub products: Vec<Choice>,
}

/// The algorithm of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The product.
    #[serde(flatten)]
    pub shape: ProductShape,
    /// Its place among those that cuBLASLt names; 0 is cuBLASLt's own choice.
    pub algorithm: usize,
    /// How many those are.
    pub of: usize,
    /// Microseconds of a launch, of the first algorithm and of this one, as they were found.
    pub us: [f64; 2],
}

impl Choices {
    /// Times all algorithms of each shape, for which nothing else should run on the GPU.
    ///
    /// # Errors
    /// No cuBLASLt, no algorithm for a shape, too little memory, or what the driver says.
    pub fn measure(gpu: &Gpu, shapes: &[ProductShape]) -> Result<Self> {
        let gpu = gpu.towards(Purpose::Scratch);
        let (lt, stream) = (CublasLt::open(&gpu)?, gpu.stream()?);
        let products =
            shapes.iter().map(|shape| Setting::new(&gpu, &lt, *shape, &stream)?.choose());
        let products = products.collect::<Result<_>>()?;
        Ok(Self { library: lt.to_string(), device: gpu.facts().name.clone(), products })
    }

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

    /// How many are not the first.
    pub fn others(&self) -> usize {
        self.products.iter().filter(|choice| choice.algorithm > 0).count()
    }
}

/// A product with operands on the device.
struct Setting<'s> {
    product: Product,
    stream: &'s Stream,
    /// Tokens, weights, bias and what comes out.
    operands: [View; 4],
    workspace: View,
    between: [Event; 2],
}

impl<'s> Setting<'s> {
    fn new(gpu: &Gpu, lt: &CublasLt, shape: ProductShape, stream: &'s Stream) -> Result<Self> {
        let mut product = Product::new(lt, shape)?;
        let ProductShape { rows, columns, depth, output, .. } = shape;
        let operand = |elements: usize, of: Element| -> Result<View> {
            let view = View::new(gpu, elements * of.bytes())?;
            view.fill(FILL, stream)?;
            Ok(view)
        };
        let operands = [
            operand(rows * depth, Element::F16)?,
            operand(columns * depth, Element::F16)?,
            operand(columns, output)?,
            operand(rows * columns, output)?,
        ];
        let mut most = ALIGNMENT;
        for at in (0..product.candidates()).rev() {
            product.choose(at)?;
            most = most.max(product.workspace_bytes());
        }
        let workspace = View::new(gpu, most)?;
        Ok(Self { product, stream, operands, workspace, between: [gpu.event()?, gpu.event()?] })
    }

    fn enqueue(&self, launches: usize) -> Result<(), CublasLtError> {
        let [a, weight, bias, out] = &self.operands;
        (0..launches).try_for_each(|_| {
            self.product.enqueue(a, weight, bias, out, &self.workspace, self.stream)
        })
    }

    /// Microseconds of a launch; nothing where cuBLASLt refuses an algorithm that it named.
    fn time(&mut self, at: usize, launches: usize) -> Result<Option<f64>> {
        self.product.choose(at)?;
        // The first launch brings the kernel to the device.
        if self.enqueue(1).is_err() {
            return Ok(None);
        }
        let [start, end] = &self.between;
        start.record(self.stream)?;
        self.enqueue(launches)?;
        end.record(self.stream)?;
        self.stream.synchronize()?;
        Ok(Some(end.ms_since(start)? * 1e3 / launches as f64))
    }

    fn choose(mut self) -> Result<Choice> {
        let of = self.product.candidates();
        let mut shortest = vec![f64::INFINITY; of];
        // In turn, so that a clock that changes meanwhile changes it for all.
        for _ in 0..TURNS {
            for (at, shortest) in shortest.iter_mut().enumerate() {
                if let Some(us) = self.time(at, LAUNCHES)? {
                    *shortest = shortest.min(us);
                }
            }
        }
        let algorithm = best(&shortest);
        let us = [shortest[0], shortest[algorithm]];
        log::debug!("{}: algorithm {algorithm} of {of}, {us:.1?} us", self.product.shape());
        Ok(Choice { shape: self.product.shape(), algorithm, of, us })
    }
}

/// The first, unless another is faster by more than chance.
fn best(times: &[f64]) -> usize {
    let shortest = times.iter().enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
    match (shortest, times.first()) {
        (Some((at, time)), Some(first)) if *time < WORTH * first => at,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_algorithm_must_be_faster_by_more_than_chance() {
        assert_eq!(best(&[10.0, 9.8, 12.0]), 0);
        assert_eq!(best(&[10.0, 9.6, 9.5]), 2);
        assert_eq!(best(&[10.0]), 0);
        // One that cuBLASLt refused is never the shortest.
        assert_eq!(best(&[10.0, f64::INFINITY]), 0);
        assert_eq!(best(&[f64::INFINITY, 10.0]), 1);
    }
}
