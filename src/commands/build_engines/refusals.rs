/*!
Error texts of `build-engines`: which graph cannot be built, why, and the flags that can.
*/

use super::planned::ModelBuild;
use vos::bundle::{Bundle, PartKind, Role};
use vos::platform::Platform;
use vos::precision::Precision;
use vos::track_variant::TrackVariant;

/// `--fp32-graphs` names a graph that CUDA kernels compute.
pub fn fp32_of_kernels(role: Role, build: &str) -> String {
    format!(
        "--fp32-graphs {0}: CUDA kernels compute it in fp16 in {1}, and no engine is built for \
         it; to run an engine in their place: --graphs {0} --fp32-graphs {0}",
        role.name(),
        build
    )
}

/// `--fp32-graphs` with engines that keep the types of their graphs.
pub fn fp32_of_typed_graph(role: Role, precision: Precision, tensorrt: &str) -> String {
    format!(
        "--fp32-graphs {}: {tensorrt} keeps the types of the graphs in {precision} engines; leave \
         the flag out, or use --precision fp32",
        role.name()
    )
}

/// Mixed engines whose track step has no attention kernels.
pub fn mixed_attention(build: &str, variant: TrackVariant) -> String {
    format!(
        "--precision mixed: {build} has the track variant {}, whose attention TensorRT would \
         compute in fp32 too; export the bundle with --precision fp16 --segments, or use \
         --precision fp16",
        variant.name()
    )
}

/// A part of an encoder whose trunk no kernels can run.
pub fn encoder_part(build: &ModelBuild, role: Role, platform: &Platform, sm: u32) -> String {
    let (name, bundle) = (role.name(), &build.bundle.manifest);
    if build.precision == Precision::Mixed && bundle.trunk.is_some() {
        return format!(
            "--graphs {name}: the trunk between the encoder's parts has CUDA kernels in fp16 \
             only, and mixed engines compute the encoder in fp32; build it whole: --graphs encoder"
        );
    }
    format!(
        "--graphs {name}: the trunk between the encoder's parts has no CUDA kernels for {} \
         (sm_{sm}) and {} graphs; build it whole: --graphs encoder",
        platform.title, bundle.model.precision
    )
}

/// The rest of a graph without a part, for which there are no kernels.
pub fn rest(
    part: &PartKind,
    role: Role,
    build: &ModelBuild,
    platform: &Platform,
    sm: u32,
) -> String {
    let whole = (part.engine)(&build.bundle.manifest).map_or("track_seg0", |it| it.role.name());
    format!(
        "--graphs {}: the {} has no CUDA kernels for {} (sm_{sm}) and {} engines; build the \
         segment that contains it: --graphs {whole}",
        role.name(),
        part.name,
        platform.title,
        build.precision
    )
}

/// The bundle lacks a graph.
pub fn missing_graph(bundle: &Bundle, role: Role) -> anyhow::Error {
    let hint = match role {
        Role::TrackPadded => {
            "export it again with --padded-track, or build with --track-variant per-fill-level"
        }
        part if part.is_encoder_part() => {
            "its encoder has fewer parts or none; build with --graphs encoder"
        }
        Role::TrackImage => {
            "export it again with --segments --mask-decoder cuda, or build its last segment"
        }
        Role::TrackKeys | Role::TrackSeg0 => {
            "export it again with --segments, or build with --track-variant padded"
        }
        _ => "export it again",
    };
    anyhow::anyhow!("the bundle {} has no graph {}; {hint}", bundle.dir.display(), role.name())
}
