/*!
The groups of flags in `--help`. A field names its group, because a heading of a flattened struct
would reach the fields after it.
*/

/// Clips, prompts and ground truth.
pub const DATA: &str = "Data";
/// Networks, bundles and engines.
pub const MODEL: &str = "Model";
/// What is measured, and how often.
pub const MEASURING: &str = "Measuring";
/// GPU, CUDA and TensorRT.
pub const GPU: &str = "GPU";
/// Files and formats.
pub const OUTPUT: &str = "Output";
/// Shards of an experiment.
pub const MACHINES: &str = "Several GPUs or machines (docs/how-to/many-machines.md)";
/// Flags of every subcommand.
pub const GLOBAL: &str = "Global";

/// All of them, in the order of every `--help`.
pub const ORDER: [&str; 7] = [DATA, MODEL, MEASURING, GPU, OUTPUT, MACHINES, GLOBAL];

/// Puts the groups of a command and its subcommands into their order. clap shows a group where its
/// first flag was declared, and `mut_arg` moves a flag behind all others.
pub fn in_order(command: clap::Command) -> clap::Command {
    let command = command.mut_subcommands(in_order);
    ORDER.into_iter().fold(command, |command, heading| {
        let of_it = command.get_arguments().filter(|arg| arg.get_help_heading() == Some(heading));
        let ids: Vec<clap::Id> = of_it.map(|arg| arg.get_id().clone()).collect();
        ids.into_iter().fold(command, |command, id| command.mut_arg(id, |arg| arg))
    })
}
