/*!
The score matrix of a plan's largest attention: what an attention that is not fused writes to
memory.
*/

use crate::engine::PlanRecord;
use vos::bundle::manifest::{Axis, Tensor};
use vos::bundle::{Family, Manifest, Role};
use vos::precision::Precision;

/// Size of the scores of one attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scores {
    /// Objects at once.
    pub objects: u64,
    /// Attention heads.
    pub heads: u64,
    /// Query tokens.
    pub queries: u64,
    /// Key tokens.
    pub keys: u64,
    /// Bytes of one score, at least.
    pub element_bytes: u64,
}

impl Scores {
    /// Number of scores.
    pub fn elements(&self) -> u64 {
        self.objects * self.heads * self.queries * self.keys
    }

    /// Bytes of one matrix written out.
    pub fn bytes(&self) -> u64 {
        self.elements() * self.element_bytes
    }

    /// "1 object x 1 head x 4096 queries x 3648 keys x 2 bytes".
    pub fn in_words(&self) -> String {
        let counted = |n: u64, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        [
            counted(self.objects, "object"),
            counted(self.heads, "head"),
            counted(self.queries, "query").replace("querys", "queries"),
            counted(self.keys, "key"),
            counted(self.element_bytes, "byte"),
        ]
        .join(" x ")
    }
}

/// The scores of the attention that decides a plan's speed, for each shape it was built for; empty
/// for other plans.
///
/// Track steps: every feature token attends to all tokens of the memory bank, `F·T + N·(C/Cm)` of
/// them, with one head (`MemoryAttention`, sam2's `modeling/memory_attention.py`). SAM 2.1's
/// encoder: the blocks with global attention at stride 16, where all `grid²` tokens attend to each
/// other, unless it is cut there. EdgeTAM's encoder has no attention.
pub fn decisive(plan: &PlanRecord, bundle: &Manifest) -> Vec<Scores> {
    let contract = &bundle.contract;
    let queries = (contract.grid * contract.grid) as u64;
    let element_bytes = if plan.settings.precision == Precision::Fp32 { 4 } else { 2 };
    let scores = |objects, heads, keys| Scores { objects, heads, queries, keys, element_bytes };
    match plan.role {
        Role::Track | Role::TrackPadded => {
            let split = (contract.pointer_channels / contract.memory_channels.max(1)) as u64;
            let of = |shape: &dyn Fn(&str) -> Option<Vec<u64>>| {
                let (memories, pointers) = (shape("mem")?, shape("ptrs")?);
                let (&[objects, frames, tokens, ..], &[_, pointers, ..]) = (&*memories, &*pointers)
                else {
                    return None;
                };
                Some(scores(objects, 1, frames * tokens + pointers * split))
            };
            let fixed = |name: &str| full_shape(bundle, plan.role, name);
            let profiles = plan.settings.profiles.iter().filter_map(|profile| {
                of(&|name| {
                    let found = profile.shapes.iter().find(|(input, _)| input == name);
                    let shape =
                        found.map(|(_, shape)| shape.iter().map(|n| n.unsigned_abs()).collect());
                    shape.or_else(|| fixed(name))
                })
            });
            let mut all: Vec<Scores> = profiles.collect();
            if all.is_empty() {
                all.extend(of(&fixed));
            }
            all
        }
        role if role.is_encoder_part() && bundle.trunk.is_some() => Vec::new(),
        role if role.is_encoder() && bundle.model.family == Family::Sam21 => {
            vec![scores(1, global_heads(&bundle.model.name), queries)]
        }
        _ => Vec::new(),
    }
}

/// Heads of the Hiera blocks with global attention, which lie in its third stage: four times those
/// of the first (sam2's `configs/sam2.1/*.yaml`: `num_heads` 1 for tiny and small, 2 for base plus
/// and large). One head for an unknown model: a lower bound of the matrix.
fn global_heads(model: &str) -> u64 {
    match model {
        "sam2.1_tiny" | "sam2.1_small" => 4,
        "sam2.1_base_plus" | "sam2.1_large" => 8,
        _ => 1,
    }
}

/// The shape of a graph's input with one object and a full bank.
fn full_shape(bundle: &Manifest, role: Role, name: &str) -> Option<Vec<u64>> {
    let tensor: &Tensor = bundle.graph(role)?.input(name)?;
    let extent = |axis: &Axis| match axis {
        Axis::Fixed(extent) => Some(*extent as u64),
        Axis::Symbol(symbol) => match symbol.as_str() {
            "B" => Some(1),
            "F" => Some(bundle.contract.max_memories as u64),
            "N" => Some(bundle.contract.max_pointers as u64),
            _ => None,
        },
    };
    tensor.shape.iter().map(extent).collect()
}
