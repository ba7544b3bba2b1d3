/*!
What was recorded, free of how a release of nsys stores it: ranges, calls of the CUDA API, work of
the GPU. Times are nanoseconds since the session began, as nsys's own tools show them.
*/

use std::collections::{BTreeMap, HashMap};

/// A global thread id holds the process above its lowest 24 bits.
const THREAD_BITS: u32 = 24;

/// The process part of a global thread or process id.
pub fn process(id: i64) -> i64 {
    id >> THREAD_BITS
}

/// A name, as its place among [`Names`].
pub type Name = u32;

/// Names, each kept once.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<String>,
    places: HashMap<String, Name>,
}

impl Names {
    /// The place of a text.
    pub fn place(&mut self, text: &str) -> Name {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = Name::try_from(self.texts.len()).unwrap_or(Name::MAX);
        self.texts.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }

    /// The text at a place.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name as usize).map_or("?", String::as_str)
    }
}

/// How a range was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Style {
    /// Pushed and popped on one thread.
    PushPop,
    /// Started and ended, perhaps on another thread.
    StartEnd,
}

impl Style {
    /// The word of nsys's tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::PushPop => "PushPop",
            Self::StartEnd => "StartEnd",
        }
    }
}

/// A stretch of time that the program named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// `domain:name`; of the default domain `:name`.
    pub name: Name,
    /// How it was made.
    pub style: Style,
    /// Where it begins, ns.
    pub start: i64,
    /// Where it ends, ns.
    pub end: i64,
    /// The thread on which it began.
    pub thread: i64,
    /// It ended on that thread too.
    pub same_thread: bool,
}

/// A call of the CUDA API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function, without its version.
    pub name: Name,
    /// Where it begins, ns.
    pub start: i64,
    /// Where it returns, ns.
    pub end: i64,
    /// The thread that called.
    pub thread: i64,
    /// What it set off.
    pub correlation: Correlation,
}

/// Ties a call to the work that it set off: the process and nsys's number.
pub type Correlation = (i64, i64);

/// What the GPU did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A kernel.
    Kernel,
    /// A CUDA graph that was traced as a whole.
    Graph,
    /// A copy.
    Copy,
    /// Memory that was set.
    Set,
}

impl Kind {
    /// It moves or sets memory.
    pub fn is_memory(self) -> bool {
        matches!(self, Self::Copy | Self::Set)
    }
}

/// One piece of work on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// What it is.
    pub kind: Kind,
    /// The kernel, or the kind of copy.
    pub name: Name,
    /// Where it begins, ns.
    pub start: i64,
    /// Where it ends, ns.
    pub end: i64,
    /// The GPU.
    pub device: i64,
    /// What set it off; none where the export does not say.
    pub correlation: Option<Correlation>,
    /// Bytes moved or set; 0 for kernels and graphs.
    pub bytes: i64,
}

/// A reading of one of a GPU's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When, ns.
    pub time: i64,
    /// The GPU, by nsys's own number, which need not be CUDA's.
    pub device: i64,
    /// What nsys calls that GPU's counters.
    pub gpu: Name,
    /// The counter, with its unit.
    pub counter: Name,
    /// The reading.
    pub value: i64,
}

/// One report.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// All names.
    pub names: Names,
    /// Ranges that began and ended.
    pub ranges: Vec<Range>,
    /// Names of ranges that began and never ended.
    pub unended: Vec<Name>,
    /// Calls of the CUDA API; none where it was not traced.
    pub calls: Option<Vec<Call>>,
    /// Work of GPUs; none where the export has no table of any.
    pub ops: Option<Vec<Op>>,
    /// Readings of GPUs' counters; none where they were not sampled.
    pub samples: Option<Vec<Sample>>,
    /// Times in which the profiler itself held the program up.
    pub overheads: Vec<(i64, i64)>,
    /// Names of the GPUs.
    pub gpus: BTreeMap<i64, String>,
    /// What made the export, with its schema.
    pub exporter: String,
    /// CUDA was asked to be traced, where the report says.
    pub cuda_was_traced: Option<bool>,
    /// What the program wrote to standard error.
    pub stderr: String,
}

impl Trace {
    /// The text of a name.
    pub fn text(&self, name: Name) -> &str {
        self.names.text(name)
    }

    /// Ops; none where there are none.
    pub fn ops(&self) -> &[Op] {
        self.ops.as_deref().unwrap_or_default()
    }

    /// Readings; none where there are none.
    pub fn samples(&self) -> &[Sample] {
        self.samples.as_deref().unwrap_or_default()
    }

    /// Calls; none where there are none.
    pub fn calls(&self) -> &[Call] {
        self.calls.as_deref().unwrap_or_default()
    }
}
