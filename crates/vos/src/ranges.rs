/*!
Named stretches of time for a profiler: an outer range a frame and one range a stage, in the domain `segtrt`.

```text
pipeline ──────────────────────────────────────────────────────────┐
  decode  upload  preprocess  encoder  prompt|track  postprocess  memory  download
```

The frames of a warm-up pass lie in a range `warmup` of their own, so that whoever reads a report can leave them out.

Under `nsys profile -t nvtx` they stand beside the kernels that they enclose. Without a tool a range costs a
load and a branch (`cargo bench --bench ranges`), so they are always compiled in. A range belongs to the
thread that entered it and ends, innermost first, where its guard is dropped; a decoder's thread has its
`decode` ranges without a `pipeline` around them.
*/

use std::ffi::CStr;
use std::sync::OnceLock;

use dynlib::nvtx::{Domain, Name, Pushed};

/// The stretches that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// One frame from its file, or from its decoded pixels, to its mask and memory.
    Pipeline,
    /// JPEG to pixels.
    Decode,
    /// Pixels to the device.
    Upload,
    /// Resize and normalise.
    Preprocess,
    /// Image encoder.
    Encoder,
    /// Prompt encoder and mask decoder.
    Prompt,
    /// Memory attention and mask decoder.
    Track,
    /// Memory encoder.
    Memory,
    /// Logits to a mask.
    Postprocess,
    /// Results to the host.
    Download,
    /// A pass that is not recorded.
    Warmup,
}

impl Range {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 11] = [
        Self::Pipeline,
        Self::Decode,
        Self::Upload,
        Self::Preprocess,
        Self::Encoder,
        Self::Prompt,
        Self::Track,
        Self::Memory,
        Self::Postprocess,
        Self::Download,
        Self::Warmup,
    ];

    /// The name that a profiler shows.
    pub const fn name(self) -> &'static CStr {
        match self {
            Self::Pipeline => c"pipeline",
            Self::Decode => c"decode",
            Self::Upload => c"upload",
            Self::Preprocess => c"preprocess",
            Self::Encoder => c"encoder",
            Self::Prompt => c"prompt",
            Self::Track => c"track",
            Self::Memory => c"memory",
            Self::Postprocess => c"postprocess",
            Self::Download => c"download",
            Self::Warmup => c"warmup",
        }
    }
}

/// Ends its range when it is dropped.
#[derive(Debug)]
pub struct Guard {
    _pushed: Option<Pushed<'static>>,
}

/// Begins a range on the calling thread. With several guards in one scope, the one made last ends first, as
/// Rust drops them.
#[must_use = "the range ends where the guard is dropped"]
pub fn enter(range: Range) -> Guard {
    Guard {
        _pushed: listener().map(|listener| listener.domain.push(listener.names[range as usize])),
    }
}

/// Runs `work` inside a range.
pub fn within<T>(range: Range, work: impl FnOnce() -> T) -> T {
    let _guard = enter(range);
    work()
}

/// A tool with our domain and our names, registered once.
struct Listener {
    domain: Domain,
    names: [Name; Range::ALL.len()],
}

fn listener() -> Option<&'static Listener> {
    static LISTENER: OnceLock<Option<Listener>> = OnceLock::new();
    let open = || {
        let domain = Domain::open(c"segtrt")?;
        let names = Range::ALL.map(|range| domain.register(range.name()));
        Some(Listener { domain, names })
    };
    LISTENER.get_or_init(open).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_registered_where_ranges_look_for_them() {
        for (place, range) in Range::ALL.into_iter().enumerate() {
            assert_eq!(range as usize, place, "{range:?}");
        }
    }

    #[test]
    fn work_inside_a_range_gives_its_result_without_a_tool() {
        let _outer = enter(Range::Pipeline);
        assert_eq!(within(Range::Track, || 7), 7);
    }
}
