//! The cases of the fused attention: the models' shapes, and what is odd.

use super::{Case, Values};

const PLAIN: Case = Case {
    name: "",
    values: Values::Memory,
    tokens: false,
    objects: 1,
    queries: 4096,
    keys: 28_736,
    masked: None,
    scale: 2.0,
};

const HEADS_64: Case = Case { values: Values::Heads(64), keys: 4096, ..PLAIN };
/// Tokens of a trunk: heads of 56 columns (base+), 72 (large) and 96 (tiny).
const TOKENS_56: Case = Case { values: Values::Heads(56), tokens: true, ..HEADS_64 };
const TOKENS_72: Case = Case { values: Values::Heads(72), ..TOKENS_56 };
const TOKENS_96: Case = Case { values: Values::Heads(96), ..TOKENS_56 };

/// The models' steady shapes at 1024 and 512 pixels, then what is odd.
pub(super) const CASES: [Case; 38] = [
    // Without a bias, as of a full bank; with one that masks nothing; with one that masks.
    Case { name: "SAM 2.1 at 1024", ..PLAIN },
    Case { name: "SAM 2.1 at 1024, bias of 0", masked: Some(&[]), ..PLAIN },
    Case { name: "SAM 2.1 at 1024, filling", masked: Some(&[2, 3, 4, 5, 6]), ..PLAIN },
    Case { name: "EdgeTAM at 1024", keys: 3648, ..PLAIN },
    Case { name: "EdgeTAM at 1024, bias of 0", keys: 3648, masked: Some(&[]), ..PLAIN },
    Case { name: "EdgeTAM at 1024, filling", keys: 3648, masked: Some(&[2, 3, 4, 5, 6]), ..PLAIN },
    Case { name: "SAM 2.1 at 512", queries: 1024, keys: 7232, ..PLAIN },
    Case { name: "frame at 1024", values: Values::Frame, keys: 4096, ..PLAIN },
    Case { name: "frame at 512", values: Values::Frame, queries: 1024, keys: 1024, ..PLAIN },
    Case {
        name: "ragged, two objects",
        objects: 2,
        queries: 1000,
        keys: 701,
        masked: Some(&[0, 3]),
        scale: 16.0,
        ..PLAIN
    },
    Case {
        name: "ragged frame",
        values: Values::Frame,
        objects: 2,
        queries: 130,
        keys: 130,
        ..PLAIN
    },
    Case {
        name: "ragged frame, one object",
        values: Values::Frame,
        queries: 130,
        keys: 130,
        ..PLAIN
    },
    // Blocks that fill no cluster.
    Case { name: "three blocks", queries: 300, keys: 450, masked: Some(&[1]), ..PLAIN },
    // One part, which nothing merges.
    Case { name: "few", queries: 33, keys: 5, ..PLAIN },
    Case { name: "few, masked", queries: 33, keys: 5, masked: Some(&[1, 6]), ..PLAIN },
    Case { name: "few of a frame", values: Values::Frame, queries: 33, keys: 33, ..PLAIN },
    Case {
        name: "sharp, three objects",
        objects: 3,
        queries: 200,
        keys: 333,
        scale: 60.0,
        ..PLAIN
    },
    // Encoders over their whole map, from the tokens of their trunk.
    Case { name: "tokens of base+ at 1024", objects: 8, ..TOKENS_56 },
    Case { name: "tokens of large at 1024", objects: 8, ..TOKENS_72 },
    Case { name: "tokens of tiny at 1024", objects: 4, ..TOKENS_96 },
    Case { name: "tokens of base+ at 512", objects: 8, queries: 1024, keys: 1024, ..TOKENS_56 },
    Case { name: "tokens of large at 512", objects: 8, queries: 1024, keys: 1024, ..TOKENS_72 },
    Case { name: "tokens of tiny at 512", objects: 4, queries: 1024, keys: 1024, ..TOKENS_96 },
    Case { name: "ragged tokens, heads of 56", objects: 3, queries: 1000, keys: 1000, ..TOKENS_56 },
    Case { name: "ragged tokens, heads of 72", objects: 3, queries: 1000, keys: 1000, ..TOKENS_72 },
    Case { name: "ragged tokens, heads of 96", objects: 3, queries: 1000, keys: 1000, ..TOKENS_96 },
    Case { name: "sharp tokens, heads of 72", queries: 333, keys: 333, scale: 60.0, ..TOKENS_72 },
    Case { name: "sharp tokens, heads of 96", queries: 333, keys: 333, scale: 60.0, ..TOKENS_96 },
    Case {
        name: "few tokens, heads of 8",
        values: Values::Heads(8),
        objects: 3,
        queries: 21,
        keys: 21,
        ..TOKENS_56
    },
    Case { name: "few tokens, heads of 72", objects: 3, queries: 21, keys: 21, ..TOKENS_72 },
    Case {
        name: "few tokens, heads of 88",
        values: Values::Heads(88),
        objects: 3,
        queries: 21,
        keys: 21,
        ..TOKENS_56
    },
    // Narrower than their kernel, as tensors of their own, masked.
    Case {
        name: "masked heads of 72",
        objects: 2,
        queries: 300,
        keys: 2000,
        masked: Some(&[1, 6]),
        tokens: false,
        ..TOKENS_72
    },
    // Heads as wide as their kernel, as tensors of their own.
    Case { name: "heads of 64 at 1024", objects: 8, ..HEADS_64 },
    Case { name: "heads of 64 at 512", objects: 8, queries: 1024, keys: 1024, ..HEADS_64 },
    // No model masks here; many tiles in a row pass all buffers of the bias.
    Case { name: "masked heads of 64", objects: 2, masked: Some(&[1, 6]), ..HEADS_64 },
    Case { name: "ragged heads of 64", objects: 3, queries: 1000, keys: 1000, ..HEADS_64 },
    Case { name: "sharp heads of 64", queries: 200, keys: 333, scale: 60.0, ..HEADS_64 },
    Case { name: "few, heads of 64", objects: 3, queries: 33, keys: 5, ..HEADS_64 },
];
