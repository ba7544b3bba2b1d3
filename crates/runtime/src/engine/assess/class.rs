/*!
What one layer of an engine is: arithmetic in which type, mere moving of data, or a box that
TensorRT does not open.

TensorRT 8 hides whole regions in one layer (Myelin, `{ForeignNode[a...b]}`); 10 and 11 list the
kernels inside, under names that Myelin makes from abbreviated operators
(`__myl_MaxSubExpSumDivMul`).
*/

use crate::engine::LayerRecord;

/// Element type that a layer computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// 32-bit float, TF32 included: TensorRT does not tell them apart.
    Fp32,
    /// Half precision.
    Fp16,
    /// Brain float.
    Bf16,
    /// 8-bit float.
    Fp8,
    /// 8-bit integer, quantized.
    Int8,
    /// Indices, shapes, truth values.
    Integer,
}

impl Element {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int8 => "int8",
            Self::Integer => "integer",
        }
    }

    /// The type in TensorRT's words for a tensor: "Half", "Row major linear FP32", "BFloat16, …
    /// (kLINEAR)".
    pub fn of_format(text: &str) -> Option<Self> {
        text.split(|c: char| !c.is_ascii_alphanumeric()).find_map(|word| {
            let word = word.to_ascii_lowercase();
            Some(match word.strip_prefix('k').unwrap_or(&word) {
                "fp32" | "float" | "float32" | "tf32" => Self::Fp32,
                "fp16" | "half" | "float16" => Self::Fp16,
                "bf16" | "bfloat16" => Self::Bf16,
                "fp8" | "e4m3" => Self::Fp8,
                "int8" => Self::Int8,
                "int32" | "int64" | "uint8" | "bool" => Self::Integer,
                _ => return None,
            })
        })
    }

    /// The operands' type in a kernel's name (`sm90_xmma_gemm_f16f16_f16f32_f32_…`): such a kernel
    /// computes in half precision whatever type it writes.
    fn of_tactic(tactic: &str) -> Option<Self> {
        tactic.split('_').find_map(|word| {
            Some(match word {
                "f16f16" => Self::Fp16,
                "bf16bf16" => Self::Bf16,
                "f32f32" | "tf32tf32" => Self::Fp32,
                "e4m3e4m3" => Self::Fp8,
                "i8i8" => Self::Int8,
                _ => return None,
            })
        })
    }
}

/// What a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Arithmetic in this type.
    Computes(Element),
    /// Copies, casts, transposes, slices, waits.
    Moves,
    /// A region whose inside TensorRT does not tell.
    Opaque,
    /// TensorRT reported only the name.
    Unsaid,
}

/// Kinds of layers without arithmetic, in small letters.
const MOVING: [&str; 18] = [
    "reformat",
    "shuffle",
    "noop",
    "no_op",
    "constant",
    "copy",
    "slice",
    "concat",
    "concatenation",
    "gather",
    "identity",
    "cast",
    "signal",
    "wait",
    "shape_call",
    "memcpy",
    "squeeze",
    "unsqueeze",
];
/// Myelin's abbreviations of operators without arithmetic; releases cut them after three or four
/// letters.
const MOVING_OPERATORS: [&str; 22] = [
    "Tra", "Tran", "Res", "Resh", "Mov", "Move", "Sli", "Slic", "Con", "Conc", "Rep", "Repl",
    "Cas", "Cast", "Gat", "Gath", "Pad", "Uns", "Squ", "Bro", "Broa", "Expa",
];

impl Class {
    /// The class of a layer.
    pub fn of(layer: &LayerRecord) -> Self {
        let kind = layer.kind.to_ascii_lowercase();
        if kind == "myelin" || kind == "foreignnode" || layer.name.starts_with("{ForeignNode[") {
            return Self::Opaque;
        }
        let operators = operators(layer);
        let only_moves = !operators.is_empty()
            && operators.iter().all(|operator| MOVING_OPERATORS.contains(operator));
        let reformat = layer.name.starts_with("Reformatting CopyNode");
        if MOVING.contains(&kind.as_str()) || only_moves || reformat {
            return Self::Moves;
        }
        let written: Vec<_> =
            layer.outputs.iter().filter_map(|format| Element::of_format(format)).collect();
        // Of several written types the widest counts.
        let told =
            layer.tactic.as_deref().and_then(Element::of_tactic).or(written.into_iter().min());
        told.map_or(Self::Unsaid, Self::Computes)
    }
}

/// The layer is a kernel that computes a whole attention: scores, softmax and product with the
/// values.
pub fn is_fused_attention(layer: &LayerRecord) -> bool {
    // A name with slashes consists of ONNX nodes. A module may have the name "mha", whatever
    // its kernel is.
    let own_name = layer.name.starts_with('_') && !layer.name.contains('/');
    let name = own_name.then_some(layer.name.as_str());
    [Some(layer.kind.as_str()), layer.tactic.as_deref(), name]
        .into_iter()
        .flatten()
        .any(says_attention)
}

fn says_attention(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    words.iter().any(|word| {
        matches!(*word, "mha" | "fmha" | "mhca" | "fmhca" | "attention" | "flashattention")
    }) || words.windows(2).any(|pair| pair[0] == "flash" && matches!(pair[1], "attention" | "attn"))
}

/// The layer is a softmax on its own, or fused with elementwise neighbours only.
pub fn is_softmax(layer: &LayerRecord) -> bool {
    let operators = operators(layer);
    let exponential = operators.windows(2).position(|pair| pair == ["Sub", "Exp"]);
    let made_of_parts = exponential.is_some_and(|at| operators[at..].contains(&"Sum"));
    layer.kind.to_ascii_lowercase().contains("softmax") || made_of_parts
}

/// The operators in a name that Myelin made, abbreviated; none in other names.
fn operators(layer: &LayerRecord) -> Vec<&str> {
    let names = [Some(layer.name.as_str()), layer.tactic.as_deref()];
    let made = names.into_iter().flatten().find_map(|name| name.strip_prefix("__myl_"));
    let run = made.and_then(|made| {
        made.split('_').find(|part| part.starts_with(|c: char| c.is_ascii_uppercase()))
    });
    let Some(run) = run else { return Vec::new() };
    let mut starts: Vec<usize> =
        run.char_indices().filter(|(_, c)| c.is_ascii_uppercase()).map(|(at, _)| at).collect();
    starts.push(run.len());
    starts.windows(2).map(|pair| &run[pair[0]..pair[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(name: &str, kind: &str, output: &str, tactic: &str) -> LayerRecord {
        LayerRecord {
            name: name.into(),
            kind: kind.into(),
            outputs: if output.is_empty() { vec![] } else { vec![output.into()] },
            tactic: (!tactic.is_empty()).then(|| tactic.into()),
            ..LayerRecord::default()
        }
    }

    #[test]
    fn every_spelling_of_a_type_is_read() {
        for (text, element) in [
            ("Row major linear FP32", Element::Fp32),
            ("Channel major FP16 format where channel % 8 == 0", Element::Fp16),
            ("Half", Element::Fp16),
            ("Float", Element::Fp32),
            ("BFloat16, Row major linear BF16 format (kLINEAR)", Element::Bf16),
            ("Thirty-two wide channel vectorized row major Int8 format", Element::Int8),
            ("Row major linear INT32 format", Element::Integer),
            ("kHALF", Element::Fp16),
        ] {
            assert_eq!(Element::of_format(text), Some(element), "{text}");
        }
        assert_eq!(Element::of_format("N/A due to dynamic shapes"), None);
    }

    #[test]
    fn layers_are_told_apart() {
        use Class::{Computes, Moves, Opaque, Unsaid};
        for (found, class) in [
            (layer("{ForeignNode[/a.../b]}", "Myelin", "Half", "0x0"), Opaque),
            (layer("{ForeignNode[/a.../b]}", "", "", ""), Opaque),
            (
                layer(
                    "Reformatting CopyNode for Input Tensor 0 to {ForeignNode[/a]}",
                    "Reformat",
                    "Float",
                    "",
                ),
                Moves,
            ),
            (layer("__myl_TranReshMove_myl3_3", "kgen", "Float", "__myl_TranReshMove_0xab"), Moves),
            (layer("__myl_CastMulAdd_myl3_3", "kgen", "Float", ""), Computes(Element::Fp32)),
            (
                layer("/fc/MatMul_myl0_1", "gemm", "Float", "sm90_xmma_gemm_f16f16_f16f32_f32_tn"),
                Computes(Element::Fp16),
            ),
            (
                layer("/conv", "CaskConvolution", "Row major linear FP32", "0x2"),
                Computes(Element::Fp32),
            ),
            (
                layer("/shape", "ElementWise", "Row major linear INT32 format", ""),
                Computes(Element::Integer),
            ),
            (layer("/conv", "", "", ""), Unsaid),
        ] {
            assert_eq!(Class::of(&found), class, "{}", found.name);
        }
    }

    #[test]
    fn fused_attention_is_known_by_the_kernel_and_not_by_a_module_called_mha() {
        for (name, kind, tactic) in [
            ("_gemm_mha_v2_myl0_17", "kgen", "_gemm_mha_v2_0x957a"),
            ("__mye8037_gemm_mha_v2", "kgen", ""),
            ("/x", "kgen", "fmha_v2_flash_attention_fp16_64_128_S_q_kv_sm90"),
            ("/x", "Attention", ""),
        ] {
            assert!(is_fused_attention(&layer(name, kind, "Half", tactic)), "{name}");
        }
        for (name, tactic) in [
            ("/mha/attention/MatMul_myl0_3", "sm80_xmma_gemm_f16f16_f16f16_f16_nn"),
            ("__myl_MaxSubExpSumDivMul_myl0_4", "__myl_MaxSubExpSumDivMul_0x1"),
        ] {
            assert!(!is_fused_attention(&layer(name, "kgen", "Half", tactic)), "{name}");
        }
    }

    #[test]
    fn a_softmax_of_its_own_is_known_in_every_release() {
        for (name, kind) in [
            ("/a/Softmax", "SoftMaxV2"),
            ("/a/Softmax", "CudaSoftMax"),
            ("__myl_bb1_3_MaxSubExpSumDivMul", "kgen"),
            ("__myl_RepConAddMaxSubExpSumDivMul_myl0_3", "kgen"),
            ("__myl_SubExpSum_myl0_3", "kgen"),
        ] {
            assert!(is_softmax(&layer(name, kind, "", "")), "{name}");
        }
        // A sigmoid, an expansion, a LayerNorm.
        for name in [
            "__myl_NegExpAddDiv_myl0_1",
            "__myl_SubExpaSum_myl0_1",
            "__myl_MeanSubMulMeanAddSqrtDiv_myl0_0",
        ] {
            assert!(!is_softmax(&layer(name, "kgen", "", "")), "{name}");
        }
    }
}
