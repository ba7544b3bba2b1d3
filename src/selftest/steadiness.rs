/*!
Whether a case has one right answer.

The mask decoder chooses: among its candidate masks by their estimated quality, and for boxes by how
stable a mask is. Where two candidates are nearly equal, the smallest rounding takes the other one
and every output differs, although nothing is wrong (seen with EdgeTAM's random weights and a box:
fp16 in ONNX Runtime itself, relative error 0.65). So a case that fails is asked again of the
reference with inputs shaken by a tenth of the allowed error. If that alone moves an output by more
than all of the allowed error, the case decides nothing, and other inputs are taken.
*/

use anyhow::Result;

use super::compare::difference;
use super::inputs::FEATURES;
use super::tensor::{Tensor, Values};
use vos::noise::Noise;

/// The inputs are shaken by this part of the allowed error.
const SHAKE: f64 = 0.1;

/// Pairs of opposite shakes: what one leaves as it was, the other tips.
const PAIRS: u64 = 2;

/// The reference's answers to shaken inputs stay within `limit` of `expected`.
pub fn is_steady(
    inputs: &[Tensor],
    expected: &[Tensor],
    limit: f64,
    mut ask: impl FnMut(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<bool> {
    for (pair, by) in (0..PAIRS).flat_map(|pair| [(pair, SHAKE), (pair, -SHAKE)]) {
        let answers = ask(&shaken(inputs, by * limit, pair))?;
        for before in expected {
            let after = answers.iter().find(|tensor| tensor.name == before.name);
            let after = after.map(Tensor::reals).transpose()?.unwrap_or_default();
            let moved =
                difference(after, before.reals()?).and_then(|d| Some((d.relative?, d.max_abs?)));
            // The smaller one: a single number near 0 moves far in relation to itself.
            if moved.is_none_or(|(relative, absolute)| relative.min(absolute) > limit) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Inputs whose features are each off by a random factor near 1.
fn shaken(inputs: &[Tensor], by: f64, pair: u64) -> Vec<Tensor> {
    let mut inputs = inputs.to_vec();
    for tensor in inputs.iter_mut().filter(|tensor| FEATURES.contains(&tensor.name.as_str())) {
        let mut noise = Noise::new(pair, &tensor.name);
        if let Values::Real(values) = &mut tensor.values {
            values.iter_mut().for_each(|v| *v *= 1.0 + by as f32 * noise.normal());
        }
    }
    inputs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the greater of two candidates whose sums are `a` and `b`, as the decoder does.
    fn choose(inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let values = inputs[0].reals()?;
        let (a, b) = (values[0], values[1]);
        let low = if a > b { [5.0, -5.0] } else { [-5.0, 5.0] };
        Ok(vec![Tensor::real("low", &[2], low.to_vec())])
    }

    fn steady(a: f32, b: f32) -> bool {
        let inputs = [Tensor::real("feat", &[2], vec![a, b])];
        is_steady(&inputs, &choose(&inputs).unwrap(), 2e-2, choose).unwrap()
    }

    #[test]
    fn a_choice_between_equals_is_unsteady_and_a_clear_one_is_steady() {
        assert!(steady(1.0, 0.9));
        assert!(!steady(1.0, 0.9999) && !steady(0.9999, 1.0));
    }

    #[test]
    fn an_answer_that_moves_with_its_inputs_is_steady() {
        let inputs = [Tensor::real("feat", &[3], vec![1.0, -2.0, 3.0])];
        let copy =
            |inputs: &[Tensor]| Ok(vec![Tensor::real("low", &[3], inputs[0].reals()?.to_vec())]);
        assert!(is_steady(&inputs, &copy(&inputs).unwrap(), 2e-2, copy).unwrap());
    }

    #[test]
    fn only_features_are_shaken_and_a_little() {
        let inputs = [
            Tensor::real("feat", &[2], vec![1.0, 100.0]),
            Tensor::real("coords", &[1, 1, 2], vec![3.0, 4.0]),
        ];
        let after = shaken(&inputs, 1e-3, 0);
        assert_eq!(after[1], inputs[1]);
        let (before, after) = (inputs[0].reals().unwrap(), after[0].reals().unwrap());
        assert!(before.iter().zip(after).all(|(b, a)| a != b && ((a - b) / b).abs() < 7e-3));
    }
}
