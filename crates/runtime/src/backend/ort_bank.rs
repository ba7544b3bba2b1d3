/*!
The memory bank of one object on the host: memories or pointers, slot after slot.
*/

use anyhow::{Result, bail};
use half::f16;
use ort::session::SessionInputValue;
use ort::value::{DynValue, TensorRef};

use super::ort_network::plain;
use vos::bundle::DType;

/// A row of equally sized slots, stored as the graphs take them.
pub(super) struct Bank {
    slot: usize,
    data: BankData,
}

enum BankData {
    F32(Vec<f32>),
    F16(Vec<f16>),
}

impl Bank {
    /// Zeros.
    pub(super) fn new(slots: usize, slot: usize, dtype: DType) -> Result<Self> {
        let data = match dtype {
            DType::F32 => BankData::F32(vec![0.0; slots * slot]),
            DType::F16 => BankData::F16(vec![f16::ZERO; slots * slot]),
            DType::I32 => bail!("a bank of integers makes no sense; export the model again"),
        };
        Ok(Self { slot, data })
    }

    /// The first `count` slots as a graph input of this shape.
    pub(super) fn filled<'a>(
        &'a self,
        count: usize,
        shape: &'a [i64],
    ) -> Result<SessionInputValue<'a>> {
        let n = count * self.slot;
        Ok(match &self.data {
            BankData::F32(data) => {
                TensorRef::from_array_view((shape, &data[..n])).map_err(plain)?.into()
            }
            BankData::F16(data) => {
                TensorRef::from_array_view((shape, &data[..n])).map_err(plain)?.into()
            }
        })
    }

    /// Replaces one slot.
    pub(super) fn write(&mut self, slot: usize, value: &DynValue) -> Result<()> {
        let range = slot * self.slot..(slot + 1) * self.slot;
        match &mut self.data {
            BankData::F32(data) => {
                copy(&mut data[range], value.try_extract_tensor().map_err(plain)?.1)
            }
            BankData::F16(data) => {
                copy(&mut data[range], value.try_extract_tensor().map_err(plain)?.1)
            }
        }
    }
}

fn copy<T: Copy>(to: &mut [T], from: &[T]) -> Result<()> {
    if to.len() != from.len() {
        bail!("a memory of {} values came, the manifest promises {}", from.len(), to.len());
    }
    to.copy_from_slice(from);
    Ok(())
}
