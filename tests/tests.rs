//! One integration binary; each topic is a module.

// Helpers of tests may fail as loudly as the tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// Splits on disk: SA-V, DAVIS, synthetic; what is wrong with them; their frames, masks and overlays.
mod dataset;
/// Frames and prompt masks to network inputs, logits to masks: golden data from Pillow and torch.
mod preprocess;
/// Prompts from masks, and their way to the network and back.
mod prompts;
