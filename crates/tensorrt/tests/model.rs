/*!
Writes tiny ONNX files byte by byte, so that tests of real libraries need no Python and no committed
model.
*/

/// Element types of onnx.proto3.
pub const FLOAT: u64 = 1;
pub const FLOAT16: u64 = 10;

fn number(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn node(operator: &str, name: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let mut out: Vec<u8> = inputs.iter().flat_map(|input| field(1, input.as_bytes())).collect();
    out.extend(
        [field(2, output.as_bytes()), field(3, name.as_bytes()), field(4, operator.as_bytes())]
            .concat(),
    );
    out
}

fn value(name: &str, kind: u64, shape: &[&str]) -> Vec<u8> {
    let dims: Vec<u8> = shape
        .iter()
        .flat_map(|extent| {
            let dimension =
                extent.parse().map_or_else(|_| field(2, extent.as_bytes()), |n| number(1, n));
            field(1, &dimension)
        })
        .collect();
    let tensor = [number(1, kind), field(2, &dims)].concat();
    [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
}

fn model(
    opset: u64,
    nodes: &[Vec<u8>],
    initializers: &[Vec<u8>],
    inputs: &[Vec<u8>],
    outputs: &[Vec<u8>],
) -> Vec<u8> {
    let mut graph: Vec<u8> = nodes.iter().flat_map(|node| field(1, node)).collect();
    graph.extend(field(2, b"tiny"));
    graph.extend(initializers.iter().flat_map(|tensor| field(5, tensor)));
    graph.extend(inputs.iter().flat_map(|input| field(11, input)));
    graph.extend(outputs.iter().flat_map(|output| field(12, output)));
    [number(1, 8), field(7, &graph), field(8, &number(2, opset))].concat()
}

/// `y = softmax(x · w)`: x is [tokens, 64] with `tokens` open, w constant, in fp32 or fp16.
pub fn attention_like(kind: u64) -> Vec<u8> {
    let size = if kind == FLOAT { 4 } else { 2 };
    let raw: Vec<u8> = (0..64 * 64)
        .flat_map(|index| {
            let weight = (index % 13) as f32 * 0.01;
            let single = weight.to_le_bytes().to_vec();
            if size == 4 { single } else { half::f16::from_f32(weight).to_le_bytes().to_vec() }
        })
        .collect();
    let weight =
        [number(1, 64), number(1, 64), number(2, kind), field(8, b"w"), field(9, &raw)].concat();
    let nodes =
        [node("MatMul", "/scores", &["x", "w"], "s"), node("Softmax", "/softmax", &["s"], "y")];
    let (x, y) = (value("x", kind, &["tokens", "64"]), value("y", kind, &["tokens", "64"]));
    model(17, &nodes, &[weight], &[x], &[y])
}

/// A node that no TensorRT knows.
pub fn unknown_operator() -> Vec<u8> {
    let nodes = [node("Frobnicate", "/odd", &["x"], "y")];
    let (x, y) = (value("x", FLOAT, &["1", "64"]), value("y", FLOAT, &["1", "64"]));
    model(17, &nodes, &[], &[x], &[y])
}
