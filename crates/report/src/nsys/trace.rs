/*!
A recording, independent of nsys's release: ranges, calls of the CUDA API, GPU operations. Times are
nanoseconds since the session began, as in nsys's tools.
*/

use std::collections::{BTreeMap, HashMap};

/// A global thread id has the process above its lowest 24 bits.
const THREAD_BITS: u32 = 24;

/// The process part of a global thread or process id.
pub fn process(id: i64) -> i64 {
    id >> THREAD_BITS
}

/// Index of a name in [`Names`].
pub type Name = u32;

/// Names, each stored once.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<String>,
    places: HashMap<String, Name>,
}

impl Names {
    /// The index of a text.
    pub fn place(&mut self, text: &str) -> Name {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = Name::try_from(self.texts.len()).unwrap_or(Name::MAX);
        self.texts.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }

    /// The text of an index.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name as usize).map_or("?", String::as_str)
    }
}

/// OpKind of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RangeKind {
    /// Pushed and popped on one thread.
    PushPop,
    /// Started and ended, perhaps on another thread.
    StartEnd,
}

impl RangeKind {
    /// The word of nsys's tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::PushPop => "PushPop",
            Self::StartEnd => "StartEnd",
        }
    }
}

/// A time interval that the program named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// `domain:name`; `:name` in the default domain.
    pub name: Name,
    /// Its kind.
    pub style: RangeKind,
    /// Start, ns.
    pub start: i64,
    /// End, ns.
    pub end: i64,
    /// The thread on which it began.
    pub thread: i64,
    /// It ended on the same thread.
    pub same_thread: bool,
}

/// A call of the CUDA API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function, without its version.
    pub name: Name,
    /// Start, ns.
    pub start: i64,
    /// End, ns.
    pub end: i64,
    /// The calling thread.
    pub thread: i64,
    /// The GPU operations that it launched.
    pub correlation: Correlation,
}

/// Connects a call with its GPU operations: the process and nsys's number.
pub type Correlation = (i64, i64);

/// OpKind of a GPU operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// A kernel.
    Kernel,
    /// A CUDA graph that was traced as a whole.
    Graph,
    /// A copy.
    Copy,
    /// A memory fill.
    Set,
}

impl OpKind {
    /// Whether it copies or fills memory.
    pub fn is_memory(self) -> bool {
        matches!(self, Self::Copy | Self::Set)
    }
}

/// A kind of memory, nsys's `ENUM_CUDA_MEM_KIND`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryKind(pub i64);

impl MemoryKind {
    /// Host memory that the system may move: the driver must copy it to pinned memory first.
    pub const PAGEABLE: Self = Self(0);
    /// Host memory that stays in its place.
    pub const PINNED: Self = Self(1);
    /// Memory that moves between host and device by itself.
    pub const MANAGED: Self = Self(4);

    /// The word of nsys's tables.
    pub fn word(self) -> &'static str {
        const WORDS: [&str; 7] =
            ["Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"];
        let word = usize::try_from(self.0).ok().and_then(|at| WORDS.get(at));
        word.copied().unwrap_or("Unknown")
    }
}

/// One GPU operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuOp {
    /// Its kind.
    pub kind: OpKind,
    /// The kernel, or the direction of the copy.
    pub name: Name,
    /// Start, ns.
    pub start: i64,
    /// End, ns.
    pub end: i64,
    /// The GPU.
    pub device: i64,
    /// The stream.
    pub stream: i64,
    /// Kinds of the memory that it reads and writes.
    pub memory: [Option<MemoryKind>; 2],
    /// Its call; none if the export has no correlation.
    pub correlation: Option<Correlation>,
    /// Bytes copied or filled; 0 for kernels and graphs.
    pub bytes: i64,
}

/// A reading of a GPU's counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time, ns.
    pub time: i64,
    /// The GPU in nsys's numbering, which may differ from CUDA's.
    pub device: i64,
    /// nsys's name for that GPU's counters.
    pub gpu: Name,
    /// The counter, with its unit.
    pub counter: Name,
    /// The reading.
    pub value: i64,
}

/// The machine of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Name of its processor.
    pub processor: String,
    /// Its name in the network.
    pub host: String,
}

/// One recording.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// All names.
    pub names: Names,
    /// Ranges with an end.
    pub ranges: Vec<Range>,
    /// Names of ranges without an end.
    pub unended: Vec<Name>,
    /// Calls of the CUDA API; none if it was not traced.
    pub calls: Option<Vec<Call>>,
    /// GPU operations; none if the export has no table of them.
    pub ops: Option<Vec<GpuOp>>,
    /// Readings of GPUs' counters; none if they were not sampled.
    pub samples: Option<Vec<Sample>>,
    /// Intervals in which the profiler delayed the program.
    pub overheads: Vec<(i64, i64)>,
    /// The recorded machine.
    pub machine: Machine,
    /// Names of the GPUs.
    pub gpus: BTreeMap<i64, String>,
    /// The exporter and its schema.
    pub exporter: String,
    /// CUDA tracing was requested, if the report has that setting.
    pub cuda_was_traced: Option<bool>,
    /// The program's standard error.
    pub stderr: String,
}

impl Trace {
    /// The text of a name.
    pub fn text(&self, name: Name) -> &str {
        self.names.text(name)
    }

    /// Operations; empty if there are none.
    pub fn ops(&self) -> &[GpuOp] {
        self.ops.as_deref().unwrap_or_default()
    }

    /// Readings; empty if there are none.
    pub fn samples(&self) -> &[Sample] {
        self.samples.as_deref().unwrap_or_default()
    }

    /// Calls; empty if there are none.
    pub fn calls(&self) -> &[Call] {
        self.calls.as_deref().unwrap_or_default()
    }
}
