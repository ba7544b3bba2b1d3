//! Files made byte by byte, the committed graphs, and damage.

use proptest::prelude::*;

use super::*;

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    out.extend(bytes);
    out
}

fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn read(bytes: &[u8]) -> io::Result<OnnxSummary> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    OnnxSummary::read(file.path())
}

fn model() -> Vec<u8> {
    let weight = [field(1, &[2, 3]), number(2, 1), field(8, b"w"), field(9, &[0; 24])].concat();
    let inner =
        [field(1, &field(4, b"Tanh")), field(5, &[number(1, 4), number(2, 10)].concat())].concat();
    let body = field(5, &field(6, &inner));
    let node = [field(1, b"x"), field(3, b"/mean"), field(4, b"ReduceMean")].concat();
    let dims = [field(1, &field(2, b"B")), field(1, &number(1, 8)), field(1, &[])].concat();
    let tensor = [number(1, 7), field(2, &dims)].concat();
    let input = |name: &[u8]| field(11, &[field(1, name), field(2, &field(1, &tensor))].concat());
    let apart = [field(1, b"location"), field(2, b"w.bin")].concat();
    let apart = [number(1, 5), number(2, 16), field(13, &apart), number(14, 1)].concat();
    let graph = [
        field(1, &node),
        field(2, b"main"),
        field(5, &weight),
        field(5, &apart),
        field(1, &[field(4, b"If"), body, field(7, b"com.x")].concat()),
        input(b"x"),
        input(b"w"),
        field(12, &field(1, b"y")),
    ]
    .concat();
    let length = [(graph.len() & 0x7f) as u8 | 0x80, (graph.len() >> 7) as u8];
    let custom = [field(1, b"com.x"), number(2, 1)].concat();
    let producer = [field(2, b"maker"), field(3, b"1.2")].concat();
    [
        number(1, 8),
        producer,
        vec![7 << 3 | 2],
        length.to_vec(),
        graph,
        field(8, &custom),
        field(8, &number(2, 17)),
    ]
    .concat()
}

#[test]
fn everything_but_the_weights_is_read() {
    let summary = read(&model()).unwrap();
    assert_eq!((summary.ir_version, summary.opset), (8, Some(17)));
    assert_eq!((summary.producer.as_str(), summary.graph.as_str()), ("maker 1.2", "main"));
    assert_eq!(summary.other_opsets, [("com.x".to_owned(), 1)]);
    assert_eq!(summary.nodes[0].name, "/mean");
    let custom = OnnxNode { operator: "If".into(), domain: "com.x".into(), ..OnnxNode::default() };
    assert_eq!(summary.nodes[1], custom);
    assert_eq!(summary.inner_nodes[0].operator, "Tanh");
    // The weight that is listed among the inputs is none.
    assert_eq!(summary.inputs.len(), 1);
    let shape = [OnnxExtent::Named("B".into()), OnnxExtent::Fixed(8), OnnxExtent::Open];
    assert_eq!(
        summary.inputs[0],
        OnnxTensor { name: "x".into(), dtype: Some(OnnxType::I64), shape: Some(shape.into()) }
    );
    assert_eq!((summary.outputs[0].name.as_str(), &summary.outputs[0].shape), ("y", &None));
    let of = |dtype| summary.weights[&OnnxType(dtype)];
    assert_eq!(of(1), OnnxWeights { tensors: 1, elements: 6, bytes: 24 });
    assert_eq!(of(10), OnnxWeights { tensors: 1, elements: 4, bytes: 8 });
    assert_eq!(of(16), OnnxWeights { tensors: 1, elements: 5, bytes: 10 });
    assert_eq!(summary.external_files, ["w.bin"]);
}

#[test]
fn a_truncated_file_is_an_error() {
    let model = model();
    for length in 0..model.len() {
        // The opsets come last: without them it is still a file, but one without an opset.
        let read = read(&model[..length]);
        assert!(read.is_err() || read.unwrap().opset.is_none(), "{length} bytes");
    }
    let error = read(b"not a model at all").unwrap_err().to_string();
    assert!(error.contains("truncated or no ONNX file: "), "{error}");
    assert!(read(&number(1, 8)).unwrap_err().to_string().contains("no graph"));
}

/// A sparse file: reading its weights would take seconds, and more memory than the tests have.
#[test]
fn weights_of_gigabytes_are_passed_over() {
    use std::io::{Seek, SeekFrom, Write};

    const WEIGHTS: u64 = 16 << 30;
    let varint = |mut value: u64| {
        let mut out = Vec::new();
        while value >= 0x80 {
            out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        out
    };
    let raw = [vec![9 << 3 | 2], varint(WEIGHTS)].concat();
    let begin = [number(2, 1), raw].concat();
    let tensor = [vec![5 << 3 | 2], varint(begin.len() as u64 + WEIGHTS), begin].concat();
    let graph = [vec![7 << 3 | 2], varint(tensor.len() as u64 + WEIGHTS), tensor].concat();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&graph).unwrap();
    file.seek(SeekFrom::Current(WEIGHTS.cast_signed())).unwrap();
    file.write_all(&field(8, &number(2, 17))).unwrap();
    let started = std::time::Instant::now();
    let summary = OnnxSummary::read(file.path()).unwrap();
    assert_eq!((summary.opset, summary.weights[&OnnxType(1)].tensors), (Some(17), 1));
    assert!(started.elapsed().as_millis() < 500, "{:?}", started.elapsed());
}

#[test]
fn sizes_that_no_file_has_are_refused() {
    let huge = field(1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f].repeat(4));
    let model = field(7, &field(5, &huge));
    assert!(read(&model).unwrap_err().to_string().contains("2^64 elements"));
}

proptest! {
    #[test]
    fn any_bytes_end_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }

    #[test]
    fn any_flipped_byte_ends_without_a_panic(at in 0..400_usize, bits in 1..=255_u8) {
        let mut model = model();
        let at = at % model.len();
        model[at] ^= bits;
        let _ = read(&model);
    }
}
