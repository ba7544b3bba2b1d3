/*!
The target of a build: its GPU, from platform, TensorRT and the GPU of this machine.
*/

use anyhow::{Context, Result, bail};

use super::args::BuildEnginesArgs;
use cuda::{Facts, Gpu};
use host::UsageError;
use tensorrt::Library;
use vos::platform::{Platform, Platforms};

/// The target of a build.
pub struct Target {
    /// Compute capability that the plans are for.
    pub sm: u32,
    /// The same for TensorRT, where plans are built ahead of time; else empty.
    pub ahead: Vec<u32>,
    /// The GPU's name; none where plans are built ahead of time.
    pub device: Option<String>,
}

/// Chooses the target from the requested platform, this machine's GPU and TensorRT.
///
/// # Errors
/// There is no such GPU, or this TensorRT does not build for it.
pub fn target(
    args: &BuildEnginesArgs,
    platforms: &Platforms,
    named: Option<Platform>,
    library: &Library,
) -> Result<(Platform, Target)> {
    let gpu = Gpu::open(args.device).map(|gpu| gpu.facts().clone());
    let here = |gpu: &Facts| format!("{} (sm_{})", gpu.name, gpu.sm);
    let platform = match (named, &gpu) {
        (Some(platform), _) => platform,
        (None, Ok(gpu)) => platforms.of_device(&gpu.name, gpu.sm).cloned().with_context(|| {
            format!(
                "the platform table has no row for {}; name one with --platform ({}), or use your own table: \
                 --platforms FILE",
                here(gpu),
                platforms.names()
            )
        })?,
        (None, Err(error)) => bail!(UsageError(format!(
            "{error}; or name the target: --platform NAME, for example --platform orin; known: {}",
            platforms.names()
        ))),
    };
    let sm = platform.sm;
    let planned = Target { sm, ahead: Vec::new(), device: None };
    if library.family().is_rtx() {
        if args.dry_run && !platform.can_be_built_ahead() {
            return Ok((platform, planned));
        }
        if !platform.can_be_built_ahead() {
            bail!(
                "{} does not build for {} (sm_{sm}); install NVIDIA's TensorRT 8.6, 10 or 11 on \
                 that board and build there{}",
                library.version(),
                platform.title,
                pack_hint(&platform)
            );
        }
        return Ok((platform, Target { sm, ahead: vec![sm], device: None }));
    }
    match gpu {
        Ok(gpu) if gpu.sm == sm => {
            if platforms.of_device(&gpu.name, sm).is_none_or(|row| row.name != platform.name) {
                log::warn!(
                    "building for {} on {}: tactics are timed on the latter",
                    platform.title,
                    here(&gpu)
                );
            }
            let device = Some(gpu.name.clone());
            Ok((platform, Target { sm, ahead: Vec::new(), device }))
        }
        // Nothing is built: this is how another machine's build is planned.
        _ if args.dry_run => Ok((platform, planned)),
        Ok(gpu) => bail!(
            "{} builds only for the GPU of this machine, {}, and {} is sm_{sm}{}",
            library.version(),
            here(&gpu),
            platform.title,
            pack_hint(&platform)
        ),
        Err(error) => bail!(
            "{} builds on the GPU that will run the plan: {error}{}",
            library.version(),
            pack_hint(&platform)
        ),
    }
}

fn pack_hint(platform: &Platform) -> String {
    let name = &platform.name;
    let ahead = match platform.can_be_built_ahead() {
        true => {
            "; TensorRT for RTX builds for it on any machine (pip install tensorrt-rtx-cu13-libs)"
        }
        false => "",
    };
    format!(
        "{ahead}; to take everything to that machine in one file: segtrt pack --platform {name}"
    )
}
