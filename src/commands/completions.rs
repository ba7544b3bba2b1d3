/*!
`segtrt completions`.
*/

use std::io::Write;

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

use super::{Outcome, public};

/// Flags of `segtrt completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    segtrt completions bash > ~/.local/share/bash-completion/completions/segtrt\n  \
    segtrt completions zsh > ~/.zfunc/_segtrt\n  \
    segtrt completions fish > ~/.config/fish/completions/segtrt.fish")]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the script.
pub fn run(args: CompletionsArgs) -> Result<Outcome> {
    // Through memory: the generator panics where the reader has gone.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut public(), env!("CARGO_PKG_NAME"), &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Outcome::Done)
}
