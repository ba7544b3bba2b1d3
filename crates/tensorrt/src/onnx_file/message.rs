/*!
ONNX's messages: which field holds what.

`ModelProto`: ir_version 1, producer_name 2, producer_version 3, graph 7, opset_import 8.
`GraphProto`: node 1, name 2, initializer 5, input 11, output 12, sparse_initializer 15.
`NodeProto`: name 3, op_type 4, attribute 5, domain 7.
*/

use std::io;

use super::types::{OnnxExtent, OnnxNode, OnnxSummary, OnnxTensor, OnnxType};
use super::wire::{Field, Reader, damaged};

/// Reads a whole file.
pub fn model(reader: &mut Reader, length: u64) -> io::Result<OnnxSummary> {
    let mut summary = OnnxSummary::default();
    let (mut producer, mut version) = (String::new(), String::new());
    let mut has_graph = false;
    reader.fields(length, |reader, number, field| match (number, field) {
        (1, Field::Number(number)) => {
            summary.ir_version = number;
            Ok(())
        }
        (2, Field::Bytes(length)) => reader.text(length).map(|text| producer = text),
        (3, Field::Bytes(length)) => reader.text(length).map(|text| version = text),
        (7, Field::Bytes(length)) => {
            has_graph = true;
            graph(reader, length, &mut summary)
        }
        (8, Field::Bytes(length)) => {
            let (domain, version) = opset(reader, length)?;
            if domain.is_empty() || domain == "ai.onnx" {
                summary.opset = Some(version);
            } else {
                summary.other_opsets.push((domain, version));
            }
            Ok(())
        }
        (_, field) => reader.skip(field),
    })?;
    if !has_graph {
        return Err(damaged("it holds no graph"));
    }
    summary.producer = [producer, version].join(" ").trim().to_owned();
    Ok(summary)
}

fn graph(reader: &mut Reader, length: u64, summary: &mut OnnxSummary) -> io::Result<()> {
    let mut initialized = Vec::new();
    reader.fields(length, |reader, number, field| match (number, field) {
        (1, Field::Bytes(length)) => {
            let node = node(reader, length, summary)?;
            summary.nodes.push(node);
            Ok(())
        }
        (2, Field::Bytes(length)) => reader.text(length).map(|text| summary.graph = text),
        (5, Field::Bytes(length)) => {
            initialized.push(tensor(reader, length, summary)?);
            Ok(())
        }
        (11, Field::Bytes(length)) => value(reader, length).map(|value| summary.inputs.push(value)),
        (12, Field::Bytes(length)) => {
            value(reader, length).map(|value| summary.outputs.push(value))
        }
        // A sparse tensor: values 1, indices 2, dims 3.
        (15, Field::Bytes(length)) => {
            reader.fields(length, |reader, number, field| match (number, field) {
                (1 | 2, Field::Bytes(length)) => tensor(reader, length, summary).map(|_| ()),
                (_, field) => reader.skip(field),
            })
        }
        (_, field) => reader.skip(field),
    })?;
    // Before IR version 4 every weight was listed among the inputs, too.
    summary.inputs.retain(|input| !initialized.contains(&input.name));
    Ok(())
}

/// A graph inside a node: its weights and nodes count, its inputs are the node's affair.
fn subgraph(reader: &mut Reader, length: u64, summary: &mut OnnxSummary) -> io::Result<()> {
    reader.fields(length, |reader, number, field| match (number, field) {
        (1, Field::Bytes(length)) => {
            let node = node(reader, length, summary)?;
            summary.inner_nodes.push(node);
            Ok(())
        }
        (5, Field::Bytes(length)) => tensor(reader, length, summary).map(|_| ()),
        (_, field) => reader.skip(field),
    })
}

fn node(reader: &mut Reader, length: u64, summary: &mut OnnxSummary) -> io::Result<OnnxNode> {
    let mut node = OnnxNode::default();
    reader.fields(length, |reader, number, field| {
        match (number, field) {
            (3, Field::Bytes(length)) => node.name = reader.text(length)?,
            (4, Field::Bytes(length)) => node.operator = reader.text(length)?,
            (5, Field::Bytes(length)) => attribute(reader, length, summary)?,
            (7, Field::Bytes(length)) => node.domain = reader.text(length)?,
            (_, field) => reader.skip(field)?,
        }
        Ok(())
    })?;
    Ok(node)
}

/// `AttributeProto`: tensor 5, graph 6, tensors 10, graphs 11.
fn attribute(reader: &mut Reader, length: u64, summary: &mut OnnxSummary) -> io::Result<()> {
    reader.fields(length, |reader, number, field| match (number, field) {
        (5 | 10, Field::Bytes(length)) => tensor(reader, length, summary).map(|_| ()),
        (6 | 11, Field::Bytes(length)) => subgraph(reader, length, summary),
        (_, field) => reader.skip(field),
    })
}

/// Counts a `TensorProto` (dims 1, data_type 2, name 8, external_data 13, data_location 14) and
/// returns its name.
fn tensor(reader: &mut Reader, length: u64, summary: &mut OnnxSummary) -> io::Result<String> {
    let (mut dims, mut dtype, mut name) = (Vec::new(), OnnxType::default(), String::new());
    let mut external = Vec::new();
    reader.fields(length, |reader, number, field| match (number, field) {
        (1, field) => reader.numbers(field, &mut dims),
        (2, Field::Number(number)) => {
            dtype = OnnxType(number);
            Ok(())
        }
        (8, Field::Bytes(length)) => reader.text(length).map(|text| name = text),
        (13, Field::Bytes(length)) => {
            let (key, value) = entry(reader, length)?;
            if key == "location" {
                external.push(value);
            }
            Ok(())
        }
        (_, field) => reader.skip(field),
    })?;
    let elements = dims.iter().try_fold(1_u64, |product, extent| product.checked_mul(*extent));
    let elements = elements.ok_or_else(|| damaged("a weight has more than 2^64 elements"))?;
    let weights = summary.weights.entry(dtype).or_default();
    weights.tensors += 1;
    weights.elements = weights.elements.saturating_add(elements);
    weights.bytes = weights.bytes.saturating_add(dtype.bytes(elements));
    for file in external {
        if !summary.external_files.contains(&file) {
            summary.external_files.push(file);
        }
    }
    Ok(name)
}

/// `ValueInfoProto`: name 1, type 2; `TypeProto`: tensor 1; `TypeProto.Tensor`: elem_type 1, shape
/// 2.
fn value(reader: &mut Reader, length: u64) -> io::Result<OnnxTensor> {
    let mut value = OnnxTensor::default();
    reader.fields(length, |reader, number, field| match (number, field) {
        (1, Field::Bytes(length)) => reader.text(length).map(|text| value.name = text),
        (2, Field::Bytes(length)) => reader.fields(length, |reader, number, field| {
            let (1, Field::Bytes(length)) = (number, field) else { return reader.skip(field) };
            reader.fields(length, |reader, number, field| match (number, field) {
                (1, Field::Number(number)) => {
                    value.dtype = Some(OnnxType(number));
                    Ok(())
                }
                (2, Field::Bytes(length)) => {
                    value.shape = Some(shape(reader, length)?);
                    Ok(())
                }
                (_, field) => reader.skip(field),
            })
        }),
        (_, field) => reader.skip(field),
    })?;
    Ok(value)
}

/// `TensorShapeProto`: dim 1; `Dimension`: dim_value 1, dim_param 2.
fn shape(reader: &mut Reader, length: u64) -> io::Result<Vec<OnnxExtent>> {
    let mut shape = Vec::new();
    reader.fields(length, |reader, number, field| {
        let (1, Field::Bytes(length)) = (number, field) else { return reader.skip(field) };
        let mut extent = OnnxExtent::Open;
        reader.fields(length, |reader, number, field| match (number, field) {
            (1, Field::Number(number)) => {
                extent = OnnxExtent::Fixed(number);
                Ok(())
            }
            (2, Field::Bytes(length)) => {
                extent = OnnxExtent::Named(reader.text(length)?);
                Ok(())
            }
            (_, field) => reader.skip(field),
        })?;
        shape.push(extent);
        Ok(())
    })?;
    Ok(shape)
}

/// `OperatorSetIdProto`: domain 1, version 2.
fn opset(reader: &mut Reader, length: u64) -> io::Result<(String, i64)> {
    let (mut domain, mut version) = (String::new(), 0);
    reader.fields(length, |reader, number, field| {
        match (number, field) {
            (1, Field::Bytes(length)) => domain = reader.text(length)?,
            (2, Field::Number(number)) => version = number.cast_signed(),
            (_, field) => reader.skip(field)?,
        }
        Ok(())
    })?;
    Ok((domain, version))
}

/// `StringStringEntryProto`: key 1, value 2.
fn entry(reader: &mut Reader, length: u64) -> io::Result<(String, String)> {
    let (mut key, mut value) = (String::new(), String::new());
    reader.fields(length, |reader, number, field| {
        match (number, field) {
            (1, Field::Bytes(length)) => key = reader.text(length)?,
            (2, Field::Bytes(length)) => value = reader.text(length)?,
            (_, field) => reader.skip(field)?,
        }
        Ok(())
    })?;
    Ok((key, value))
}
