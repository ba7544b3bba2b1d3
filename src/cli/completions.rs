/*!
Arguments of `segtrt completions`.
*/

use clap::Args;
use clap_complete::Shell;

/// Which shell completes.
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
