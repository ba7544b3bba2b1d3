/*!
The tables by which the shim calls TensorRT, readable: for the test that compares them with NVIDIA's own headers.
*/

use super::door::copied;
use super::sys;
use super::version::Family;

/// A method's key and its vtable slot in a release; none where the release does not have it.
pub fn methods(family: Family, minor: i32) -> Vec<(String, Option<i32>)> {
    // SAFETY: plain table lookups without preconditions.
    let count = unsafe { sys::segtrt_method_count() };
    (0..count)
        .filter_map(|method| {
            // SAFETY: as above; the shim checks the index.
            let (name, slot) = unsafe {
                let slot = sys::segtrt_method_slot(family as i32, minor, method);
                (copied(sys::segtrt_method_name(method)), slot)
            };
            Some((name?, (slot >= 0).then_some(slot)))
        })
        .collect()
}

/// A value's key (`Flag_FP16`) and its number in a release; none where the release does not have it.
pub fn values(family: Family, minor: i32) -> Vec<(String, Option<i32>)> {
    // SAFETY: plain table lookups without preconditions.
    let count = unsafe { sys::segtrt_value_count() };
    (0..count)
        .filter_map(|value| {
            // SAFETY: as above; the shim checks the index.
            let (name, number) = unsafe {
                let number = sys::segtrt_value_number(family as i32, minor, value);
                (copied(sys::segtrt_value_name(value)), number)
            };
            Some((name?, (number >= 0).then_some(number)))
        })
        .collect()
}
