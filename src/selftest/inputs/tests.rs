//! Shapes, determinism and meaning of the random inputs.

use super::*;
use crate::selftest::case::cases;
use crate::selftest::case::tests::{manifest, plan, with_padded_track};
use crate::selftest::tensor::Values;
use vos::bundle::{Manifest, Role};

fn made(manifest: &Manifest, role: Role, seed: u64) -> Vec<(Case, Vec<Tensor>)> {
    let inputs = Inputs { contract: &manifest.contract, imgsz: 256, seed, features: &[] };
    let cases = cases(manifest, &plan(manifest, role)).unwrap();
    cases.into_iter().map(|case| (case.clone(), inputs.make(&case).unwrap())).collect()
}

fn named<'a>(tensors: &'a [Tensor], name: &str) -> &'a Tensor {
    tensors.iter().find(|tensor| tensor.name == name).unwrap()
}

fn whole(tensor: &Tensor) -> &[i32] {
    match &tensor.values {
        Values::Whole(values) => values,
        Values::Real(_) => panic!("{} is real", tensor.name),
    }
}

#[test]
fn every_input_of_every_graph_is_made_in_its_shape_and_again_the_same() {
    let manifest = with_padded_track();
    for graph in &manifest.graphs {
        let first = made(&manifest, graph.role, 1);
        for (case, tensors) in &first {
            let names: Vec<&str> = tensors.iter().map(|t| t.name.as_str()).collect();
            let declared: Vec<&str> = graph.inputs.iter().map(|t| t.name.as_str()).collect();
            assert_eq!(names, declared);
            for tensor in tensors {
                assert_eq!(tensor.shape, case.shape(&tensor.name).unwrap());
                let count = elements(&tensor.shape).unwrap();
                let length = match &tensor.values {
                    Values::Real(values) => values.len(),
                    Values::Whole(values) => values.len(),
                };
                assert_eq!(length, count, "{}", tensor.name);
            }
        }
        assert_eq!(first, made(&manifest, graph.role, 1));
        assert_ne!(first, made(&manifest, graph.role, 2));
    }
}

#[test]
fn a_click_takes_the_multimask_outputs_and_a_box_does_not() {
    let prompts = made(&manifest(), Role::Prompt, 1);
    let (_, click) = &prompts[0];
    let (_, corners) = &prompts[1];
    assert_eq!(whole(named(click, "labels")), [1]);
    assert_eq!(whole(named(corners, "labels")), [2, 3]);
    assert_eq!(named(click, "multi").reals().unwrap(), [1.0]);
    assert_eq!(named(corners, "multi").reals().unwrap(), [0.0]);
    let corners = named(corners, "coords").reals().unwrap();
    assert!(corners[0] < corners[2] && corners[1] < corners[3], "{corners:?}");
    for (_, tensors) in &prompts {
        let coords = named(tensors, "coords").reals().unwrap();
        assert!(coords.iter().all(|c| (0.0..256.0).contains(c)), "{coords:?}");
    }
}

#[test]
fn masks_are_binary_blobs_and_logits_smooth_hills() {
    let (_, tensors) = &made(&manifest(), Role::MaskPrompt, 1)[0];
    let mask = named(tensors, "mask").reals().unwrap();
    assert!(mask.iter().all(|v| *v == 0.0 || *v == 1.0));
    let share = mask.iter().sum::<f32>() / mask.len() as f32;
    assert!((0.01..0.5).contains(&share), "{share}");

    let memory = made(&manifest(), Role::Memory, 1);
    let low = named(&memory[0].1, "low").reals().unwrap();
    let greatest = low.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    assert!((greatest - 10.0).abs() < 1e-4, "{greatest}");
    assert!(low.iter().any(|v| *v > 1.0) && low.iter().any(|v| *v < -1.0));
    let steepest = low.windows(2).enumerate().filter(|(at, _)| at % 64 != 63);
    let steepest = steepest.fold(0.0_f32, |m, (_, pair)| m.max((pair[0] - pair[1]).abs()));
    assert!(steepest < 3.0, "{steepest}");
    assert!(named(&memory[0].1, "score").reals().unwrap()[0] > 0.0);
    let binar = |at: usize| named(&memory[at].1, "binar").reals().unwrap()[0];
    assert_eq!((binar(0), binar(1)), (0.0, 1.0));
}

#[test]
fn features_of_the_reference_are_taken_where_their_shape_fits() {
    let manifest = manifest();
    let case = cases(&manifest, &plan(&manifest, Role::Memory)).unwrap().remove(0);
    let feat = Tensor::real("feat", &[1, 48, 16, 16], vec![0.25; 48 * 256]);
    let hr0 = Tensor::real("hr0", &[1, 1], vec![0.25]);
    let features = [feat.clone(), hr0];
    let inputs = Inputs { contract: &manifest.contract, imgsz: 256, seed: 1, features: &features };
    assert_eq!(named(&inputs.make(&case).unwrap(), "feat"), &feat);
}

#[test]
fn an_unknown_input_is_named() {
    let manifest = manifest();
    let mut case = cases(&manifest, &plan(&manifest, Role::Encoder)).unwrap().remove(0);
    case.shapes.push(("depth".to_owned(), vec![1]));
    let inputs = Inputs { contract: &manifest.contract, imgsz: 256, seed: 1, features: &[] };
    assert!(inputs.make(&case).unwrap_err().to_string().contains("'depth'"));
}
