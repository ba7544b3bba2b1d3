/*!
Autotunes the matmuls of the encoder's trunk after a build.
*/

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use cuda::Gpu;
use cuda::Missed;
use cuda::cublaslt::{Choices, CublasLt, CublasLtError};
use kernels::{TrunkSource, autotune, autotuned_kernels, gemm_shapes};
use runtime::engine::{EngineManifest, open_part};
use vos::bundle::Trunk;

/// Time limit of the autotuning; an H200 needs less than 30 s.
const CHOICE: Duration = Duration::from_secs(120);

/// Autotunes after a build on this GPU, when no build runs any more, unless the manifest has
/// results for this library, these kernels and this GPU. Returns a sentence for the user.
///
/// # Errors
/// Matmuls that cuBLASLt cannot compute, too little memory, or a manifest that cannot be written.
pub fn choose(dir: &Path, manifest: &mut EngineManifest) -> Result<Option<String>> {
    // RepViT's products are no library's.
    let blocks = manifest.trunk().and_then(|trunk| trunk.blocks.hiera());
    let Some(shapes) = blocks.map(gemm_shapes) else {
        return Ok(None);
    };
    let gpu = manifest.gpu(&Gpu::open(0)?);
    let library = match CublasLt::open(&gpu) {
        Ok(library) => library,
        // Reported before the build.
        Err(CublasLtError::Library(Missed::NotFound(_))) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let known = manifest.products.as_ref();
    let kernels = autotuned_kernels(&gpu);
    let holds =
        |known: &Choices| known.fit(&library) && known.have(&shapes) && known.tried(&kernels);
    if known.is_some_and(holds) {
        return Ok(None);
    }
    let measure = || -> Result<Choices> {
        let (trunk, blocks) = manifest.trunk().zip(blocks).context("no trunk")?;
        let file = open_part::<Trunk>(dir, manifest)?;
        let weights = (0..blocks.len()).map(|at| file.hiera_block(at));
        let weights = weights.collect::<Result<Vec<_>>>()?;
        let ends = &trunk.ends;
        autotune(&gpu, &TrunkSource { blocks, ends, weights: &weights, choices: None }, CHOICE)
    };
    let choices = measure()
        .context("the trunk's matmuls could not be autotuned; bench uses cuBLASLt's heuristic")?;
    let (others, all, [before, after]) = (choices.others(), choices.products.len(), choices.us);
    let early = match choices.pdl {
        none if none.is_none() => String::new(),
        kinds => format!(", and {kinds} use programmatic dependent launch"),
    };
    manifest.products = Some(choices);
    manifest.write(dir)?;
    Ok(Some(format!(
        "autotuned: {others} of {all} matmuls, tried one by one, are faster with another algorithm \
         than {library}'s first{early}; all blocks take {after:.0} us, before {before:.0} us"
    )))
}
