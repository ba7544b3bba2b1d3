/*!
What spreads an experiment over GPUs or machines: checked before anything is made, then decided for its file.
*/

use anyhow::{Result, bail};

use super::UsageError;
use super::backend_choice::Chosen;
use crate::cli::{ExperimentArgs, Provider};
use crate::environment;
use crate::experiment::{By, Sharding, owned_flag, parse_bench};
use crate::shard::devices;

/// More decoding threads than this only take processors from the rest.
const MOST_DECODE_THREADS: usize = 8;

/// Refuses what cannot be spread.
pub(super) fn check(args: &ExperimentArgs) -> Result<()> {
    let spread = &args.spread;
    let parts = !spread.devices.is_empty() || spread.shard.is_some();
    if parts && args.shuffle_videos && args.seed.is_none() {
        bail!(UsageError(
            "--shuffle-videos needs a --seed where the clips are shared: else each part would shuffle them in its own way"
                .to_owned()
        ));
    }
    if !spread.devices.is_empty() {
        devices::find(&spread.devices).map_err(UsageError)?;
    }
    Ok(())
}

/// Parts and what runs them, where there are any; `bench` is what all of them run.
pub(super) fn sharding(
    args: &ExperimentArgs,
    chosen: &Chosen,
    bench: &mut Vec<String>,
) -> Result<Option<Sharding>> {
    let ordinals = &args.spread.devices;
    if ordinals.is_empty() {
        return Ok(None);
    }
    let on_cpu = !chosen.tensorrt && parse_bench(bench)?.ort_provider == Provider::Cpu;
    if on_cpu {
        bail!(UsageError(format!(
            "--devices is for GPUs, and this experiment would run on the CPU ({}); leave --devices out, or share the clips between \
             machines with --shard I/N",
            chosen.reason
        )));
    }
    // Each child sees one GPU.
    if let Some(at) = bench.iter().position(|word| word == "--device") {
        "0".clone_into(&mut bench[at + 1]);
    }
    if owned_flag(&args.bench, &["--decode-threads"]) != Some("--decode-threads") && chosen.tensorrt
    {
        // The processors are shared: as many threads as a host with so much less of them would have had.
        let share = environment::processors() / ordinals.len();
        let threads = share.saturating_sub(1).clamp(1, MOST_DECODE_THREADS);
        bench.extend(["--decode-threads".to_owned(), threads.to_string()]);
    }
    Ok(Some(Sharding { shards: ordinals.len(), by: By::Devices(ordinals.clone()) }))
}
