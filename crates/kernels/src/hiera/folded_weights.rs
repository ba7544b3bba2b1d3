/*!
The weights of a GEMM with those of the LayerNorm before it, made on the host:

```text
norm(x) Wᵀ + b = (x (W γ)ᵀ - mean(x) Σₖ W γ) / deviation(x) + (b + Σₖ W β)
```

The sum over a row of W γ is of the rounded weights, which the GEMM multiplies by: so a row of equal
tokens gives its bias, whatever the rounding.
*/

use half::f16;

use super::shapes::F16;
use vos::bundle::trunk::LayerBytes;

/// Bytes of an f32.
const F32: usize = 4;

/// They, as the device has them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoldedBytes {
    /// W γ, f16 `[n, k]`.
    pub weight: Vec<u8>,
    /// Of each row of W γ, f32 `[n]`.
    pub column_sums: Vec<u8>,
    /// b + Σ W β, f32 `[n]`.
    pub bias: Vec<u8>,
}

impl FoldedBytes {
    /// Of a norm, f32 both, and a GEMM, f16 both. None if f16 is too small for one of the weights,
    /// or if a tensor has no elements.
    pub fn of(norm: LayerBytes, gemm: LayerBytes) -> Option<Self> {
        let floats = |bytes: &[u8]| -> Vec<f32> {
            bytes.as_chunks::<F32>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
        };
        let norm: Vec<(f32, f64)> = floats(norm.weight)
            .into_iter()
            .zip(floats(norm.bias).into_iter().map(f64::from))
            .collect();
        let biases = gemm.bias.as_chunks::<F16>().0;
        if norm.is_empty() || biases.is_empty() {
            return None;
        }
        let mut weight = Vec::with_capacity(gemm.weight.len());
        let (mut column_sums, mut bias) = (Vec::new(), Vec::new());
        for (row, first) in gemm.weight.chunks_exact(F16 * norm.len()).zip(biases) {
            let (mut sum, mut shift) = (0.0, f16::from_le_bytes(*first).to_f64());
            for (two, (gamma, beta)) in row.as_chunks::<F16>().0.iter().zip(&norm) {
                let own = f16::from_le_bytes(*two).to_f32();
                let folded = f16::from_f32(own * gamma);
                sum += f64::from(folded.to_f32());
                shift += f64::from(own) * beta;
                weight.extend_from_slice(&folded.to_le_bytes());
            }
            if !sum.is_finite() || !shift.is_finite() {
                return None;
            }
            column_sums.extend_from_slice(&(sum as f32).to_le_bytes());
            bias.extend_from_slice(&(shift as f32).to_le_bytes());
        }
        Some(Self { weight, column_sums, bias })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest::f64_reference::layer_norm;
    use vos::noise::Noise;

    fn bytes<const B: usize>(values: &[f32], to: impl Fn(f32) -> [u8; B]) -> Vec<u8> {
        values.iter().flat_map(|value| to(*value)).collect()
    }

    fn floats(bytes: &[u8]) -> Vec<f64> {
        let each = bytes.as_chunks::<F32>().0.iter();
        each.map(|four| f64::from(f32::from_le_bytes(*four))).collect()
    }

    fn halves(bytes: &[u8]) -> Vec<f64> {
        bytes.as_chunks::<F16>().0.iter().map(|two| f16::from_le_bytes(*two).to_f64()).collect()
    }

    const F32_BYTES: fn(f32) -> [u8; F32] = f32::to_le_bytes;
    const F16_BYTES: fn(f32) -> [u8; F16] = |value| f16::from_f32(value).to_le_bytes();

    #[test]
    fn raw_tokens_by_the_folded_weights_are_normalised_ones_by_the_own() {
        const N: usize = 24;
        const K: usize = 96;
        let mut noise = Noise::new(3, "folded weights");
        let mut drawn = |count: usize, scale: f32, offset: f32| -> Vec<f32> {
            noise.normals(count).iter().map(|value| scale * value + offset).collect()
        };
        let (gamma, beta) = (drawn(K, 0.5, 1.0), drawn(K, 1.0, 0.0));
        let (w, b) = (drawn(N * K, 0.1, 0.0), drawn(N, 1.0, 0.0));
        // A row that lies one standard deviation off zero.
        let x: Vec<f64> = drawn(K, 3.0, 3.0).into_iter().map(f64::from).collect();
        let (norm_weight, norm_bias) = (bytes(&gamma, F32_BYTES), bytes(&beta, F32_BYTES));
        let (weight, bias) = (bytes(&w, F16_BYTES), bytes(&b, F16_BYTES));
        let norm = LayerBytes { weight: &norm_weight, bias: &norm_bias };
        let gemm = LayerBytes { weight: &weight, bias: &bias };
        let folded = FoldedBytes::of(norm, gemm).unwrap();
        assert_eq!(folded.weight.len(), F16 * N * K);
        let normed = layer_norm(&x, &gamma, &beta, 1e-6);
        let mean = x.iter().sum::<f64>() / K as f64;
        let variance = x.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / K as f64;
        let by = (variance + 1e-6).sqrt().recip();
        let (own, own_bias, made) = (halves(&weight), halves(&bias), halves(&folded.weight));
        let (sums, shifts) = (floats(&folded.column_sums), floats(&folded.bias));
        for n in 0..N {
            let row = n * K..(n + 1) * K;
            let dot = |x: &[f64], w: &[f64]| x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>();
            let expected = dot(&normed, &own[row.clone()]) + own_bias[n];
            let found = (dot(&x, &made[row.clone()]) - mean * sums[n]) * by + shifts[n];
            // Rounding of 96 products to f16 leaves errors of about 2⁻¹² √96 · 0.1.
            assert!((found - expected).abs() < 2e-3, "{n}: {found} {expected}");
            let exact = made[row].iter().sum::<f64>();
            assert!((sums[n] - exact).abs() <= 1e-6 * exact.abs().max(1.0), "{n}");
        }
        assert_eq!(FoldedBytes::of(norm, gemm).unwrap(), folded, "the same from run to run");
    }

    #[test]
    fn weights_beyond_f16_are_not_folded() {
        let (norm_weight, zero) = (F32_BYTES(1e4), F32_BYTES(0.0));
        let of = |weight: f32| {
            let (weight, bias) = (F16_BYTES(weight), F16_BYTES(1.0));
            let norm = LayerBytes { weight: &norm_weight, bias: &zero };
            FoldedBytes::of(norm, LayerBytes { weight: &weight, bias: &bias })
        };
        assert!(of(6.0).is_some() && of(7.0).is_none());
        let nothing = LayerBytes { weight: &[], bias: &[] };
        assert_eq!(FoldedBytes::of(nothing, nothing), None);
    }
}
