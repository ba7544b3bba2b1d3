/*!
`segtrt completions`.
*/

use std::io::Write;

use anyhow::Result;

use super::Outcome;
use crate::cli::{self, CompletionsArgs};

/// Prints the script.
pub fn run(args: CompletionsArgs) -> Result<Outcome> {
    // Through memory: the generator panics where the reader has gone.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::public(), env!("CARGO_PKG_NAME"), &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Outcome::Done)
}
