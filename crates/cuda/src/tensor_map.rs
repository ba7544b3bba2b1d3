/*!
Matrices as Hopper's copy engine is told of them: where they lie, and the boxes of them that it
brings to shared memory.
*/

use std::ffi::c_void;

use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};

use super::driver;
use super::error::{GpuError, Result, Tried};
use super::view::View;

/// Columns of a box of f16: 128 bytes, in which 16-byte units are swizzled as `wgmma` reads them.
pub const BOX_COLUMNS: u32 = 64;
/// What the driver takes.
const ALIGNMENT: usize = 16;
const MOST_BOX_ROWS: u32 = 256;

/// An argument of a kernel (`const __grid_constant__`), good as long as the view's memory.
#[derive(Clone, Copy, Debug)]
pub struct TensorMap(CUtensorMap);

impl TensorMap {
    /// Of f16 `[rows, columns]`, row by row from the view's start on, in boxes of `box_rows` rows;
    /// what lies outside is zeros. Columns are a multiple of 8.
    ///
    /// # Errors
    /// A driver before CUDA 12.0, a view of another size or at an odd address, or the driver's
    /// refusal.
    pub fn of_halves(view: &View, rows: usize, columns: usize, box_rows: u32) -> Result<Self> {
        let packed = [columns, rows.saturating_mul(columns)];
        Self::encode(view, None, [rows, columns], packed, box_rows)
    }

    /// Of f16 `[matrices, rows, columns]`, whose boxes a kernel names by three coordinates: rows
    /// past a matrix's last are zeros, not the next one's first. Else as [`Self::of_halves`].
    ///
    /// # Errors
    /// As there.
    pub fn of_matrices(
        view: &View,
        matrices: usize,
        [rows, columns]: [usize; 2],
        box_rows: u32,
    ) -> Result<Self> {
        let packed = [columns, rows.saturating_mul(columns)];
        Self::encode(view, Some(matrices), [rows, columns], packed, box_rows)
    }

    /// Of f16 matrices `[rows, columns]` that share a view, as heads share the rows of tokens: from
    /// the view's start on, `row` elements from a row to the next one and `matrix` from a matrix to
    /// the next one, multiples of 8. The view may be longer. Else as [`Self::of_matrices`].
    ///
    /// # Errors
    /// As there.
    pub fn of_matrices_apart(
        view: &View,
        matrices: usize,
        [rows, columns]: [usize; 2],
        [row, matrix]: [usize; 2],
        box_rows: u32,
    ) -> Result<Self> {
        let bytes = span([matrices, rows, columns], [row, matrix]).unwrap_or(usize::MAX);
        let used = view.part(0, bytes)?;
        Self::encode(&used, Some(matrices), [rows, columns], [row, matrix], box_rows)
    }

    /// `row` and `matrix`: elements from one to the next. The view ends with the last of all.
    fn encode(
        view: &View,
        matrices: Option<usize>,
        [rows, columns]: [usize; 2],
        [row, matrix]: [usize; 2],
        box_rows: u32,
    ) -> Result<Self> {
        driver::require_hoppers()?;
        let all = matrices.unwrap_or(1);
        let what =
            || format!("describe {all} x {rows} x {columns} halves in boxes of {box_rows} rows");
        let address = view.address();
        let strides = [row, matrix].map(|elements| elements.saturating_mul(2));
        let fits = columns > 0
            && rows > 0
            && all > 0
            && row >= columns
            && strides.iter().all(|stride| stride.is_multiple_of(ALIGNMENT))
            && (address as usize).is_multiple_of(ALIGNMENT)
            && Some(view.len()) == span([all, rows, columns], [row, matrix])
            && (1..=MOST_BOX_ROWS).contains(&box_rows);
        if !fits {
            let code = format!(
                "rows are multiples of {ALIGNMENT} bytes and fill their view, found one of {} \
                 bytes at {address:p}",
                view.len()
            );
            return Err(GpuError::Failed { what: what(), code });
        }
        let mut map = CUtensorMap { opaque: [0; 16] };
        let rank = if matrices.is_some() { 3 } else { 2 };
        let sizes = [columns as u64, rows as u64, all as u64];
        let strides = strides.map(|bytes| bytes as u64);
        let (box_sizes, steps) = ([BOX_COLUMNS, box_rows, 1], [1; 3]);
        // SAFETY: the function is there (`require_hoppers`). It writes the map, which is aligned as
        // its type says, reads arrays of at most three sizes, two distances, three sides and three
        // steps, and keeps none of them; the address it only writes down.
        unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                rank,
                address,
                sizes.as_ptr(),
                strides.as_ptr(),
                box_sizes.as_ptr(),
                steps.as_ptr(),
                CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        }
        .result()
        .tried(what)?;
        Ok(Self(map))
    }

    /// Where its bytes lie, for a launch.
    pub(super) fn place(&self) -> *const c_void {
        (&raw const self.0).cast()
    }
}

/// Bytes from the first element of f16 matrices to their last one, with so many elements from a row
/// and a matrix to the next.
fn span([matrices, rows, columns]: [usize; 3], [row, matrix]: [usize; 2]) -> Option<usize> {
    let matrices = matrices.checked_sub(1)?.checked_mul(matrix)?;
    let rows = rows.checked_sub(1)?.checked_mul(row)?;
    matrices.checked_add(rows)?.checked_add(columns)?.checked_mul(2)
}
