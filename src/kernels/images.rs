/*!
The compiled kernels inside the program, and which form of them a GPU gets.
*/

use anyhow::{Context, Result};

use crate::gpu::{Gpu, Image, Module};

/// The source files, one module each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// `cuda/preprocess.cu`
    Preprocess,
    /// `cuda/mask.cu`
    Mask,
    /// `cuda/memory.cu`
    Memory,
}

/// Name, source and PTX of each topic.
const TOPICS: [(Topic, &str, &str); 3] = [
    (Topic::Preprocess, "preprocess", include_str!("../../cuda/preprocess.ptx")),
    (Topic::Mask, "mask", include_str!("../../cuda/mask.ptx")),
    (Topic::Memory, "memory", include_str!("../../cuda/memory.ptx")),
];

// `CUBINS: &[(u32, &str, &[u8])]`: compute capability, topic, image; empty unless SEGTRT_NVCC was set (build.rs).
include!(concat!(env!("OUT_DIR"), "/cubins.rs"));

/// Loads every topic, and says in words from what.
pub(super) fn load(gpu: &Gpu) -> Result<(Vec<(Topic, Module)>, String)> {
    let sm = gpu.facts().sm;
    if CUBINS.iter().any(|(of, ..)| *of == sm) {
        match cubins(gpu, sm) {
            Ok(modules) => return Ok((modules, format!("cubins for sm {sm}"))),
            // A compiler newer than the driver makes such; the PTX does the same work.
            Err(error) => log::warn!("the kernels' cubins cannot be used, their PTX is: {error:#}"),
        }
    }
    let load = |(topic, name, ptx): &(Topic, &str, &'static str)| {
        let module = Module::load(gpu, &format!("the kernels {name}.ptx"), Image::Ptx(ptx));
        module.map(|module| (*topic, module)).with_context(|| {
            let (isa, target) = needs(ptx);
            format!(
                "the kernels need a driver that takes PTX {isa} (CUDA 11.8 or newer) and a GPU of {target} or newer; \
                 found a driver for CUDA {} and {} (sm {sm})",
                gpu.facts().driver_cuda,
                gpu.facts().name
            )
        })
    };
    let modules = TOPICS.iter().map(load).collect::<Result<Vec<_>>>()?;
    let (isa, target) = needs(TOPICS[0].2);
    Ok((modules, format!("PTX {isa} for {target} and newer")))
}

fn cubins(gpu: &Gpu, sm: u32) -> Result<Vec<(Topic, Module)>> {
    let load = |(topic, name, _): &(Topic, &str, &str)| {
        let found = CUBINS.iter().find(|(of, about, _)| *of == sm && about == name);
        let (.., bytes) = found.with_context(|| format!("there is none of {name} for sm {sm}"))?;
        let module = Module::load(gpu, &format!("the cubin of {name}"), Image::Cubin(bytes))?;
        Ok((*topic, module))
    };
    TOPICS.iter().map(load).collect()
}

/// The ISA version and the architecture that PTX declares.
fn needs(ptx: &str) -> (&str, &str) {
    let after = |directive: &str| {
        let line = ptx.lines().find_map(|line| line.strip_prefix(directive));
        line.map_or("?", str::trim)
    };
    (after(".version"), after(".target"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest as _, Sha256};

    /// Hash of a topic's sources, as scripts/kernels.py writes it into the PTX.
    fn hash(common: &[u8], source: &[u8]) -> String {
        let digest = Sha256::new().chain_update(common).chain_update(source).finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_ptx_belongs_to_its_source() {
        let common = std::fs::read("cuda/common.cuh").unwrap();
        for (_, name, ptx) in TOPICS {
            let source = std::fs::read(format!("cuda/{name}.cu")).unwrap();
            let line = ptx.lines().find(|line| line.contains("sha256")).unwrap();
            assert!(
                line.ends_with(&hash(&common, &source)),
                "cuda/{name}.ptx was made from another cuda/{name}.cu or cuda/common.cuh; run scripts/kernels.py"
            );
            let changed = [source.as_slice(), b"\n"].concat();
            assert!(!line.ends_with(&hash(&common, &changed)), "a changed source has another hash");
        }
    }

    #[test]
    fn the_ptx_is_for_the_oldest_gpu_and_driver_that_are_served() {
        for (_, name, ptx) in TOPICS {
            assert_eq!(needs(ptx), ("7.8", "sm_80"), "{name}");
        }
    }
}
