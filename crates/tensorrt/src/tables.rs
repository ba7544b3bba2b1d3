/*!
The tables by which the shim calls TensorRT: vtable slots and enum values by release.

A test compares them with NVIDIA's headers.
*/

use super::ffi_object::copied;
use super::sys;
use super::version::Family;

/// Each method's key (`Builder_setGpuAllocator`) and its vtable slot in a release; none if the
/// release does not have it.
pub fn methods(family: Family, minor: i32) -> Vec<(String, Option<i32>)> {
    // SAFETY: plain table lookups without preconditions.
    let count = unsafe { sys::trtdl_method_count() };
    (0..count)
        .filter_map(|method| {
            // SAFETY: as above; the shim checks the index.
            let (name, slot) = unsafe {
                let slot = sys::trtdl_method_slot(family as i32, minor, method);
                (copied(sys::trtdl_method_name(method)), slot)
            };
            Some((name?, (slot >= 0).then_some(slot)))
        })
        .collect()
}

/// Each enumerator's key (`Flag_FP16`) and its value in a release; none if the release does not
/// have it.
pub fn values(family: Family, minor: i32) -> Vec<(String, Option<i32>)> {
    // SAFETY: plain table lookups without preconditions.
    let count = unsafe { sys::trtdl_value_count() };
    (0..count)
        .filter_map(|value| {
            // SAFETY: as above; the shim checks the index.
            let (name, number) = unsafe {
                let number = sys::trtdl_value_number(family as i32, minor, value);
                (copied(sys::trtdl_value_name(value)), number)
            };
            Some((name?, (number >= 0).then_some(number)))
        })
        .collect()
}
