/*!
From the engine inspector's JSON to layer records.

Each release family writes its own dialect: layers are bare names where the build was not detailed;
element type and layout share one field up to 10 (`Format/Datatype`) and have one each from 11 on;
10 and 11 add `Metadata` with the ONNX nodes behind a layer. The text is not always JSON: separators
between nodes are raw control characters, and numbers may be `inf` or `nan`.
*/

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::manifest::LayerRecord;

/// All layers in the inspector's answer for an engine, in their order of execution.
///
/// # Errors
/// Text that is no JSON, or JSON without a list of layers.
pub fn parse(json: &str) -> Result<Vec<LayerRecord>> {
    let begin = || json.chars().take(60).collect::<String>();
    let document: Value = serde_json::from_str(&repaired(json)).with_context(|| {
        format!("TensorRT's account of the layers is no JSON; it begins with {:?}", begin())
    })?;
    let Some(Value::Array(layers)) = document.get("Layers") else {
        bail!(
            "TensorRT's account of the layers has no list \"Layers\"; it begins with {:?}",
            begin()
        );
    };
    layers.iter().map(record).collect()
}

fn record(layer: &Value) -> Result<LayerRecord> {
    match layer {
        // Built without detail: TensorRT reports only the name.
        Value::String(name) => Ok(LayerRecord { name: name.clone(), ..LayerRecord::default() }),
        Value::Object(_) => Ok(LayerRecord {
            name: text(layer, "Name").unwrap_or_default(),
            kind: text(layer, "LayerType").unwrap_or_default(),
            outputs: tensors(layer, "Outputs").iter().filter_map(element_type).collect(),
            tactic: text(layer, "TacticName").or_else(|| text(layer, "TacticValue")),
            sources: text(layer, "Metadata").map_or_else(Vec::new, |metadata| nodes(&metadata)),
            input_shapes: tensors(layer, "Inputs").iter().filter_map(shape).collect(),
            output_shapes: tensors(layer, "Outputs").iter().filter_map(shape).collect(),
        }),
        other => bail!("TensorRT's account of the layers has {other} where a layer was expected"),
    }
}

/// A field that is a text with something in it.
fn text(of: &Value, key: &str) -> Option<String> {
    of.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn tensors<'a>(layer: &'a Value, key: &str) -> &'a [Value] {
    layer.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Element type and layout, in TensorRT's words.
fn element_type(tensor: &Value) -> Option<String> {
    if let Some(both) = text(tensor, "Format/Datatype") {
        return Some(both);
    }
    let element = ["DataType", "Datatype"].iter().find_map(|key| text(tensor, key));
    match (element, text(tensor, "Format")) {
        (Some(element), Some(format)) => Some(format!("{element}, {format}")),
        (element, format) => element.or(format),
    }
}

fn shape(tensor: &Value) -> Option<Vec<i64>> {
    tensor.get("Dimensions")?.as_array()?.iter().map(Value::as_i64).collect()
}

/// The nodes in a layer's metadata: `[ONNX Layer: /a][ONNX Layer: /b]`, with or without separators
/// between them.
fn nodes(metadata: &str) -> Vec<String> {
    const OPENING: &str = "[ONNX Layer: ";
    let mut found: Vec<String> = Vec::new();
    for part in metadata.split(OPENING).skip(1) {
        // Node names may hold brackets: only the last one of a part closes it.
        let name = part.rsplit_once(']').map_or(part, |(name, _)| name);
        if !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}

/// The text with raw control characters inside strings made blanks, and bare `inf` and `nan` made
/// null.
fn repaired(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        if !in_string && let Some(length) = bare_infinity(rest) {
            out.push_str("null");
            rest = &rest[length..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        if c == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = in_string && !escaped && c == '\\';
        out.push(if in_string && c.is_control() { ' ' } else { c });
    }
    out
}

/// The length of a number that JSON has no word for.
fn bare_infinity(text: &str) -> Option<usize> {
    ["-inf", "inf", "-nan", "nan"]
        .iter()
        .find(|word| text.starts_with(**word))
        .map(|word| word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Written by hand after the form that each release gives; no file of TensorRT's is copied.

    #[test]
    fn names_alone_are_layers_without_detail() {
        let layers =
            parse(r#"{"Layers": ["/a + /b", "{ForeignNode[/c.../d]}"], "Bindings": ["x"]}"#);
        let layers = layers.unwrap();
        assert_eq!(layers[0], LayerRecord { name: "/a + /b".into(), ..LayerRecord::default() });
        assert_eq!(layers[1].name, "{ForeignNode[/c.../d]}");
    }

    #[test]
    fn release_8_tells_type_and_layout_in_one_field_and_a_number_for_a_nameless_tactic() {
        let layers = parse(
            r#"{"Layers": [{
                "Name": "/conv1 + /act1", "LayerType": "CaskConvolution",
                "Inputs": [{"Name": "x", "Location": "Device", "Dimensions": [1,3,8,8],
                            "Format/Datatype": "Row major linear FP32"}],
                "Outputs": [{"Name": "y", "Location": "Device", "Dimensions": [1,16,8,8],
                             "Format/Datatype": "Channel major FP16 format where channel % 8 == 0"}],
                "ParameterType": "Convolution", "Alpha": inf, "Beta": [-nan, 1.5],
                "TacticName": "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc", "TacticValue": "0x1f"
            }, {
                "Name": "{ForeignNode[/q.../out]}", "LayerType": "Myelin",
                "Inputs": [], "Outputs": [{"Name": "z", "Dimensions": [1,4], "Format/Datatype": "Row major linear FP16 format"}],
                "TacticValue": "0x0000000000000000"
            }], "Bindings": ["x", "z"]}"#,
        )
        .unwrap();
        assert_eq!(layers[0].kind, "CaskConvolution");
        assert_eq!(layers[0].outputs, ["Channel major FP16 format where channel % 8 == 0"]);
        assert_eq!(layers[0].tactic.as_deref().map(|t| &t[..9]), Some("sm80_xmma"));
        assert_eq!(
            (&layers[0].input_shapes[0][..], &layers[0].output_shapes[0][..]),
            (&[1, 3, 8, 8][..], &[1, 16, 8, 8][..])
        );
        assert_eq!(
            (layers[1].kind.as_str(), layers[1].tactic.as_deref()),
            ("Myelin", Some("0x0000000000000000"))
        );
    }

    #[test]
    fn release_10_names_the_nodes_behind_a_layer_between_control_characters() {
        let layers = parse(concat!(
            r#"{"Layers": [{"Name": "_gemm_mha_v2_myl0_7", "LayerType": "kgen","#,
            r#""Inputs": [{"Name": "__mye1", "Dimensions": [1,64,64], "Format/Datatype": "Half"}],"#,
            r#""Outputs": [{"Name": "__mye2", "Dimensions": [1,64,64], "Format/Datatype": "Half"}],"#,
            r#""TacticName": "_gemm_mha_v2_0x0123", "StreamId": 0,"#,
            "\"Metadata\": \"[ONNX Layer: /a/MatMul]\u{1e}[ONNX Layer: /a/Softmax[0]]\u{1f}[ONNX \
             Layer: /a/MatMul]\"",
            r#"}], "Bindings": []}"#
        ))
        .unwrap();
        assert_eq!(layers[0].sources, ["/a/MatMul", "/a/Softmax[0]"]);
        assert_eq!(layers[0].outputs, ["Half"]);
    }

    #[test]
    fn release_11_splits_type_and_layout() {
        let layers = parse(
            r#"{"I/O Tensors": [{"Name": "x", "IOMode": "Input"}], "Layers": [{"Name": "gemm_1", "LayerType": "gemm",
                "Outputs": [{"Name": "y", "Dimensions": [-1,4], "DataType": "BFloat16",
                             "Format": "Row major linear BF16 format (kLINEAR)"}], "TacticName": ""}]}"#,
        )
        .unwrap();
        assert_eq!(layers[0].outputs, ["BFloat16, Row major linear BF16 format (kLINEAR)"]);
        assert_eq!(
            (layers[0].tactic.as_deref(), &layers[0].output_shapes[0][..]),
            (None, &[-1, 4][..])
        );
    }

    #[test]
    fn names_that_look_like_numbers_or_hold_quotes_survive_the_repair() {
        let layers = parse(r#"{"Layers": ["a\"inf, nan\\", "inf"]}"#).unwrap();
        assert_eq!((layers[0].name.as_str(), layers[1].name.as_str()), ("a\"inf, nan\\", "inf"));
    }

    #[test]
    fn anything_else_is_refused_with_its_beginning() {
        for (json, word) in [
            ("", "no JSON"),
            ("layer 0: conv", "layer 0"),
            ("{}", "no list"),
            (r#"{"Layers": [3]}"#, "has 3 where"),
        ] {
            let error = format!("{:#}", parse(json).unwrap_err());
            assert!(error.contains(word), "{error}");
        }
    }
}
