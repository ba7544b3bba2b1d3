/*!
A fused part is a subgraph that custom CUDA kernels replace in TensorRT. Its weights are a file next
to the manifest, and next to the plans of an engine folder.

Each part has one type for its TOML table, which implements [`FusedPart`]. [`PARTS`] lists them.
Reading, checking, copying, packing and hashing work on any part.
*/

use std::marker::PhantomData;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::Bundle;
use super::manifest::Manifest;
use super::mask_decoder::MaskDecoderPart;
use super::memory_attention::MemoryAttentionPart;
use super::memory_encoder::MemoryEncoderPart;
use super::role::Role;
use super::tensors::{Contents, Tensor, check_size, read_file};
use super::trunk::Trunk;

/// A part of the network, described by its table in the manifest.
pub trait FusedPart: Sized + 'static {
    /// Dimensions that fix the kernel launches and the tensor shapes.
    type Shape: ?Sized;

    /// The name in messages, after "the": "mask decoder".
    const NAME: &'static str;
    /// The key of its table in the manifest.
    const TABLE: &'static str;
    /// The name of its weights among a bundle's graphs.
    const GRAPH: &'static str;
    /// The file of its weights, as the exporter writes it.
    const FILE: &'static str;
    /// The word of the `backend` column for a run in which kernels compute the part.
    const LABEL: &'static str;
    /// The graph that is built only where kernels compute the part: the rest of a larger graph.
    const REST: Option<Role> = None;

    /// The engine that the kernels replace; none where it is not a single one.
    fn engine(_: &Manifest) -> Option<ReplacedEngine> {
        None
    }

    /// Its table; none where TensorRT alone computes the part.
    fn of(manifest: &Manifest) -> Option<&Self>;

    /// The table's shape.
    fn shape(&self) -> &Self::Shape;

    /// The record of its file.
    fn record(&self) -> WeightsRecord<'_>;

    /// All tensors of the file.
    fn tensors(shape: &Self::Shape) -> Vec<Tensor>;

    /// Checks that kernels serve the shape, and that the part fits the manifest's graphs.
    ///
    /// # Errors
    /// What does not fit.
    fn check_against(&self, manifest: &Manifest) -> Result<()>;

    /// Whether kernels, not a TensorRT plan, compute this part in this engine folder.
    fn replaces_plan(manifest: &Manifest, plans: &Plans<'_>) -> bool;
}

/// An engine whose work kernels can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplacedEngine {
    /// Its graph.
    pub role: Role,
    /// It in messages: "the engine of the memory encoder".
    pub what: &'static str,
    /// A graph of the default ones, whose plan has the release and the GPU of the folder.
    pub beside: Role,
}

/// The plans of an engine folder.
pub struct Plans<'a> {
    /// Whether there is a plan of this role.
    pub has: &'a dyn Fn(Role) -> bool,
    /// Whether the engines compute in fp16, as the kernels do that replace whole engines.
    pub halves: bool,
    /// Whether kernels were chosen for what lies between the track step's attentions.
    pub memory_attention: bool,
}

/// A file of weights, as the manifest records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightsRecord<'m> {
    /// The name among the graphs, [`FusedPart::GRAPH`].
    pub graph: &'static str,
    /// The part's name, after "the": "encoder's trunk".
    pub what: &'static str,
    /// The file's name beside the manifest.
    pub file: &'m str,
    /// SHA-256 of it.
    pub sha256: &'m str,
    /// Its size, where the manifest has it.
    pub bytes: Option<u64>,
    /// 2 × multiply-accumulates of the part for one object of one frame, or for one image.
    pub flops: u64,
}

/// An opened file of weights: all tensors of its part, in their shapes and types, and no others.
/// Kernels do not check sizes; this type guarantees them.
#[derive(Clone, Debug)]
pub struct WeightsFile<P> {
    contents: Contents,
    part: PhantomData<fn() -> P>,
}

impl<P: FusedPart> WeightsFile<P> {
    /// Reads the whole file, which must be the manifest's (size and SHA-256).
    ///
    /// # Errors
    /// A file that cannot be read, is damaged or of another bundle; a tensor that is missing, too
    /// many, or of another type or shape.
    pub fn open(path: &Path, part: &P) -> Result<Self> {
        let WeightsRecord { sha256, bytes: size, .. } = part.record();
        let bytes = read_file(path, sha256, &format!("the weights of the {}", P::NAME))?;
        if let Some(size) = size {
            check_size(path, &bytes, size)?;
        }
        Self::read(bytes, part.shape()).with_context(|| format!("in {}", path.display()))
    }

    /// Of a whole file's bytes.
    ///
    /// # Errors
    /// As those of [`Self::open`], without the manifest's.
    pub fn read(bytes: Vec<u8>, shape: &P::Shape) -> Result<Self> {
        let contents = Contents::read(bytes, &P::tensors(shape), P::NAME)?;
        Ok(Self { contents, part: PhantomData })
    }

    /// The whole file.
    pub fn file(&self) -> &[u8] {
        self.contents.file()
    }

    /// A tensor's bytes, little-endian, row by row.
    ///
    /// # Errors
    /// There is no such tensor.
    pub fn get(&self, name: &str) -> Result<&[u8]> {
        self.contents.get(name)
    }

    /// Whether the file has this tensor.
    pub(super) fn has(&self, name: &str) -> bool {
        self.contents.get(name).is_ok()
    }
}

/// A [`FusedPart`] without its type, for lists of all parts.
#[derive(Clone, Copy)]
pub struct PartKind {
    /// [`FusedPart::NAME`].
    pub name: &'static str,
    /// [`FusedPart::TABLE`].
    pub table: &'static str,
    /// [`FusedPart::GRAPH`].
    pub graph: &'static str,
    /// [`FusedPart::FILE`].
    pub file: &'static str,
    /// [`FusedPart::REST`].
    pub rest: Option<Role>,
    /// [`FusedPart::engine`].
    pub engine: fn(&Manifest) -> Option<ReplacedEngine>,
    /// The record in a manifest that has the part.
    pub record: fn(&Manifest) -> Option<WeightsRecord<'_>>,
    replaces_plan: fn(&Manifest, &Plans<'_>) -> bool,
    check: fn(&Manifest) -> Result<()>,
    same: fn(&Manifest, &Manifest) -> bool,
    bytes: fn(&Bundle) -> Result<Option<Vec<u8>>>,
}

/// All of them, in the order of their work.
pub const PARTS: [PartKind; 4] = [
    PartKind::of::<Trunk>(),
    PartKind::of::<MemoryAttentionPart>(),
    PartKind::of::<MaskDecoderPart>(),
    PartKind::of::<MemoryEncoderPart>(),
];

impl PartKind {
    const fn of<P: FusedPart + PartialEq>() -> Self {
        Self {
            name: P::NAME,
            table: P::TABLE,
            graph: P::GRAPH,
            file: P::FILE,
            rest: P::REST,
            engine: P::engine,
            record: |manifest| P::of(manifest).map(P::record),
            replaces_plan: P::replaces_plan,
            check: |manifest| P::of(manifest).map_or(Ok(()), |part| part.check_against(manifest)),
            same: |one, other| P::of(one) == P::of(other),
            bytes: |bundle| Ok(bundle.weights_of::<P>()?.map(|weights| weights.file().to_vec())),
        }
    }

    /// Checks the part against the rest of its manifest, where the manifest has it.
    ///
    /// # Errors
    /// As those of [`FusedPart::check_against`].
    pub(super) fn check(&self, manifest: &Manifest) -> Result<()> {
        (self.check)(manifest).with_context(|| {
            format!("the table [{}] is unusable; export the model again", self.table)
        })
    }

    /// Whether two manifests have the same part.
    pub fn is_same(&self, one: &Manifest, other: &Manifest) -> bool {
        (self.same)(one, other)
    }
}

/// Checks that a manifest's `file` is a plain name; otherwise an untrusted bundle could read any
/// file (path traversal).
///
/// # Errors
/// A path, or no name at all.
pub fn check_weights_file(file: &str) -> Result<()> {
    if matches!(file, "" | "." | "..") || file.contains(['/', '\0']) {
        bail!("it names {file:?}; expected the name of a file beside it, without a path");
    }
    Ok(())
}

impl Manifest {
    /// Checks that the files that it names, and the parts of the bundle's name, are plain names.
    ///
    /// # Errors
    /// As those of [`check_weights_file`].
    pub fn check_names(&self) -> Result<()> {
        let graphs = self.graphs.iter().map(|graph| graph.file.as_str());
        graphs
            .chain(self.weights_files().map(|weights| weights.file))
            .try_for_each(check_weights_file)?;
        [&self.model.name, &self.model.precision]
            .into_iter()
            .try_for_each(|name| check_weights_file(name))
    }

    /// Files of the parts that the kernels compute among these plans.
    pub fn weights_files_with<'m>(
        &'m self,
        plans: &Plans<'_>,
    ) -> impl Iterator<Item = (PartKind, WeightsRecord<'m>)> + use<'m> {
        let with = PARTS.into_iter().filter(|part| (part.replaces_plan)(self, plans));
        let with: Vec<PartKind> = with.collect();
        with.into_iter().filter_map(|part| Some((part, (part.record)(self)?)))
    }

    /// All of a bundle's files of weights.
    pub fn weights_files(&self) -> impl Iterator<Item = WeightsRecord<'_>> {
        PARTS.into_iter().filter_map(|part| (part.record)(self))
    }
}

impl Bundle {
    /// A part's weights, read and checked against the manifest; none where the bundle lacks the
    /// part.
    ///
    /// # Errors
    /// As those of [`WeightsFile::open`].
    pub fn weights_of<P: FusedPart>(&self) -> Result<Option<WeightsFile<P>>> {
        let Some(part) = P::of(&self.manifest) else { return Ok(None) };
        let path = self.dir.join(part.record().file);
        WeightsFile::open(&path, part).map(Some).with_context(|| {
            let problem = match path.exists() {
                true => "do not match manifest.toml (SHA-256 or tensors)",
                false => "are missing",
            };
            format!(
                "the weights of the {} {problem}; export the model again or restore the file",
                P::NAME
            )
        })
    }

    /// The whole file of weights with this name among the graphs, checked against the manifest.
    ///
    /// # Errors
    /// The bundle has none, or it is missing, damaged or not the manifest's.
    pub fn weights(&self, graph: &str) -> Result<Vec<u8>> {
        let part = PARTS.into_iter().find(|part| part.graph == graph);
        let bytes = part.map_or(Ok(None), |part| (part.bytes)(self))?;
        bytes.with_context(|| format!("the bundle {} has no {graph}", self.name()))
    }

    /// Checks that all files of weights are there, and the manifest's.
    ///
    /// # Errors
    /// As those of [`Self::weights`].
    pub fn verify_weights(&self) -> Result<()> {
        self.manifest.weights_files().try_for_each(|file| self.weights(file.graph).map(drop))
    }
}
