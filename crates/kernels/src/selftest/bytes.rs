/*!
Host values as the device has them.
*/

use half::f16;

/// Little-endian elements. A loop instead of an iterator over bytes: a build without optimisation
/// takes long for the latter.
pub fn bytes_of<T, const N: usize>(elements: &[T], to_bytes: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(N * elements.len());
    elements.iter().for_each(|element| bytes.extend_from_slice(&to_bytes(element)));
    bytes
}

/// Elements of 32 bits.
pub fn f32_bytes(values: &[f32]) -> Vec<u8> {
    bytes_of(values, |value| value.to_le_bytes())
}

/// Elements of 16 bits.
pub fn f16_bytes(values: &[f16]) -> Vec<u8> {
    bytes_of(values, |value| value.to_le_bytes())
}
