//! Parts that fit, and each way in which they may not.

use super::*;
use crate::bundle::manifest::{Axis, DType};
use crate::bundle::{Bundle, Role};
use crate::bundle::{FusedPart, Trunk};

/// "x" is fp32 of 7 values, "x:9" of 9, "x:2*9" of 2 rows, "x:h9" fp16.
fn tensor(text: &str) -> Tensor {
    let (name, size) = text.split_once(':').unwrap_or((text, "7"));
    let (dtype, size) = match size.strip_prefix('h') {
        Some(size) => (DType::F16, size),
        None => (DType::F32, size),
    };
    let shape = size.split('*').map(|extent| Axis::Fixed(extent.parse().unwrap())).collect();
    Tensor { name: name.to_owned(), dtype, shape }
}

fn graph(role: Role, inputs: &str, outputs: &str) -> Graph {
    let all = |names: &str| names.split_whitespace().map(tensor).collect();
    Graph {
        role,
        file: Trunk::FILE.to_owned(),
        sha256: String::new(),
        flops: 0,
        inputs: all(inputs),
        outputs: all(outputs),
    }
}

fn parts(ports: &[(&str, &str)]) -> Vec<Graph> {
    let ports = Role::CUTS.into_iter().zip(ports);
    ports.map(|(role, (inputs, outputs))| graph(role, inputs, outputs)).collect()
}

fn wire(ports: &[(&str, &str)]) -> Result<PartGraph, String> {
    let parts = parts(ports);
    let part_graph = PartGraph::of(&parts.iter().collect::<Vec<_>>(), None);
    part_graph.map_err(|error| format!("{error:#}"))
}

fn edge(name: &str, producer: usize, consumers: &[usize], slot: usize) -> Edge {
    let consumers = consumers.iter().map(|part| Step::Part(*part)).collect();
    Edge { name: name.to_owned(), producer: Step::Part(producer), consumers, slot }
}

const WHOLE: (&str, &str) = ("image", "feat hr0 hr1");

#[test]
fn an_encoder_in_one_piece_hands_nothing_on() {
    assert_eq!(wire(&[WHOLE]), Ok(PartGraph::default()));
    assert!(wire(&[]).unwrap_err().contains("no parts"));
}

#[test]
fn tokens_are_renamed_and_lie_in_two_pieces_of_memory_in_turn() {
    let part_graph = wire(&[
        ("image", "hr0 y:h9"),
        ("x:h9", "y:5"),
        ("x:5", "y:3 hr1"),
        ("x:3", "y:3"),
        ("x:3", "feat"),
    ])
    .unwrap();
    let tokens = |producer: usize| edge("y", producer, &[producer + 1], producer % 2);
    assert_eq!(part_graph.edges, [0, 1, 2, 3].map(tokens));
    assert_eq!(part_graph.slots(), 2);
    let names = [0, 1, 2, 3].map(|part| part_graph.edges[1].name_in(Step::Part(part)));
    assert_eq!(names, [None, Some("y"), Some("x"), None]);
}

#[test]
fn what_has_a_name_of_its_own_goes_to_all_who_ask_for_it_and_keeps_its_memory_until_then() {
    let part_graph = wire(&[
        ("image", "y m"),
        ("x", "y n hr0"),
        ("x m image", "y hr1"),
        ("x n", "y"),
        // Features may be taken too; they have memory of their own.
        ("x m hr1", "feat"),
    ])
    .unwrap();
    let expected = [
        edge("y", 0, &[1], 0),
        edge("m", 0, &[2, 4], 1),
        edge("y", 1, &[2], 2),
        edge("n", 1, &[3], 3),
        edge("y", 2, &[3], 0),
        edge("y", 3, &[4], 2),
    ];
    assert_eq!(part_graph.edges, expected);
    assert_eq!(part_graph.slots(), 4);
    let names = [0, 1, 2, 3, 4].map(|part| part_graph.edges[1].name_in(Step::Part(part)));
    assert_eq!(names, [Some("m"), None, Some("m"), None, Some("m")]);
}

/// Whatever is edge on: nothing is written over what is still to be read.
#[test]
fn no_two_tensors_that_are_needed_at_once_share_memory() {
    for skips in 0_u32..64 {
        // Part 0 makes a0 to a5, of which each is taken by one of the parts behind it or, by the
        // bits of `skips`, by two.
        let names: Vec<String> = (0..6).map(|at| format!("a{at}")).collect();
        let mut ports = vec![("image".to_owned(), format!("y {}", names.join(" ")))];
        for part in 1..7 {
            let mut inputs = vec!["x".to_owned(), names[part - 1].clone()];
            if skips >> (part - 1) & 1 == 1 {
                inputs.push(names[6 - part].clone());
            }
            inputs.sort();
            inputs.dedup();
            let out = if part == 6 { "feat hr0 hr1" } else { "y" };
            ports.push((inputs.join(" "), out.to_owned()));
        }
        let ports: Vec<(&str, &str)> = ports.iter().map(|(i, o)| (&**i, &**o)).collect();
        let part_graph = wire(&ports).unwrap();
        assert_eq!(part_graph.edges.len(), 6 + 6);
        for part in 0..ports.len() {
            // What this part reads, writes, or must leave alone.
            let alive = |h: &&Edge| (h.life().0..=h.life().1).contains(&(2 * part));
            let mut slots: Vec<usize> =
                part_graph.edges.iter().filter(alive).map(|h| h.slot).collect();
            let tensors = slots.len();
            slots.sort_unstable();
            slots.dedup();
            assert_eq!(slots.len(), tensors, "part {part} of {skips:b}: {:?}", part_graph.edges);
        }
        assert!(part_graph.slots() < part_graph.edges.len(), "{skips:b} shares nothing");
    }
}

#[test]
fn what_does_not_fit_is_named_with_both_ends() {
    let refused = |ports: &[(&str, &str)], said: &str| {
        let error = wire(ports).expect_err(said);
        assert!(error.contains(said), "{said:?} is not in {error:?}");
    };
    let last = ("x", "feat hr1");
    refused(
        &[("image", "hr0 y"), ("x m", "feat hr1")],
        "encoder_cut1 takes 'm', which no part before it makes",
    );
    // Only from before: neither its own nor a later one's.
    refused(
        &[("image", "hr0 y"), ("x m", "y"), ("x", "feat hr1 m")],
        "encoder_cut1 takes 'm', which no part before it makes",
    );
    refused(&[("image m", "hr0 y"), last], "encoder_cut0 takes 'm'");
    refused(&[("image x", "hr0 y"), last], "encoder_cut0 takes 'x', which no part before it makes");
    refused(&[("image", "hr0 y"), ("x", "hr1"), ("x", "feat")], "encoder_cut1 has no output 'y'");
    refused(
        &[("image", "hr0 y"), ("m", "hr1 feat")],
        "encoder_cut1 takes 'm', which no part before it makes",
    );
    refused(
        &[("image", "hr0 y m"), ("m", "hr1 feat")],
        "encoder_cut1 has no input 'x' for what comes before it",
    );
    refused(&[("image", "hr0 y"), ("x", "feat hr1 y")], "encoder_cut1 has an output 'y'");
    refused(&[("image", "hr0 hr1 feat"), ("x", "y")], "encoder_cut0 has no output 'y'");
    refused(&[("frame", "hr0 y"), last], "encoder_cut0 takes 'frame'");
    refused(&[("", "hr0 y"), last], "encoder_cut0 has no input 'image'");
    // The tokens have one name on either side.
    refused(&[("image", "hr0 y"), ("x y", "feat hr1")], "encoder_cut1 takes 'y'");
    refused(&[("image", "y"), last], "no part of the encoder makes 'hr0'");
    refused(
        &[("image", "hr0 y"), ("x", "feat hr0 hr1")],
        "'hr0' is made by more than one part: encoder_cut0, encoder_cut1",
    );
    refused(
        &[("image", "hr0 y m"), ("x m", "y m"), ("x m", "feat hr1")],
        "'m' is made by more than one part: encoder_cut0, encoder_cut1",
    );
    refused(&[("image", "hr0 y m"), last], "encoder_cut0 makes 'm', which no part behind it takes");
    refused(
        &[("image", "hr0 y:h9"), last],
        "encoder_cut0 makes y f16[9], which encoder_cut1 takes as x f32[7]",
    );
    refused(
        &[("image", "hr0 y m:9"), ("x m:h9", "feat hr1")],
        "encoder_cut0 makes m f32[9], which encoder_cut1 takes as m f16[9]",
    );
    refused(
        &[("image", "hr0:9 y"), ("x hr0", "feat hr1")],
        "encoder_cut0 makes hr0 f32[9], which encoder_cut1 takes as hr0 f32[7]",
    );
}

#[test]
fn the_parts_have_the_ports_of_the_whole_at_their_outside() {
    let whole = graph(Role::Encoder, WHOLE.0, WHOLE.1);
    let check = |ports: &[(&str, &str)]| {
        let parts = parts(ports);
        check_against(&whole, &parts.iter().collect::<Vec<_>>(), None).map_err(|e| format!("{e:#}"))
    };
    assert_eq!(check(&[("image", "hr0 y:9"), ("x:9", "feat hr1")]), Ok(()));
    let said = check(&[("image", "hr0 y"), ("x", "feat hr1:h7")]).unwrap_err();
    assert_eq!(
        said,
        "encoder_cut1 has hr1 f16[7], where the encoder that it is a part of has hr1 f32[7]"
    );
    let said = check(&[("image:9", "hr0 y"), ("x", "feat hr1")]).unwrap_err();
    assert!(said.contains("image f32[9]") && said.contains("image f32[7]"), "{said}");
}

/// From text to roles: the hand-made bundle with its parts behind it.
#[test]
fn a_bundle_with_parts_is_read_and_a_gap_among_them_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read_to_string("../../tests/data/fused/manifest.toml").unwrap();
    let cut = std::fs::read_to_string("../../tests/data/cut/parts.toml").unwrap();
    let open = |parts: &str| {
        std::fs::write(dir.path().join("manifest.toml"), format!("{whole}\n{parts}")).unwrap();
        Bundle::open(dir.path()).map_err(|error| format!("{error:#}"))
    };
    assert!(open("").unwrap().manifest.encoder_parts().is_empty());
    let bundle = open(&cut).unwrap();
    let roles = |bundle: &Bundle| -> Vec<Role> {
        bundle.manifest.encoder_parts().iter().map(|part| part.role).collect()
    };
    assert_eq!(roles(&bundle), Role::CUTS[..4]);
    let part_graph = PartGraph::of(&bundle.manifest.encoder_parts(), None).unwrap();
    let slots: Vec<_> = part_graph
        .edges
        .iter()
        .map(|h| (h.name.as_str(), h.producer.place() / 2, h.slot))
        .collect();
    assert_eq!(slots, [("y", 0, 0), ("m", 0, 1), ("y", 1, 2), ("y", 2, 0)]);

    let said = open(&cut.replace("encoder_cut1\"", "encoder_cut5\"")).unwrap_err();
    assert!(
        said.contains("encoder_cut1 is missing, and encoder_cut2 is there")
            && said.contains("manifest.toml"),
        "{said}"
    );
    let said = open(&cut.replace("\"m\"", "\"n\"").replacen("\"n\"", "\"m\"", 1)).unwrap_err();
    assert!(said.contains("encoder_cut3 takes 'n'") && said.contains("export the model"), "{said}");
}

const STEM: (&str, &str) = ("image", "y:1*16*16*8");
const NECK: (&str, &str) = ("m0:1*16*16*8 m1:1*8*8*16 m2:1*4*4*32 m3:1*2*2*64", "hr0 hr1 feat");

#[test]
fn a_trunk_lies_between_stem_and_neck_and_no_two_of_its_tokens_share_memory() {
    let trunk = crate::bundle::trunk::fixtures::small();
    let wire = |ports: &[(&str, &str)]| {
        let parts = parts(ports);
        let part_graph = PartGraph::of(&parts.iter().collect::<Vec<_>>(), Some(&trunk));
        part_graph.map_err(|error| format!("{error:#}"))
    };
    let part_graph = wire(&[STEM, NECK]).unwrap();
    let found: Vec<_> =
        part_graph.edges.iter().map(|h| (&*h.name, h.producer, &*h.consumers, h.slot)).collect();
    use Step::{Part, Trunk};
    let behind = [Part(1)];
    assert_eq!(
        found,
        [
            ("y", Part(0), &[Trunk, Part(1)][..], 0),
            ("m1", Trunk, &behind, 1),
            ("m2", Trunk, &behind, 2),
            ("m3", Trunk, &behind, 3),
        ]
    );
    let names =
        |at: usize| [Part(0), Trunk, Part(1)].map(|step| part_graph.edges[at].name_in(step));
    assert_eq!(names(0), [Some("y"), Some("y"), Some("m0")]);
    assert_eq!(names(2), [None, Some("m2"), Some("m2")]);
    assert_eq!(part_graph.trunk.as_ref(), Some(&trunk));

    let refused = |ports: &[(&str, &str)], said: &str| {
        let error = wire(ports).expect_err(said);
        assert!(error.contains(said), "{said:?} is not in {error:?}");
    };
    let four = "m0:1*16*16*8 m1:1*8*8*16 m2:1*4*4*32";
    refused(&[WHOLE], "the encoder has 1 parts: expected two");
    refused(&[STEM, ("x", "y"), NECK], "the encoder has 3 parts: expected two");
    refused(&[STEM, (four, NECK.1)], "encoder_cut1 takes no 'm3', beside a trunk expected: m0, m1");
    refused(&[("image", "y:1*16*16*9"), NECK], "encoder_cut0 makes y f32[1,16,16,9], the trunk's");
    refused(
        &[("image", "y:h1*16*16*8"), NECK],
        "makes y f16[1,16,16,8], the trunk's blocks have y",
    );
    refused(&[("image", "hr0 y:1*16*16*8"), NECK], "encoder_cut0 makes 'hr0', beside a trunk");
    refused(&[STEM, (NECK.0, "hr0 feat")], "encoder_cut1 makes no 'hr1'");
    let other = NECK.0.replace("4*4*32", "4*4*16");
    refused(&[STEM, (&other, NECK.1)], "encoder_cut1 takes m2 f32[1,4,4,16], the trunk's blocks");
    let more = format!("x {}", NECK.0);
    refused(&[STEM, (&more, NECK.1)], "encoder_cut1 takes 'x', beside a trunk expected: m0");
}
