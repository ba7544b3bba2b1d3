//! Parts that can be connected, and each kind of error.

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
        bytes: None,
        launches: None,
        activation_bytes: None,
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
    let wired = PartGraph::of(&parts.iter().collect::<Vec<_>>(), None);
    wired.map_err(|error| format!("{error:#}"))
}

fn edge(name: &str, producer: usize, consumers: &[usize], slot: usize) -> Edge {
    let consumers = consumers.iter().map(|part| PartStep::Part(*part)).collect();
    Edge { name: name.to_owned(), producer: PartStep::Part(producer), consumers, slot }
}

const WHOLE: (&str, &str) = ("image", "feat hr0 hr1");

#[test]
fn an_encoder_in_one_piece_hands_nothing_on() {
    assert_eq!(wire(&[WHOLE]), Ok(PartGraph::default()));
    assert!(wire(&[]).unwrap_err().contains("no parts"));
}

#[test]
fn tokens_are_renamed_and_lie_in_two_pieces_of_memory_in_turn() {
    let wired = wire(&[
        ("image", "hr0 y:h9"),
        ("x:h9", "y:5"),
        ("x:5", "y:3 hr1"),
        ("x:3", "y:3"),
        ("x:3", "feat"),
    ])
    .unwrap();
    let tokens = |producer: usize| edge("y", producer, &[producer + 1], producer % 2);
    assert_eq!(wired.edges, [0, 1, 2, 3].map(tokens));
    assert_eq!(wired.slots(), 2);
    let names = [0, 1, 2, 3].map(|part| wired.edges[1].name_in(PartStep::Part(part)));
    assert_eq!(names, [None, Some("y"), Some("x"), None]);
}

#[test]
fn what_has_a_name_of_its_own_goes_to_all_who_ask_for_it_and_keeps_its_memory_until_then() {
    let wired = wire(&[
        ("image", "y m"),
        ("x", "y n hr0"),
        ("x m image", "y hr1"),
        ("x n", "y"),
        // Features may be inputs too; they have separate memory.
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
    assert_eq!(wired.edges, expected);
    assert_eq!(wired.slots(), 4);
    let names = [0, 1, 2, 3, 4].map(|part| wired.edges[1].name_in(PartStep::Part(part)));
    assert_eq!(names, [Some("m"), None, Some("m"), None, Some("m")]);
}

/// Tensors that are still needed are never overwritten.
#[test]
fn no_two_tensors_that_are_needed_at_once_share_memory() {
    for skips in 0_u32..64 {
        // Part 0 has the outputs a0 to a5, each of which one later part takes or, by the bits of
        // `skips`, two.
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
        let wired = wire(&ports).unwrap();
        assert_eq!(wired.edges.len(), 6 + 6);
        for part in 0..ports.len() {
            // The tensors that this part reads, writes, or must not touch.
            let alive = |h: &&Edge| (h.life().0..=h.life().1).contains(&(2 * part));
            let mut slots: Vec<usize> = wired.edges.iter().filter(alive).map(|h| h.slot).collect();
            let tensors = slots.len();
            slots.sort_unstable();
            slots.dedup();
            assert_eq!(slots.len(), tensors, "part {part} of {skips:b}: {:?}", wired.edges);
        }
        assert!(wired.slots() < wired.edges.len(), "{skips:b} shares nothing");
    }
}

#[test]
fn what_does_not_fit_is_named_with_both_ends() {
    let refused = |ports: &[(&str, &str)], message: &str| {
        let error = wire(ports).expect_err(message);
        assert!(error.contains(message), "{message:?} is not in {error:?}");
    };
    let last = ("x", "feat hr1");
    refused(
        &[("image", "hr0 y"), ("x m", "feat hr1")],
        "encoder_cut1 takes 'm', which no earlier part has as an output",
    );
    // Only earlier parts count: neither the part itself nor a later one.
    refused(
        &[("image", "hr0 y"), ("x m", "y"), ("x", "feat hr1 m")],
        "encoder_cut1 takes 'm', which no earlier part has as an output",
    );
    refused(&[("image m", "hr0 y"), last], "encoder_cut0 takes 'm'");
    refused(
        &[("image x", "hr0 y"), last],
        "encoder_cut0 takes 'x', which no earlier part has as \
                                            an output",
    );
    refused(&[("image", "hr0 y"), ("x", "hr1"), ("x", "feat")], "encoder_cut1 has no output 'y'");
    refused(
        &[("image", "hr0 y"), ("m", "hr1 feat")],
        "encoder_cut1 takes 'm', which no earlier part has as an output",
    );
    refused(
        &[("image", "hr0 y m"), ("m", "hr1 feat")],
        "encoder_cut1 has no input 'x' for the previous part's tokens",
    );
    refused(&[("image", "hr0 y"), ("x", "feat hr1 y")], "encoder_cut1 has an output 'y'");
    refused(&[("image", "hr0 hr1 feat"), ("x", "y")], "encoder_cut0 has no output 'y'");
    refused(&[("frame", "hr0 y"), last], "encoder_cut0 takes 'frame'");
    refused(&[("", "hr0 y"), last], "encoder_cut0 has no input 'image'");
    // Tokens have one name on either side.
    refused(&[("image", "hr0 y"), ("x y", "feat hr1")], "encoder_cut1 takes 'y'");
    refused(&[("image", "y"), last], "no part of the encoder has the output 'hr0'");
    refused(
        &[("image", "hr0 y"), ("x", "feat hr0 hr1")],
        "'hr0' is an output of more than one part: encoder_cut0, encoder_cut1",
    );
    refused(
        &[("image", "hr0 y m"), ("x m", "y m"), ("x m", "feat hr1")],
        "'m' is an output of more than one part: encoder_cut0, encoder_cut1",
    );
    refused(
        &[("image", "hr0 y m"), last],
        "encoder_cut0 has the output 'm', which no later part \
                                            takes",
    );
    refused(
        &[("image", "hr0 y:h9"), last],
        "encoder_cut0 has the output y f16[9], which encoder_cut1 takes as x f32[7]",
    );
    refused(
        &[("image", "hr0 y m:9"), ("x m:h9", "feat hr1")],
        "encoder_cut0 has the output m f32[9], which encoder_cut1 takes as m f16[9]",
    );
    refused(
        &[("image", "hr0:9 y"), ("x hr0", "feat hr1")],
        "encoder_cut0 has the output hr0 f32[9], which encoder_cut1 takes as hr0 f32[7]",
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
    let message = check(&[("image", "hr0 y"), ("x", "feat hr1:h7")]).unwrap_err();
    assert_eq!(message, "encoder_cut1 has hr1 f16[7], the whole encoder has hr1 f32[7]");
    let message = check(&[("image:9", "hr0 y"), ("x", "feat hr1")]).unwrap_err();
    assert!(message.contains("image f32[9]") && message.contains("image f32[7]"), "{message}");
}

/// From text to roles: the handmade bundle with parts.
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
    let wired = PartGraph::of(&bundle.manifest.encoder_parts(), None).unwrap();
    let slots: Vec<_> =
        wired.edges.iter().map(|h| (h.name.as_str(), h.producer.place() / 2, h.slot)).collect();
    assert_eq!(slots, [("y", 0, 0), ("m", 0, 1), ("y", 1, 2), ("y", 2, 0)]);

    let message = open(&cut.replace("encoder_cut1\"", "encoder_cut5\"")).unwrap_err();
    assert!(
        message.contains("the encoder is cut and encoder_cut2 exists, but encoder_cut1 is missing")
            && message.contains("manifest.toml"),
        "{message}"
    );
    let message = open(&cut.replace("\"m\"", "\"n\"").replacen("\"n\"", "\"m\"", 1)).unwrap_err();
    assert!(
        message.contains("encoder_cut3 takes 'n'")
            && message.contains(
                "export the \
        model"
            ),
        "{message}"
    );
}

const STEM: (&str, &str) = ("image", "y:1*16*16*8");
const NECK: (&str, &str) = ("m0:1*16*16*8 m1:1*8*8*16 m2:1*4*4*32 m3:1*2*2*64", "hr0 hr1 feat");

#[test]
fn a_trunk_lies_between_stem_and_neck_and_no_two_of_its_tokens_share_memory() {
    let trunk = crate::bundle::trunk::fixtures::small();
    let wire = |ports: &[(&str, &str)]| {
        let parts = parts(ports);
        let wired = PartGraph::of(&parts.iter().collect::<Vec<_>>(), Some(&trunk));
        wired.map_err(|error| format!("{error:#}"))
    };
    let wired = wire(&[STEM, NECK]).unwrap();
    let found: Vec<_> =
        wired.edges.iter().map(|h| (&*h.name, h.producer, &*h.consumers, h.slot)).collect();
    use PartStep::{Part, Trunk};
    let stages = [Part(1)];
    assert_eq!(
        found,
        [
            ("y", Part(0), &[Trunk, Part(1)][..], 0),
            ("m1", Trunk, &stages, 1),
            ("m2", Trunk, &stages, 2),
            ("m3", Trunk, &stages, 3),
        ]
    );
    let names = |at: usize| [Part(0), Trunk, Part(1)].map(|step| wired.edges[at].name_in(step));
    assert_eq!(names(0), [Some("y"), Some("y"), Some("m0")]);
    assert_eq!(names(2), [None, Some("m2"), Some("m2")]);
    assert_eq!(wired.trunk.as_ref(), Some(&trunk));

    let refused = |ports: &[(&str, &str)], message: &str| {
        let error = wire(ports).expect_err(message);
        assert!(error.contains(message), "{message:?} is not in {error:?}");
    };
    let four = "m0:1*16*16*8 m1:1*8*8*16 m2:1*4*4*32";
    refused(&[WHOLE], "the encoder has a [trunk] and 1 parts; expected two");
    refused(&[STEM, ("x", "y"), NECK], "the encoder has a [trunk] and 3 parts; expected two");
    refused(&[STEM, (four, NECK.1)], "encoder_cut1 takes no 'm3'; with a trunk expected: m0, m1");
    refused(&[("image", "y:1*16*16*9"), NECK], "encoder_cut0 makes y f32[1,16,16,9]; the trunk's");
    refused(
        &[("image", "y:h1*16*16*8"), NECK],
        "makes y f16[1,16,16,8]; the trunk's blocks have y",
    );
    refused(&[("image", "hr0 y:1*16*16*8"), NECK], "encoder_cut0 makes 'hr0'; with a trunk");
    refused(&[STEM, (NECK.0, "hr0 feat")], "encoder_cut1 makes no 'hr1'");
    let other = NECK.0.replace("4*4*32", "4*4*16");
    refused(&[STEM, (&other, NECK.1)], "encoder_cut1 takes m2 f32[1,4,4,16]; the trunk's blocks");
    let more = format!("x {}", NECK.0);
    refused(&[STEM, (&more, NECK.1)], "encoder_cut1 takes 'x'; with a trunk expected: m0");
}
