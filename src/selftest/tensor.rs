/*!
Tensors on the host, and their bytes in the element types of engines.

Values are kept as f32 or i32: every half and bfloat16 is exactly an f32, so both sides of a
comparison can be fed the very same numbers whatever their types are.
*/

use anyhow::{Context, Result, bail, ensure};
use half::{bf16, f16};

use tensorrt::DataType;

/// What output memory is filled with before a run: a NaN in every floating-point type, and one that
/// no arithmetic makes.
pub const POISON: u8 = 0xFF;

/// The values of a tensor, row after row.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Floating point.
    Real(Vec<f32>),
    /// Integers.
    Whole(Vec<i32>),
}

/// A named tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name in the graph.
    pub name: String,
    /// Its extents.
    pub shape: Vec<i64>,
    /// As many values as the extents say.
    pub values: Values,
}

impl Tensor {
    /// A floating-point tensor.
    pub fn real(name: &str, shape: &[i64], values: Vec<f32>) -> Self {
        Self { name: name.to_owned(), shape: shape.to_vec(), values: Values::Real(values) }
    }

    /// An integer tensor.
    pub fn whole(name: &str, shape: &[i64], values: Vec<i32>) -> Self {
        Self { name: name.to_owned(), shape: shape.to_vec(), values: Values::Whole(values) }
    }

    /// The floating-point values.
    pub fn reals(&self) -> Result<&[f32]> {
        match &self.values {
            Values::Real(values) => Ok(values),
            Values::Whole(_) => bail!("tensor '{}' holds integers", self.name),
        }
    }

    /// Rounds the values to what the type can hold, to nearest, ties to even.
    pub fn round_to(&mut self, dtype: DataType) {
        let Values::Real(values) = &mut self.values else { return };
        match dtype {
            DataType::Half => values.iter_mut().for_each(|v| *v = f16::from_f32(*v).to_f32()),
            DataType::Bf16 => values.iter_mut().for_each(|v| *v = bf16::from_f32(*v).to_f32()),
            _ => {}
        }
    }

    /// The bytes of an engine's input of this type.
    pub fn bytes(&self, dtype: DataType) -> Result<Vec<u8>> {
        Ok(match (&self.values, dtype) {
            (Values::Real(v), DataType::Float) => v.iter().flat_map(|v| v.to_ne_bytes()).collect(),
            (Values::Real(v), DataType::Half) => {
                v.iter().flat_map(|v| f16::from_f32(*v).to_ne_bytes()).collect()
            }
            (Values::Real(v), DataType::Bf16) => {
                v.iter().flat_map(|v| bf16::from_f32(*v).to_ne_bytes()).collect()
            }
            (Values::Whole(v), DataType::Int32) => v.iter().flat_map(|v| v.to_ne_bytes()).collect(),
            (Values::Whole(v), DataType::Int64) => {
                v.iter().flat_map(|v| i64::from(*v).to_ne_bytes()).collect()
            }
            (Values::Real(_), other) => bail!("input '{}' is {other}, expected a float", self.name),
            (Values::Whole(_), other) => {
                bail!("input '{}' is {other}, expected an integer", self.name)
            }
        })
    }
}

/// An output read back from memory that was filled with [`POISON`] before.
#[derive(Clone, Debug, PartialEq)]
pub struct Readback {
    /// The values; unwritten ones are NaN.
    pub values: Vec<f32>,
    /// How many still hold the poison.
    pub unwritten: usize,
}

impl Readback {
    /// Reads the bytes of an engine's output.
    ///
    /// # Errors
    /// A type that no output of a bundle has.
    pub fn new(name: &str, bytes: &[u8], dtype: DataType) -> Result<Self> {
        let values: Vec<f32> = match dtype {
            DataType::Float => values(bytes, f32::from_ne_bytes),
            DataType::Half => values(bytes, |b| f16::from_ne_bytes(b).to_f32()),
            DataType::Bf16 => values(bytes, |b| bf16::from_ne_bytes(b).to_f32()),
            other => bail!("output '{name}' is {other}, expected fp32, fp16 or bf16"),
        };
        let size = dtype.bits() / 8;
        let unwritten = bytes.chunks(size).filter(|e| e.iter().all(|b| *b == POISON)).count();
        Ok(Self { values, unwritten })
    }
}

fn values<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    bytes.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect()
}

/// How many values a shape holds.
pub fn elements(shape: &[i64]) -> Result<usize> {
    let extents = shape.iter().map(|extent| usize::try_from(*extent).ok());
    let count = extents.into_iter().try_fold(1_usize, |n, extent| n.checked_mul(extent?));
    let count = count.with_context(|| format!("a shape is open or too large: {shape:?}"))?;
    ensure!(count > 0, "a shape holds nothing: {shape:?}");
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_first_makes_both_sides_see_the_same_values() {
        for dtype in [DataType::Float, DataType::Half, DataType::Bf16] {
            let mut tensor = Tensor::real("x", &[3], vec![0.1, -3.3333, 1000.7]);
            tensor.round_to(dtype);
            let bytes = tensor.bytes(dtype).unwrap();
            assert_eq!(bytes.len(), 3 * dtype.bits() / 8);
            let back = Readback::new("x", &bytes, dtype).unwrap();
            assert_eq!(back.values, tensor.reals().unwrap(), "{dtype}");
            assert_eq!(back.unwritten, 0);
        }
    }

    #[test]
    fn poison_reads_as_unwritten_nan_in_every_type() {
        for dtype in [DataType::Float, DataType::Half, DataType::Bf16] {
            let mut bytes = Tensor::real("x", &[2], vec![1.0, 2.0]).bytes(dtype).unwrap();
            let half = bytes.len() / 2;
            bytes[half..].fill(POISON);
            let back = Readback::new("x", &bytes, dtype).unwrap();
            assert_eq!(back.unwritten, 1, "{dtype}");
            assert!(back.values[0] == 1.0 && back.values[1].is_nan());
        }
        // A NaN that arithmetic makes was written.
        let nan = Tensor::real("x", &[1], vec![f32::NAN]).bytes(DataType::Half).unwrap();
        assert_eq!(Readback::new("x", &nan, DataType::Half).unwrap().unwritten, 0);
    }

    #[test]
    fn types_that_do_not_fit_are_refused_by_name() {
        let labels = Tensor::whole("labels", &[1, 2], vec![2, 3]);
        assert_eq!(labels.bytes(DataType::Int32).unwrap(), [2, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(labels.bytes(DataType::Int64).unwrap().len(), 16);
        let error = labels.bytes(DataType::Half).unwrap_err().to_string();
        assert_eq!(error, "input 'labels' is fp16, expected an integer");
        assert!(Readback::new("low", &[0], DataType::Int8).is_err());
    }
}
