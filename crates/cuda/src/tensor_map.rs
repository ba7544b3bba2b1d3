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
        Self::encode(view, None, [rows, columns], box_rows)
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
        Self::encode(view, Some(matrices), [rows, columns], box_rows)
    }

    fn encode(
        view: &View,
        matrices: Option<usize>,
        [rows, columns]: [usize; 2],
        box_rows: u32,
    ) -> Result<Self> {
        driver::require_hoppers()?;
        let all = matrices.unwrap_or(1);
        let what =
            || format!("describe {all} x {rows} x {columns} halves in boxes of {box_rows} rows");
        let (row_bytes, address) = (2 * columns, view.address());
        let bytes = row_bytes.checked_mul(rows);
        let fits = columns > 0
            && rows > 0
            && all > 0
            && row_bytes.is_multiple_of(ALIGNMENT)
            && (address as usize).is_multiple_of(ALIGNMENT)
            && Some(view.len()) == bytes.and_then(|bytes| bytes.checked_mul(all))
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
        let strides = [row_bytes as u64, (row_bytes * rows) as u64];
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
