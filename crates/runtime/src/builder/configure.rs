/*!
From settings to TensorRT's configuration: flags, caps, tactics, profiles.
*/

use crate::engine::Settings;
use crate::engine::fp32_pins::Fp32Pins;
use tensorrt::{Builder, Config, Error, Flag, Pool, Profile, Result, Tactics, Verbosity};
use vos::precision::Precision;

/// A configuration for `settings`; a cap or level that the release cannot keep is an error, a
/// switch that it does not have is already as wanted.
pub fn configure(builder: &Builder, settings: &Settings, pinned: bool) -> Result<Config> {
    let mut config = builder.config()?;
    if !settings.strongly_typed {
        for flag in flags(settings.precision) {
            config.set_flag(*flag, true)?;
        }
        match settings.fp32_pins {
            Fp32Pins::Pinned | Fp32Pins::Whole if pinned => {
                config.set_flag(Flag::ObeyPrecision, true)?;
            }
            Fp32Pins::Preferred if pinned => config.set_flag(Flag::PreferPrecision, true)?,
            _ => {}
        }
    }
    let mended = settings.fp32_pins == Fp32Pins::Whole || !settings.fp32_layers.is_empty();
    if settings.precision != Precision::Best && !mended {
        // fp32 means fp32: TF32 keeps ten bits of the mantissa. A pinned layer reads f16, which has
        // no more.
        if_there_is(config.set_flag(Flag::Tf32, false))?;
    }
    config.set_pool(Pool::Workspace, to_usize(settings.workspace_bytes))?;
    if let Some(bytes) = settings.tactic_bytes {
        config.set_pool(Pool::TacticDram, to_usize(bytes))?;
    }
    if let Some(level) = settings.opt_level {
        config.set_optimization_level(level)?;
    }
    if let Some(runs) = settings.timing_runs {
        config.set_timing_runs(runs)?;
    }
    if settings.ampere_plus {
        config.set_ampere_plus(true)?;
    }
    let tactics = if settings.library_tactics { Tactics::ALL } else { Tactics::BUILT_IN };
    if_there_is(config.set_tactics(tactics))?;
    config.set_verbosity(Verbosity::Detailed)?;
    if !settings.targets.is_empty() {
        let targets: Vec<i32> = settings.targets.iter().map(|sm| sm.cast_signed()).collect();
        config.set_targets(&targets)?;
    }
    for profile in &settings.profiles {
        config.add_profile(&Profile::exact(profile.shapes.iter().cloned()))?;
    }
    Ok(config)
}

/// What a weakly typed build may use.
fn flags(precision: Precision) -> &'static [Flag] {
    match precision {
        Precision::Fp32 => &[],
        Precision::Fp16 | Precision::Mixed => &[Flag::Fp16],
        Precision::Bf16 => &[Flag::Bf16],
        Precision::Best => &[Flag::Fp16, Flag::Tf32],
    }
}

/// True where the release has the thing and took it.
fn if_there_is(outcome: Result<()>) -> Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(Error::Unsupported { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
