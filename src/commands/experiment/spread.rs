/*!
What spreads an experiment over GPUs or machines: checked before anything is made, then decided for
its file.
*/

use anyhow::{Result, bail};

use super::args::ExperimentArgs;
use super::shard_args::ShardArgs;
use crate::commands::started_bench::{BackendWish, Chosen, owned_flag, parse_bench};
use crate::environment::usual_decode_threads;
use crate::experiment::{By, Sharding, SlurmJobs};
use crate::shard::devices;
use crate::slurm;
use host::UsageError;
use runtime::backend::Provider;

/// The flag of a bench that is planned here and runs on another machine.
pub(super) const ELSEWHERE: &str = "--elsewhere";

/// Most shards where none are asked for.
const USUAL_SHARDS: usize = 8;

/// The user's words for sbatch.
fn slurm_words(args: &ExperimentArgs) -> Result<Vec<String>, UsageError> {
    let text = &args.spread.slurm_args;
    let words = shlex::split(text);
    let mut words = words.ok_or_else(|| {
        UsageError(format!("--slurm-args {text:?}: a quotation mark is not closed"))
    })?;
    let name = |word: &String| word.split('=').next().unwrap_or_default().to_owned();
    if let Some(word) = words.iter().find(|word| slurm::OWNED.contains(&name(word).as_str())) {
        return Err(UsageError(format!(
            "--slurm-args: {word} is set by segtrt experiment itself; --shards says how many \
             tasks there are, and jobs of another cluster cannot be watched from here: submit \
             there"
        )));
    }
    words.extend(args.spread.partition.iter().map(|name| format!("--partition={name}")));
    Ok(words)
}

/// Flags that would be without effect, one of them a promise that nothing runs.
pub(super) fn refuse_flags_of_slurm(spread: &ShardArgs) -> Result<(), UsageError> {
    let given = [(spread.dry_run, "--dry-run"), (spread.no_wait, "--no-wait")];
    match given.iter().find(|(given, _)| *given) {
        Some((_, flag)) => {
            Err(UsageError(format!("{flag} is for experiments with --slurm; leave it out")))
        }
        None => Ok(()),
    }
}

/// Why nothing is decided without being asked for.
fn unseen(reason: &str) -> UsageError {
    UsageError(format!(
        "--slurm: what the nodes can run cannot be seen from here, and here it would be the CPU \
         ({reason}). Say which: --backend cpu, or, for engines of a GPU that only the nodes have: \
         --backend tensorrt -- --platform ROW (rows of engines/platforms.toml)"
    ))
}

/// Refuses what cannot be spread.
pub(super) fn check(args: &ExperimentArgs) -> Result<()> {
    let spread = &args.spread;
    if !spread.slurm {
        refuse_flags_of_slurm(spread)?;
    }
    let parts = !spread.devices.is_empty() || spread.shard.is_some() || spread.slurm;
    if parts && args.shuffle.shuffle_videos && args.shuffle.seed.is_none() {
        bail!(UsageError(
            "--shuffle-videos needs a --seed where the clips are shared: else each part would \
             shuffle them in its own way"
                .to_owned()
        ));
    }
    if !spread.devices.is_empty() {
        devices::find(&spread.devices).map_err(UsageError)?;
    }
    if spread.slurm {
        slurm_words(args)?;
        if !spread.dry_run && !slurm::Commands::are_there() {
            bail!("--slurm: {}", slurm::INSTALL);
        }
    }
    Ok(())
}

/// Parts and what runs them, where there are any; `bench` is what all of them run.
pub(super) fn sharding(
    args: &ExperimentArgs,
    chosen: &Chosen,
    bench: &mut Vec<String>,
    clips: usize,
) -> Result<Option<Sharding>> {
    if args.spread.slurm {
        bench.retain(|word| word != ELSEWHERE);
        let shards =
            args.spread.shards.map_or(clips.clamp(1, USUAL_SHARDS), |shards| shards as usize);
        let jobs = SlurmJobs { args: slurm_words(args)?, submissions: Vec::new() };
        return match (args.started.backend, chosen.tensorrt) {
            (BackendWish::Auto, false) => Err(unseen(&chosen.reason).into()),
            _ => Ok(Some(Sharding { shards, by: By::Slurm(jobs) })),
        };
    }
    let ordinals = &args.spread.devices;
    if ordinals.is_empty() {
        return Ok(None);
    }
    let on_cpu = !chosen.tensorrt && parse_bench(bench)?.ort_provider == Provider::Cpu;
    if on_cpu {
        bail!(UsageError(format!(
            "--devices is for GPUs, and this experiment would run on the CPU ({}); leave \
             --devices out, or share the clips between machines with --shard I/N",
            chosen.reason
        )));
    }
    // Each child sees one GPU.
    if let Some(at) = bench.iter().position(|word| word == "--device") {
        "0".clone_into(&mut bench[at + 1]);
    }
    if owned_flag(&args.started.bench, &["--decode-threads"]) != Some("--decode-threads")
        && chosen.tensorrt
    {
        // The processors are shared: as many threads as a host with so much less of them would have
        // had.
        let threads = usual_decode_threads(ordinals.len());
        bench.extend(["--decode-threads".to_owned(), threads.to_string()]);
    }
    Ok(Some(Sharding { shards: ordinals.len(), by: By::Devices(ordinals.clone()) }))
}
