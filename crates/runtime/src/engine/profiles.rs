/*!
The exact shapes in which each graph will run: one optimization profile for each of them.

Exact profiles let TensorRT choose kernels for the very shapes of a run. The bank's schedule says
which shapes a clip meets: while it fills, memories and pointers grow together, then memories stop
at their maximum.
*/

use crate::engine::ProfileShapes;
use vos::bundle::Contract;
use vos::bundle::manifest::{Axis, Graph};
use vos::tracker::BankSchedule;

/// Points of the prompts of a bench: a click is one point, a box two.
pub const USUAL_POINTS: [usize; 2] = [1, 2];
/// The most points of one prompt that engines can be built for.
pub const MOST_POINTS: usize = 8;

/// The profiles of one graph for up to `max_objects` objects at once; empty where all its shapes
/// are fixed. The exact track step has those for one object alone: a bench tracks one after the
/// other, and each further number would cost a profile for each fill level. The prompt step has
/// those for 1 to `max_points` points, at least 2.
pub fn profiles(
    graph: &Graph,
    contract: &Contract,
    max_objects: usize,
    max_points: usize,
) -> Vec<ProfileShapes> {
    if !has_open_axes(graph) {
        return Vec::new();
    }
    let uses = |symbol: &str| {
        graph.inputs.iter().any(|t| t.shape.contains(&Axis::Symbol(symbol.to_owned())))
    };
    let exact = has_fill_levels(graph);
    let most = if uses("B") && !exact { max_objects } else { 1 };
    let points = if uses("P") { max_points.max(USUAL_POINTS.len()) } else { 1 };
    let fills = if exact { fill_levels(contract) } else { vec![(0, 0)] };
    let mut profiles = Vec::new();
    for b in 1..=most {
        for p in 1..=points {
            for &(f, n) in &fills {
                let sizes = [("B", b), ("P", p), ("F", f), ("N", n)];
                profiles.push(profile(graph, &sizes.map(|(s, size)| (s, size, uses(s)))));
            }
        }
    }
    profiles
}

/// The numbers of memories and pointers that a clip's frames read, in the order in which a clip
/// meets them.
pub fn fill_levels(contract: &Contract) -> Vec<(usize, usize)> {
    let frames = contract.max_memories.max(contract.max_pointers) + 1;
    let schedule = BankSchedule::new(contract, frames);
    let mut levels: Vec<(usize, usize)> = (1..frames)
        .map(|t| schedule.selection(t))
        .map(|selection| (selection.memories(), selection.pointers()))
        .collect();
    levels.dedup();
    levels
}

/// The bank's slots are an open extent: of all graphs the exact track step's alone.
pub fn has_fill_levels(graph: &Graph) -> bool {
    let slots = ["F", "N"].map(|symbol| Axis::Symbol(symbol.to_owned()));
    graph.inputs.iter().flat_map(|tensor| &tensor.shape).any(|axis| slots.contains(axis))
}

fn has_open_axes(graph: &Graph) -> bool {
    graph.inputs.iter().flat_map(|t| &t.shape).any(|axis| matches!(axis, Axis::Symbol(_)))
}

fn profile(graph: &Graph, sizes: &[(&str, usize, bool)]) -> ProfileShapes {
    let size_of = |axis: &Axis| match axis {
        Axis::Fixed(size) => *size as i64,
        // A symbol that the contract does not name is caught when the bundle is opened.
        Axis::Symbol(symbol) => {
            sizes.iter().find(|(known, ..)| known == symbol).map_or(1, |(_, size, _)| *size as i64)
        }
    };
    let open = graph.inputs.iter().filter(|t| t.shape.iter().any(|a| matches!(a, Axis::Symbol(_))));
    let shapes = open.map(|t| (t.name.clone(), t.shape.iter().map(size_of).collect())).collect();
    let words = [("B", "object"), ("P", "point"), ("F", "memory"), ("N", "pointer")];
    let label = words
        .iter()
        .filter_map(|(symbol, word)| {
            let (_, size, used) = sizes.iter().find(|(known, ..)| known == symbol)?;
            used.then(|| counted(*size, word))
        })
        .collect::<Vec<_>>()
        .join(", ");
    ProfileShapes { label, shapes }
}

fn counted(count: usize, word: &str) -> String {
    match (count, word.strip_suffix('y')) {
        (1, _) => format!("1 {word}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        _ => format!("{count} {word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::bundle::{Bundle, Role};

    fn bundle() -> Bundle {
        Bundle::open("../../onnx/bundles/edgetam_mini_256_fp32".as_ref()).unwrap()
    }

    fn of(role: Role, max_objects: usize) -> Vec<ProfileShapes> {
        let manifest = bundle().manifest;
        profiles(manifest.graph(role).unwrap(), &manifest.contract, max_objects, 2)
    }

    #[test]
    fn memories_and_pointers_fill_together_and_memories_stop_first() {
        let contract = bundle().manifest.contract;
        let levels = fill_levels(&contract);
        assert_eq!(levels.first(), Some(&(1, 1)));
        assert_eq!(levels.last(), Some(&(contract.max_memories, contract.max_pointers)));
        assert_eq!(levels.len(), contract.max_pointers);
        assert!(levels.contains(&(contract.max_memories, contract.max_memories + 1)));
    }

    #[test]
    fn fixed_graphs_need_no_profile_and_prompts_one_for_clicks_and_one_for_boxes() {
        assert!(of(Role::Encoder, 4).is_empty());
        let prompt = of(Role::Prompt, 1);
        let labels: Vec<&str> = prompt.iter().map(|p| p.label.as_str()).collect();
        assert_eq!(labels, ["1 object, 1 point", "1 object, 2 points"]);
        assert_eq!(prompt[1].shapes[0], ("coords".to_owned(), vec![1, 2, 2]));
        let manifest = bundle().manifest;
        let graph = manifest.graph(Role::Prompt).unwrap();
        let more = profiles(graph, &manifest.contract, 1, 8);
        assert_eq!(more.len(), 8);
        assert_eq!(more[7].shapes[0], ("coords".to_owned(), vec![1, 8, 2]));
    }

    #[test]
    fn the_exact_track_has_one_profile_per_fill_level_for_one_object_however_many_are_asked_for() {
        let contract = bundle().manifest.contract;
        let track = of(Role::Track, 4);
        assert_eq!(track.len(), contract.max_pointers);
        assert_eq!(track, of(Role::Track, 1));
        let full = track.last().unwrap();
        let memories = &full.shapes.iter().find(|(name, _)| name == "mem").unwrap().1;
        assert_eq!(memories[..2], [1, contract.max_memories as i64]);
        assert!(full.label.starts_with("1 object, 7 memories, 16 pointers"), "{}", full.label);
    }

    #[test]
    fn other_graphs_have_one_profile_per_number_of_objects() {
        let labels = |role| of(role, 3).into_iter().map(|profile| profile.label);
        assert!(labels(Role::TrackPadded).eq(["1 object", "2 objects", "3 objects"]));
        assert!(labels(Role::Memory).eq(["1 object", "2 objects", "3 objects"]));
        assert_eq!(labels(Role::Prompt).count(), 6);
    }
}
