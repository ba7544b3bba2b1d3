/*!
The algorithms of the products of an encoder's trunk, which are found by time behind a build.
*/

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use cuda::Gpu;
use cuda::Missed;
use cuda::cublaslt::{Choices, CublasLt, CublasLtError};
use kernels::{autotune, autotuned_kernels, gemm_shapes};
use runtime::engine::{EngineManifest, open_part};
use vos::bundle::Trunk;

/// How long algorithms and kernels have their turns; on an H200 all of them take less than 30 s.
const CHOICE: Duration = Duration::from_secs(120);

/// After a build on the GPU at hand, when nothing of ours runs there any more: times the algorithms of the trunk's products, unless that
/// was done with this library and these kernels of this program's on such a GPU; the answer is what the user should know, a sentence.
///
/// # Errors
/// Products that cuBLASLt cannot compute, too little memory, or a manifest that cannot be written.
pub fn choose(dir: &Path, manifest: &mut EngineManifest) -> Result<Option<String>> {
    let Some(shapes) = manifest.trunk().map(gemm_shapes) else {
        return Ok(None);
    };
    let gpu = Gpu::open(0)?;
    let library = match CublasLt::open(&gpu) {
        Ok(library) => library,
        // It was said before the build.
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
        let trunk = manifest.trunk().context("no trunk")?;
        let weights = open_part::<Trunk>(dir, manifest)?;
        let blocks = (0..trunk.blocks.len()).map(|at| weights.block(at));
        autotune(&gpu, trunk, &blocks.collect::<Result<Vec<_>>>()?, CHOICE)
    };
    let choices = measure().context(
        "the algorithms of the trunk's products could not be timed; cuBLASLt's own are taken",
    )?;
    let (others, all, [before, after]) = (choices.others(), choices.products.len(), choices.us);
    let early = match choices.pdl {
        none if none.is_none() => String::new(),
        kinds => format!(", and {kinds} begin before the kernel in front has ended"),
    };
    manifest.products = Some(choices);
    manifest.write(dir)?;
    Ok(Some(format!(
        "{others} of the trunk's {all} products by another algorithm than {library}'s first{early}: {after:.0} us for all blocks, \
         {before:.0} with the first"
    )))
}
