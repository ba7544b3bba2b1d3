/*!
The compiled kernels inside the program, and which form of them a GPU gets.
*/

use std::cmp::Reverse;
use std::sync::mpsc::{self, Receiver};

use anyhow::{Context, Result};

use cuda::Gpu;
use cuda::module::{Image, Module};

/// The source files, one module each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// `cuda/preprocess.cu`
    Preprocess,
    /// `cuda/mask.cu`
    Mask,
    /// `cuda/memory.cu`
    Memory,
    /// `cuda/attention.cu`
    Attention,
    /// `cuda/attention_hopper.cu`: for sm 90 alone.
    AttentionHopper,
    /// `cuda/trunk.cu`
    Trunk,
    /// `cuda/trunk_hopper.cu`: for sm 90 alone.
    TrunkHopper,
    /// `cuda/windows.cu`
    Windows,
    /// `cuda/products_hopper.cu`: for sm 90 alone.
    ProductsHopper,
    /// `cuda/norms_hopper.cu`: for sm 90 alone.
    NormsHopper,
    /// `cuda/windows_hopper.cu`: for sm 90 alone.
    WindowsHopper,
    /// `cuda/keys.cu`
    Keys,
    /// `cuda/decoder_image.cu`
    DecoderImage,
    /// `cuda/decoder_tokens.cu`
    DecoderTokens,
    /// `cuda/decoder_heads.cu`
    DecoderHeads,
    /// `cuda/decoder_masks.cu`
    DecoderMasks,
    /// `cuda/memory_mask.cu`
    MemoryMask,
    /// `cuda/memory_join.cu`
    MemoryJoin,
    /// `cuda/memory_blocks.cu`
    MemoryBlocks,
    /// `cuda/latents.cu`
    Latents,
    /// `cuda/latent_windows.cu`
    LatentWindows,
}

/// What every pipeline needs; attention's and the trunk's are loaded by those who use them, for the driver compiles them for seconds.
pub(super) const USUAL: [Topic; 3] = [Topic::Preprocess, Topic::Mask, Topic::Memory];

/// Name, headers and PTX of each topic.
const TOPICS: [(Topic, &str, &[&str], &str); 21] = [
    (
        Topic::Preprocess,
        "preprocess",
        &["common.cuh"],
        include_str!("../../../cuda/preprocess.ptx"),
    ),
    (Topic::Mask, "mask", &["common.cuh"], include_str!("../../../cuda/mask.ptx")),
    (Topic::Memory, "memory", &["common.cuh"], include_str!("../../../cuda/memory.ptx")),
    (
        Topic::Attention,
        "attention",
        &["attention.cuh"],
        include_str!("../../../cuda/attention.ptx"),
    ),
    (
        Topic::AttentionHopper,
        "attention_hopper",
        &["attention.cuh", "wgmma.cuh"],
        include_str!("../../../cuda/attention_hopper.ptx"),
    ),
    (
        Topic::Trunk,
        "trunk",
        &["common.cuh", "halves.cuh", "gelu.cuh", "normalize.cuh"],
        include_str!("../../../cuda/trunk.ptx"),
    ),
    (
        Topic::TrunkHopper,
        "trunk_hopper",
        &["common.cuh", "halves.cuh", "normalize.cuh", "wgmma.cuh"],
        include_str!("../../../cuda/trunk_hopper.ptx"),
    ),
    (
        Topic::Windows,
        "windows",
        &["attention.cuh", "windows.cuh"],
        include_str!("../../../cuda/windows.ptx"),
    ),
    (
        Topic::ProductsHopper,
        "products_hopper",
        &["common.cuh", "halves.cuh", "gelu.cuh", "wgmma.cuh", "tiles.cuh"],
        include_str!("../../../cuda/products_hopper.ptx"),
    ),
    (
        Topic::NormsHopper,
        "norms_hopper",
        &["common.cuh", "halves.cuh", "wgmma.cuh", "tiles.cuh"],
        include_str!("../../../cuda/norms_hopper.ptx"),
    ),
    (
        Topic::WindowsHopper,
        "windows_hopper",
        &["attention.cuh", "windows.cuh", "wgmma.cuh"],
        include_str!("../../../cuda/windows_hopper.ptx"),
    ),
    (Topic::Keys, "keys", &["attention.cuh", "halves.cuh"], include_str!("../../../cuda/keys.ptx")),
    (
        Topic::DecoderImage,
        "decoder_image",
        &["attention.cuh", "decoder_image.cuh"],
        include_str!("../../../cuda/decoder_image.ptx"),
    ),
    (
        Topic::DecoderTokens,
        "decoder_tokens",
        &["attention.cuh", "halves.cuh", "decoder_tokens.cuh"],
        include_str!("../../../cuda/decoder_tokens.ptx"),
    ),
    (
        Topic::DecoderHeads,
        "decoder_heads",
        &["attention.cuh"],
        include_str!("../../../cuda/decoder_heads.ptx"),
    ),
    (
        Topic::DecoderMasks,
        "decoder_masks",
        &["attention.cuh", "halves.cuh", "gelu.cuh"],
        include_str!("../../../cuda/decoder_masks.ptx"),
    ),
    (
        Topic::MemoryMask,
        "memory_mask",
        &["attention.cuh", "halves.cuh", "gelu.cuh", "memory_widen.cuh"],
        include_str!("../../../cuda/memory_mask.ptx"),
    ),
    (
        Topic::MemoryJoin,
        "memory_join",
        &["attention.cuh", "halves.cuh", "gelu.cuh"],
        include_str!("../../../cuda/memory_join.ptx"),
    ),
    (
        Topic::MemoryBlocks,
        "memory_blocks",
        &["attention.cuh", "halves.cuh", "gelu.cuh", "memory_blocks.cuh"],
        include_str!("../../../cuda/memory_blocks.ptx"),
    ),
    (
        Topic::Latents,
        "latents",
        &["attention.cuh", "halves.cuh", "gelu.cuh", "latents.cuh"],
        include_str!("../../../cuda/latents.ptx"),
    ),
    (
        Topic::LatentWindows,
        "latent_windows",
        &["attention.cuh", "halves.cuh", "gelu.cuh", "latent_windows.cuh"],
        include_str!("../../../cuda/latent_windows.ptx"),
    ),
];

// `CUBINS: &[(u32, &str, &[u8])]`: compute capability, topic, image; empty unless SEGTRT_NVCC was set (build.rs).
include!(concat!(env!("OUT_DIR"), "/cubins.rs"));

/// Loads these topics, and says in words from what.
pub(super) fn load(gpu: &Gpu, topics: &[Topic]) -> Result<(Vec<(Topic, Module)>, String)> {
    let sm = gpu.facts().sm;
    if CUBINS.iter().any(|(of, ..)| *of == sm) {
        match topics.iter().map(|topic| cubin(gpu, sm, *topic)).collect() {
            Ok(modules) => return Ok((modules, format!("cubins for sm {sm}"))),
            // A compiler newer than the driver makes such; the PTX does the same work.
            Err(error) => log::warn!("the kernels' cubins cannot be used, their PTX is: {error:#}"),
        }
    }
    let (mut modules, mut form) = (Vec::new(), String::new());
    for topic in topics {
        let (_, name, _, ptx) = entry(*topic)?;
        let (isa, target) = needs(ptx);
        let gpus = match target.strip_suffix('a') {
            Some(only) => format!("of {only} alone"),
            None => format!("of {target} or newer"),
        };
        let module = Module::load(gpu, &format!("the kernels {name}.ptx"), Image::Ptx(ptx));
        let module = module.with_context(|| {
            format!(
                "the kernels need a driver that takes PTX {isa} (CUDA {} or newer) and a GPU {gpus}; found a driver \
                 for CUDA {} and {} (sm {sm})",
                cuda_of(isa),
                gpu.facts().driver_cuda,
                gpu.facts().name
            )
        })?;
        modules.push((*topic, module));
        form = match target.strip_suffix('a') {
            Some(only) => format!("PTX {isa} for {only} alone"),
            None => format!("PTX {isa} for {target} and newer"),
        };
    }
    Ok((modules, form))
}

/// Loaded modules, each with its source.
type Loaded = Vec<(Topic, Module)>;

/// Modules that are loaded beside other work, and kept for whoever asks for them as long as this lives.
#[derive(Debug)]
pub struct Kept {
    loading: Vec<(Topic, Receiver<Loaded>)>,
    loaded: Loaded,
}

impl Kept {
    /// Begins to load those of these topics that this GPU can run, on all processors: without its cache a driver compiles PTX first, one processor for a
    /// module, of those for Hopper for 5 to 70 s with CUDA 12.4. The longest ones begin first.
    pub fn begin<'s>(scope: &rayon::Scope<'s>, gpu: &'s Gpu, topics: &[Topic]) -> Self {
        let length = |topic: &Topic| entry(*topic).map_or(0, |(.., ptx)| ptx.len());
        let mut once: Vec<Topic> = Vec::new();
        for topic in topics {
            if !once.contains(topic) {
                once.push(*topic);
            }
        }
        once.sort_by_key(|topic| Reverse(length(topic)));
        let begin = |topic: Topic| {
            let (give, take) = mpsc::sync_channel(1);
            // Nobody takes it where the test has ended.
            scope.spawn(move |_| _ = give.send(loaded(gpu, topic).unwrap_or_default()));
            (topic, take)
        };
        Self { loading: once.into_iter().map(begin).collect(), loaded: Vec::new() }
    }

    /// Waits until these are loaded. What cannot be loaded is left to whoever needs it, who says so.
    pub fn wait(&mut self, topics: &[Topic]) {
        let (wanted, later) = self.loading.drain(..).partition(|(topic, _)| topics.contains(topic));
        self.loading = later;
        let wanted: Vec<(Topic, Receiver<_>)> = wanted;
        for (_, take) in wanted {
            self.loaded.extend(take.recv().unwrap_or_default());
        }
    }
}

fn loaded(gpu: &Gpu, topic: Topic) -> Option<Loaded> {
    let (_, _, _, ptx) = entry(topic).ok()?;
    let only = needs(ptx).1.trim_start_matches("sm_").strip_suffix('a');
    if only.is_some_and(|only| only != gpu.facts().sm.to_string()) {
        return None;
    }
    let loaded = load(gpu, &[topic]);
    if let Err(error) = &loaded {
        log::debug!("kernels about {topic:?}: {error:#}");
    }
    loaded.ok().map(|(modules, _)| modules)
}

fn cubin(gpu: &Gpu, sm: u32, topic: Topic) -> Result<(Topic, Module)> {
    let (_, name, ..) = entry(topic)?;
    let found = CUBINS.iter().find(|(of, about, _)| *of == sm && about == name);
    let (.., bytes) = found.with_context(|| format!("there is none of {name} for sm {sm}"))?;
    let module = Module::load(gpu, &format!("the cubin of {name}"), Image::Cubin(bytes))?;
    Ok((topic, module))
}

fn entry(
    topic: Topic,
) -> Result<&'static (Topic, &'static str, &'static [&'static str], &'static str)> {
    let found = TOPICS.iter().find(|(of, ..)| *of == topic);
    found.with_context(|| format!("no kernels about {topic:?}"))
}

/// The first CUDA whose driver takes PTX of this version: versions 7.x came with CUDA 11.x, 8.x with 12.x.
fn cuda_of(isa: &str) -> String {
    match isa.split_once('.') {
        Some(("7", minor)) => format!("11.{minor}"),
        Some(("8", minor)) => format!("12.{minor}"),
        _ => "?".to_owned(),
    }
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
    fn hash(sources: &[Vec<u8>]) -> String {
        let digest = Sha256::digest(sources.concat());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_ptx_belongs_to_its_source() {
        for (_, name, headers, ptx) in TOPICS {
            let source = format!("{name}.cu");
            let files: Vec<String> = headers
                .iter()
                .copied()
                .chain([source.as_str()])
                .map(|file| format!("../../cuda/{file}"))
                .collect();
            let mut sources: Vec<Vec<u8>> =
                files.iter().map(|file| std::fs::read(file).unwrap()).collect();
            let line = ptx.lines().find(|line| line.contains("sha256")).unwrap();
            assert!(
                line.ends_with(&hash(&sources)),
                "cuda/{name}.ptx was made from other files than {}; run scripts/kernels.py",
                files.join(", ")
            );
            for at in 0..sources.len() {
                sources[at].push(b'\n');
                assert!(!line.ends_with(&hash(&sources)), "a changed source has another hash");
                sources[at].pop();
            }
            // Headers that a source includes, and those that the hash knows, are the same.
            for (header, bytes) in headers.iter().zip(&sources) {
                let text = String::from_utf8_lossy(bytes);
                assert!(!text.contains("#include"), "{header} includes what the hash leaves out");
            }
            let text = String::from_utf8_lossy(&sources[headers.len()]).into_owned();
            let included: Vec<&str> =
                text.lines().filter_map(|line| line.strip_prefix("#include ")).collect();
            let known: Vec<String> = headers.iter().map(|header| format!("\"{header}\"")).collect();
            assert_eq!(included, known, "cuda/{source}");
        }
    }

    #[test]
    fn the_ptx_is_for_the_oldest_gpu_and_driver_that_are_served() {
        for (topic, name, _, ptx) in TOPICS {
            let least = match topic {
                Topic::AttentionHopper
                | Topic::ProductsHopper
                | Topic::NormsHopper
                | Topic::TrunkHopper
                | Topic::WindowsHopper => ("8.2", "sm_90a"),
                Topic::Attention
                | Topic::Trunk
                | Topic::Windows
                | Topic::Keys
                | Topic::DecoderImage
                | Topic::DecoderTokens
                | Topic::DecoderHeads
                | Topic::DecoderMasks
                | Topic::MemoryMask
                | Topic::MemoryJoin
                | Topic::MemoryBlocks
                | Topic::Latents
                | Topic::LatentWindows => ("7.8", "sm_80"),
                _ => ("7.8", "sm_75"),
            };
            assert_eq!(needs(ptx), least, "{name}");
        }
        assert_eq!((cuda_of("7.8"), cuda_of("8.2")), ("11.8".to_owned(), "12.2".to_owned()));
    }
}
