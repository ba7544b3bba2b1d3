/*!
The compiled kernels inside the program, and the choice of their form (cubin or PTX) for a GPU.
*/

use std::cmp::Reverse;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Context, Result};

use crate::dependent::{self, Dependents};
use cuda::Gpu;
use cuda::image::Image;
use cuda::module::{Function, Module};

/// What every pipeline needs; attention's and the trunk's are loaded by those who use them, for the
/// driver compiles them for seconds.
pub(super) const USUAL: [Topic; 3] = [Topic::Preprocess, Topic::Mask, Topic::Bank];

/// A kernel, as its PTX declares it.
#[derive(Debug)]
pub(super) struct Entry {
    pub name: &'static str,
    /// A letter for each: p, a pointer; i, a 32-bit integer; f, a float; m, a tensor map of 128
    /// bytes.
    pub parameters: &'static str,
    /// Threads of a block, where the source fixes them.
    pub threads: Option<u32>,
    /// It waits itself for the previous kernel, where the GPU can ([`dependent`]).
    pub waits: bool,
}

/// A topic's module as it is in the program.
struct Compiled {
    name: &'static str,
    /// What its PTX declares: the version of the language, and the least GPU.
    isa: &'static str,
    target: &'static str,
    kernels: &'static [Entry],
}

/// A loaded module, with its topic.
#[derive(Clone, Debug)]
pub(super) struct KernelModule {
    pub topic: Topic,
    module: Module,
    /// Its kernels wait as their entries say.
    waits: bool,
}

impl KernelModule {
    /// The kernel of that name, whose launches are held to the parameters of its PTX.
    ///
    /// # Errors
    /// The module has no such kernel, or an error of the driver.
    pub fn function(&self, name: &str) -> Result<Function> {
        let entry = self.topic.entry(name);
        let entry = entry.with_context(|| format!("no kernel {name} about {:?}", self.topic))?;
        Ok(self.module.function(name, entry.parameters, entry.waits && self.waits)?)
    }
}

/// The names of all custom kernels, each once.
pub fn names() -> impl Iterator<Item = &'static str> {
    let names = Topic::ALL.into_iter().flat_map(|topic| topic.entries()).map(|entry| entry.name);
    names.collect::<std::collections::BTreeSet<_>>().into_iter()
}

impl Topic {
    /// All kernels of the module.
    pub(super) const fn entries(self) -> &'static [Entry] {
        self.compiled().kernels
    }

    /// A kernel of the module.
    pub(super) fn entry(self, kernel: &str) -> Option<&'static Entry> {
        self.compiled().kernels.iter().find(|entry| entry.name == kernel)
    }

    /// The module that has the kernel of that name.
    pub(super) fn with(kernel: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.entry(kernel).is_some())
    }
}

// `Topic`, a variant for each module of cuda/kernels.toml, and what it compiled to (build.rs).
include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
// `CUBINS: &[(u32, &str, &[u8])]`: compute capability, topic, image; empty unless SEGTRT_NVCC was
// set (build.rs).
include!(concat!(env!("OUT_DIR"), "/cubins.rs"));

/// Loads these topics, and says in words from what.
pub(super) fn load(gpu: &Gpu, topics: &[Topic]) -> Result<(Vec<KernelModule>, String)> {
    let sm = gpu.facts().sm;
    if CUBINS.iter().any(|(of, ..)| *of == sm) {
        match topics.iter().map(|topic| cubin(gpu, sm, *topic)).collect() {
            Ok(modules) => return Ok((modules, format!("cubins for sm {sm}"))),
            // A compiler newer than the driver makes such; the PTX does the same work.
            Err(error) => log::warn!("the kernels' cubins cannot be used, their PTX is: {error:#}"),
        }
    }
    // The driver compiles PTX that is in no cache for seconds, a module on one processor.
    let modules: Vec<KernelModule> = thread::scope(|scope| {
        let begin = |topic: &Topic| {
            let topic = *topic;
            scope.spawn(move || from_ptx(gpu, topic))
        };
        let begun: Vec<_> = topics.iter().map(begin).collect();
        let end =
            |one: ScopedJoinHandle<'_, _>| one.join().unwrap_or_else(|said| resume_unwind(said));
        begun.into_iter().map(end).collect::<Result<_>>()
    })?;
    let form = topics.last().map(|topic| {
        let Compiled { isa, target, .. } = topic.compiled();
        match target.strip_suffix('a') {
            Some(only) => format!("PTX {isa} for {only} alone"),
            None => format!("PTX {isa} for {target} and newer"),
        }
    });
    Ok((modules, form.unwrap_or_default()))
}

fn from_ptx(gpu: &Gpu, topic: Topic) -> Result<KernelModule> {
    let Compiled { name, isa, target, kernels } = topic.compiled();
    let gpus = match target.strip_suffix('a') {
        Some(only) => format!("of {only} alone"),
        None => format!("of {target} or newer"),
    };
    let (form, image) = (Dependents::of(target, gpu.facts().sm), Image::Ptx(topic.deflated()));
    // What has no kernel that waits is the same text for all GPUs.
    let edit = |ptx| if kernels.iter().any(|one| one.waits) { form.ptx(ptx) } else { ptx };
    let module = Module::load(gpu, &format!("the kernels {name}.ptx"), image, edit);
    let module = module.with_context(|| {
        format!(
            "the kernels need a driver that takes PTX {isa} (CUDA {} or newer) and a GPU {gpus}; \
             found a driver for CUDA {} and {} (sm {})",
            cuda_of(isa),
            gpu.facts().driver_cuda,
            gpu.facts().name,
            gpu.facts().sm
        )
    })?;
    Ok(KernelModule { topic, module, waits: form.waits() })
}

/// Modules that are loaded beside other work, and kept for whoever asks for them as long as this
/// lives.
#[derive(Debug)]
pub struct Kept {
    loading: Vec<(Topic, Receiver<Vec<KernelModule>>)>,
    loaded: Vec<KernelModule>,
}

impl Kept {
    /// Begins to load those of these topics that this GPU can run, on all processors: without its
    /// cache a driver compiles PTX first, one processor for a module, of those for Hopper for 5 to
    /// 70 s with CUDA 12.4. The longest ones begin first.
    pub fn begin<'s>(scope: &rayon::Scope<'s>, gpu: &'s Gpu, topics: &[Topic]) -> Self {
        let mut once: Vec<Topic> = Vec::new();
        for topic in topics {
            if !once.contains(topic) {
                once.push(*topic);
            }
        }
        once.sort_by_key(|topic| Reverse(topic.deflated().len()));
        let begin = |topic: Topic| {
            let (give, take) = mpsc::sync_channel(1);
            // Nobody takes it where the test has ended.
            scope.spawn(move |_| _ = give.send(loaded(gpu, topic).unwrap_or_default()));
            (topic, take)
        };
        Self { loading: once.into_iter().map(begin).collect(), loaded: Vec::new() }
    }

    /// Waits until these are loaded. What cannot be loaded is left to whoever needs it, who says
    /// so.
    pub fn wait(&mut self, topics: &[Topic]) {
        let (wanted, later) = self.loading.drain(..).partition(|(topic, _)| topics.contains(topic));
        self.loading = later;
        let wanted: Vec<(Topic, Receiver<_>)> = wanted;
        for (_, take) in wanted {
            self.loaded.extend(take.recv().unwrap_or_default());
        }
    }
}

fn loaded(gpu: &Gpu, topic: Topic) -> Option<Vec<KernelModule>> {
    let only = topic.compiled().target.trim_start_matches("sm_").strip_suffix('a');
    if only.is_some_and(|only| only != gpu.facts().sm.to_string()) {
        return None;
    }
    let loaded = load(gpu, &[topic]);
    if let Err(error) = &loaded {
        log::debug!("kernels about {topic:?}: {error:#}");
    }
    loaded.ok().map(|(modules, _)| modules)
}

fn cubin(gpu: &Gpu, sm: u32, topic: Topic) -> Result<KernelModule> {
    let name = topic.compiled().name;
    let found = CUBINS.iter().find(|(of, about, _)| *of == sm && *about == name);
    let (.., bytes) = found.with_context(|| format!("there is none of {name} for sm {sm}"))?;
    let module = Module::load(gpu, &format!("the cubin of {name}"), Image::Cubin(bytes), |_| {
        String::new() // of PTX, which a cubin is not
    })?;
    Ok(KernelModule { topic, module, waits: sm >= dependent::SM })
}

/// The first CUDA whose driver takes PTX of this version: versions 7.x came with CUDA 11.x, 8.x
/// with 12.x.
fn cuda_of(isa: &str) -> String {
    match isa.split_once('.') {
        Some(("7", minor)) => format!("11.{minor}"),
        Some(("8", minor)) => format!("12.{minor}"),
        _ => "?".to_owned(),
    }
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

    impl Topic {
        /// The text that the program has, and its target.
        pub(crate) fn ptx(self) -> (String, &'static str) {
            (Image::inflated(self.deflated()).unwrap(), self.compiled().target)
        }
    }

    /// The list, and what it says of a module.
    fn listed(topic: Topic) -> (toml::Table, toml::Value) {
        let list = std::fs::read_to_string("../../cuda/kernels.toml").unwrap();
        let list: toml::Table = list.parse().unwrap();
        let module = list["module"][topic.compiled().name].clone();
        (list, module)
    }

    fn words(list: &toml::Value) -> Vec<&str> {
        list.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
    }

    #[test]
    fn the_ptx_belongs_to_its_source() {
        for topic in Topic::ALL {
            let ((ptx, _), (_, module)) = (topic.ptx(), listed(topic));
            let (name, source) = (topic.compiled().name, module["source"].as_str().unwrap());
            let file = std::fs::read_to_string(format!("../../cuda/{name}.ptx")).unwrap();
            assert!(file == ptx, "{name}.ptx is not the text in the program");
            let headers = words(&module["headers"]);
            let files = headers.iter().chain([&source]).map(|file| format!("../../cuda/{file}"));
            let files: Vec<String> = files.collect();
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
    fn the_ptx_was_made_as_the_list_says_and_has_kernels_of_its_own() {
        let mut kernels = Vec::new();
        for topic in Topic::ALL {
            let (list, module) = listed(topic);
            let generation = &list["generation"][module["generation"].as_str().unwrap()];
            let mut made = format!("// NVRTC {}", generation["nvrtc"].as_str().unwrap());
            words(&generation["options"]).iter().for_each(|option| made += &format!(" {option}"));
            let defines = module.get("defines").map(words).unwrap_or_default();
            defines.iter().for_each(|define| made += &format!(" -D{define}"));
            let Compiled { name, kernels: own, .. } = topic.compiled();
            let (ptx, _) = topic.ptx();
            assert_eq!(ptx.lines().nth(2), Some(made.as_str()), "{name}: run scripts/kernels.py");
            assert_eq!(ptx.matches(".entry").count(), own.len(), "{name}");
            assert!(!own.is_empty(), "{name}");
            kernels.extend(own.iter().map(|entry| entry.name));
        }
        let count = kernels.len();
        kernels.sort_unstable();
        kernels.dedup();
        assert_eq!(kernels.len(), count, "a kernel is in two modules");
        assert_eq!(
            Topic::with("gemm_residual_layernorm_448_by_6"),
            Some(Topic::GemmLayernormHopper448)
        );
        assert_eq!(Topic::with("gemm_residual_layernorm_449"), None);
    }

    #[test]
    fn the_ptx_is_for_the_oldest_gpu_and_driver_that_are_served() {
        for topic in Topic::ALL {
            let Compiled { name, isa, target, .. } = topic.compiled();
            let least = if name.contains("_hopper") {
                ("8.2", "sm_90a")
            } else if USUAL.contains(&topic) {
                ("7.8", "sm_75")
            } else {
                ("7.8", "sm_80")
            };
            assert_eq!((*isa, *target), least, "{name}");
        }
        assert_eq!((cuda_of("7.8"), cuda_of("8.2")), ("11.8".to_owned(), "12.2".to_owned()));
    }
}
