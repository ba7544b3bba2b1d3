/*!
The memory bank's side of a case: which slots hold something, how old it is, and how empty slots are
masked.
*/

use anyhow::{Context, Result, ensure};

use super::case::{Case, Meaning};
use super::tensor::{Tensor, Values};
use vos::bundle::Contract;
use vos::tracker::{BankSchedule, Selection};

/// What the exporter adds to the scores of empty slots (`PaddedTrack` in onnx/segexport/graphs.py):
/// far below every score, and still a half.
const EMPTY: f32 = -1e4;

/// What a long clip's frame reads when the bank holds so much.
fn selection(contract: &Contract, memories: usize, pointers: usize) -> Result<Selection> {
    let steady = contract.max_memories.max(contract.max_pointers);
    let frame = memories.max(pointers);
    ensure!(frame > 0, "a tracked frame reads at least one memory");
    let selection = BankSchedule::new(contract, steady + 1).selection(frame);
    ensure!(
        (selection.memories(), selection.pointers()) == (memories, pointers),
        "no frame of a clip reads {memories} memories and {pointers} pointers"
    );
    Ok(selection)
}

/// `tidx`: the temporal row of each memory slot; 0 for empty ones.
pub fn temporal_rows(
    contract: &Contract,
    memories: usize,
    pointers: usize,
    slots: usize,
) -> Result<Vec<i32>> {
    padded(selection(contract, memories, pointers)?.temporal_rows, slots)
}

/// `ptr_t`: the age of each pointer slot over the greatest age; 0 for empty ones.
pub fn pointer_times(
    contract: &Contract,
    memories: usize,
    pointers: usize,
    slots: usize,
) -> Result<Vec<f32>> {
    padded(selection(contract, memories, pointers)?.pointer_times, slots)
}

fn padded<T: Default + Clone>(mut values: Vec<T>, slots: usize) -> Result<Vec<T>> {
    ensure!(values.len() <= slots, "{} filled slots, but the graph has {slots}", values.len());
    values.resize(slots, T::default());
    Ok(values)
}

/// `bias`: 0 for the keys of filled slots and [`EMPTY`] for the others. First the tokens of all
/// memory slots, then those of all pointer slots.
pub fn key_bias(
    contract: &Contract,
    memories: usize,
    pointers: usize,
    keys: usize,
) -> Result<Vec<f32>> {
    let split = contract.pointer_channels / contract.memory_channels.max(1);
    let expected = contract.max_memories * contract.memory_tokens + contract.max_pointers * split;
    ensure!(keys == expected, "'bias' has {keys} keys, the contract has {expected}");
    let part = |filled: usize, slots: usize, tokens: usize| {
        let (filled, all) = (filled * tokens, slots * tokens);
        (0..all).map(move |key| if key < filled { 0.0 } else { EMPTY })
    };
    let memory = part(memories, contract.max_memories, contract.memory_tokens);
    Ok(memory.chain(part(pointers, contract.max_pointers, split)).collect())
}

/// The inputs of the exact track graph that mean the same as these of the padded one: the filled
/// slots alone, no bias.
pub fn without_padding(inputs: &[Tensor], case: &Case) -> Result<Vec<Tensor>> {
    let Meaning::Bank { memories, pointers } = case.meaning else { return Ok(inputs.to_vec()) };
    let cut = |tensor: &Tensor| match tensor.name.as_str() {
        "bias" => None,
        "mem" => Some(keep_slots(tensor, 1, memories)),
        "tidx" => Some(keep_slots(tensor, 0, memories)),
        "ptrs" => Some(keep_slots(tensor, 1, pointers)),
        "ptr_t" => Some(keep_slots(tensor, 0, pointers)),
        _ => Some(Ok(tensor.clone())),
    };
    inputs.iter().filter_map(cut).collect()
}

/// The first `count` entries along `axis`.
fn keep_slots(tensor: &Tensor, axis: usize, count: usize) -> Result<Tensor> {
    let extent = |at: usize| tensor.shape.get(at).and_then(|e| usize::try_from(*e).ok());
    let slots = extent(axis).with_context(|| format!("'{}' has no axis {axis}", tensor.name))?;
    ensure!(count <= slots, "'{}' has {slots} slots, not {count}", tensor.name);
    let inner: usize = (axis + 1..tensor.shape.len()).filter_map(extent).product();
    let mut shape = tensor.shape.clone();
    shape[axis] = count as i64;
    let values = match &tensor.values {
        Values::Real(values) => Values::Real(kept(values, slots * inner, count * inner)),
        Values::Whole(values) => Values::Whole(kept(values, slots * inner, count * inner)),
    };
    Ok(Tensor { name: tensor.name.clone(), shape, values })
}

fn kept<T: Copy>(values: &[T], of: usize, keep: usize) -> Vec<T> {
    values.chunks(of.max(1)).flat_map(|chunk| &chunk[..keep.min(chunk.len())]).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::bundle::Bundle;

    fn contract() -> Contract {
        Bundle::open("onnx/bundles/edgetam_mini_256_fp32".as_ref()).unwrap().manifest.contract
    }

    #[test]
    fn rows_and_times_are_the_banks_own() {
        let contract = contract();
        // Frame 3: the conditioning frame (row 6), then frames 1 and 2, which are two and one back.
        assert_eq!(temporal_rows(&contract, 3, 3, 3).unwrap(), [6, 1, 0]);
        assert_eq!(temporal_rows(&contract, 3, 3, 7).unwrap(), [6, 1, 0, 0, 0, 0, 0]);
        assert_eq!(pointer_times(&contract, 3, 3, 3).unwrap(), [3.0, 2.0, 1.0].map(|d| d / 15.0));
        let mut full = temporal_rows(&contract, 7, 16, 7).unwrap();
        full.sort_unstable();
        assert_eq!(full, [0, 1, 2, 3, 4, 5, 6]);
        assert!(temporal_rows(&contract, 7, 3, 7).is_err(), "memories never outrun pointers");
    }

    #[test]
    fn the_bias_masks_empty_slots_only() {
        let contract = contract();
        let (tokens, split) = (contract.memory_tokens, 3);
        let keys = 7 * tokens + 16 * split;
        assert!(key_bias(&contract, 7, 16, keys).unwrap().iter().all(|b| *b == 0.0));
        let part = key_bias(&contract, 2, 5, keys).unwrap();
        let masked: Vec<usize> = (0..keys).filter(|key| part[*key] == EMPTY).collect();
        let expected: Vec<usize> =
            (2 * tokens..7 * tokens).chain(7 * tokens + 5 * split..keys).collect();
        assert_eq!(masked, expected);
        assert!(key_bias(&contract, 2, 5, keys - 1).is_err());
    }

    #[test]
    fn without_padding_the_filled_slots_of_every_object_stay() {
        let values: Vec<f32> = (0..24).map(|v| v as f32).collect();
        let mem = Tensor::real("mem", &[2, 3, 4, 1], values);
        let kept = keep_slots(&mem, 1, 2).unwrap();
        assert_eq!(kept.shape, [2, 2, 4, 1]);
        let expected: Vec<f32> = (0..8).chain(12..20).map(|v| v as f32).collect();
        assert_eq!(kept.reals().unwrap(), expected);
        assert!(keep_slots(&mem, 1, 4).is_err());
    }
}
