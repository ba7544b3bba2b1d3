/*!
The bank's state against the tracker's own schedule, frame by frame over clips of several lengths.
*/

use anyhow::Result;

use crate::BankState;
use crate::selftest::{Bench, Checked, Topic, compare, row};
use cuda::Element;
use vos::bundle::Contract;
use vos::noise::Noise;
use vos::tracker::BankSchedule;

/// What the exporter adds to the scores of empty slots' keys.
const EMPTY: f32 = -1e4;

/// Memories, pointers, tokens of a memory, tokens of a pointer; objects; frames of the clip.
const CASES: [([usize; 4], usize, usize); 6] = [
    ([7, 16, 512, 4], 1, 60),
    ([7, 16, 4096, 4], 3, 40),
    ([7, 16, 512, 4], 1, 9),
    ([7, 16, 32, 3], 2, 2),
    ([7, 16, 32, 3], 1, 1),
    ([2, 2, 1, 1], 1, 12),
];

pub(crate) const TOPIC: Topic = Topic {
    word: "bank",
    help: "The memory bank's frame counter and what follows from it",
    name: "the memory bank",
    sources: &[],
    used_by: None,
    needs_cublaslt: false,
    judge: |bench| {
        judge(bench);
        Ok(())
    },
};

fn judge(bench: &Bench) {
    let names = ["bank inputs", "bank advance"];
    let cases = bench.planned(CASES, |([memories, pointers, memory_tokens, split], objects, _)| {
        // Of one launch: the scores' biases and the ring of pointers.
        let (keys, ring) =
            (memories * memory_tokens + pointers * split, objects * pointers * 64 * split);
        (keys.max(ring), names.len())
    });
    bench.each(
        &cases,
        |_| (),
        |([memories, pointers, memory_tokens, split], objects, frames), ()| {
            let contract = Contract {
                grid: 16,
                low_size: 64,
                feature_channels: 64,
                memory_tokens: *memory_tokens,
                memory_channels: 64,
                pointer_channels: 64 * split,
                max_memories: *memories,
                max_pointers: *pointers,
                pointer_times: true,
                mean: [0.5; 3],
                std: [0.5; 3],
            };
            let case = format!(
                "{memories} memories of {memory_tokens}, {pointers} pointers of {split}, \
                 {objects} objects, {frames} frames"
            );
            let element = if *objects == 1 { Element::F16 } else { Element::F32 };
            let clip = Clip { contract, element, objects: *objects, frames: *frames };
            let check = || -> Result<[Checked; 2]> {
                let bank =
                    BankState::new(bench.gpu, &bench.kernels, &clip.contract, &bench.stream)?;
                Ok([inputs(bench, &bank, &clip)?, pointer_ring(bench, &bank, &clip, &case)?])
            };
            match check() {
                Ok(both) => {
                    let both = names.iter().zip(both);
                    both.for_each(|(name, found)| bench.found(row(name, &case, Ok(found))));
                }
                Err(error) => bench.found(row("bank", &case, Err(error))),
            }
        },
    );
}

struct Clip {
    contract: Contract,
    element: Element,
    objects: usize,
    frames: usize,
}

/// Runs the clip and compares what every tracked frame reads.
fn inputs(bench: &Bench, bank: &BankState, clip: &Clip) -> Result<Checked> {
    let (contract, stream) = (&clip.contract, &bench.stream);
    let schedule = BankSchedule::new(contract, clip.frames);
    let bytes = clip.objects * contract.pointer_channels * clip.element.bytes();
    let (pointer, ring) = (bench.poisoned(bytes)?, bench.poisoned(contract.max_pointers * bytes)?);
    let tidx = bench.poisoned(4 * contract.max_memories)?;
    let ptr_t = bench.poisoned(4 * contract.max_pointers)?;
    let bias = bench.poisoned(4 * bank.keys())?;
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    bank.reset(schedule.greatest_age(), stream)?;
    for t in 0..clip.frames {
        if t > 0 {
            bank.enqueue_inputs(&tidx, Some(&ptr_t), Some(&bias), stream)?;
            for view in [&tidx, &ptr_t, &bias] {
                found.extend(view.download(stream)?);
            }
            expected.extend(expected_inputs(contract, &schedule, t));
        }
        bank.enqueue_advance(&pointer, &ring, clip.element, stream)?;
    }
    let mut checked = compare(&found, &expected, 4)?;
    checked.timing =
        bench.time(|stream| bank.enqueue_inputs(&tidx, Some(&ptr_t), Some(&bias), stream))?;
    Ok(checked)
}

/// `tidx`, `ptr_t` and `bias` of frame `t`, one after the other.
fn expected_inputs(contract: &Contract, schedule: &BankSchedule, t: usize) -> Vec<u8> {
    let selection = schedule.selection(t);
    let row = |slot: usize| selection.temporal_rows.get(slot).copied().unwrap_or(0);
    let time = |slot: usize| selection.pointer_times.get(slot).copied().unwrap_or(0.0);
    let mut bytes: Vec<u8> =
        (0..contract.max_memories).flat_map(|slot| row(slot).to_le_bytes()).collect();
    bytes.extend((0..contract.max_pointers).flat_map(|slot| time(slot).to_le_bytes()));
    let split = contract.pointer_channels / contract.memory_channels;
    let parts = [
        (contract.max_memories, contract.memory_tokens, selection.memories()),
        (contract.max_pointers, split, selection.pointers()),
    ];
    for (slots, tokens, filled) in parts {
        let bias = |slot: usize| if slot < filled { 0.0_f32 } else { EMPTY };
        bytes.extend((0..slots * tokens).flat_map(|key| bias(key / tokens).to_le_bytes()));
    }
    bytes
}

/// Runs the clip with a new pointer for every frame and compares the whole ring after each.
fn pointer_ring(bench: &Bench, bank: &BankState, clip: &Clip, name: &str) -> Result<Checked> {
    let (contract, stream) = (&clip.contract, &bench.stream);
    let schedule = BankSchedule::new(contract, clip.frames);
    let bytes = contract.pointer_channels * clip.element.bytes();
    let pointer = bench.poisoned(clip.objects * bytes)?;
    let mut host = vec![0_u8; clip.objects * contract.max_pointers * bytes];
    let ring = bench.put(&host)?;
    let mut noise = Noise::new(bench.seed, name);
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    bank.reset(schedule.greatest_age(), stream)?;
    for t in 0..clip.frames {
        let new: Vec<u8> =
            (0..clip.objects * bytes).map(|_| noise.between(0.0, 256.0) as u8).collect();
        pointer.upload(&new, stream)?;
        bank.enqueue_advance(&pointer, &ring, clip.element, stream)?;
        let slot = schedule.write_slots(t).pointer;
        for (object, pointer) in new.chunks(bytes).enumerate() {
            let start = (object * contract.max_pointers + slot) * bytes;
            host[start..start + bytes].copy_from_slice(pointer);
        }
        found.extend(ring.download(stream)?);
        expected.extend_from_slice(&host);
    }
    let mut checked = compare(&found, &expected, clip.element.bytes())?;
    checked.timing =
        bench.time(|stream| bank.enqueue_advance(&pointer, &ring, clip.element, stream))?;
    Ok(checked)
}
