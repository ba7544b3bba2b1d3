/*!
Named ranges for a profiler: an outer range a frame and one range a stage, in the domain `segtrt`.

```text
pipeline ──────────────────────────────────────────────────────────┐
  decode  upload  preprocess  encoder  prompt|track  postprocess  memory  download  encode
```

The frames of a warm-up pass lie in a range `warmup`, so that a reader of the report can leave them out.

`nsys profile -t nvtx` shows them above the kernels that they enclose. Without a profiler a range
costs a load and a branch (`cargo bench --bench ranges`), so they are always compiled in. A range
belongs to the thread that entered it and ends, innermost first, where its guard is dropped. The
`decode` ranges of a decoding thread and the `encode` ranges have no `pipeline` around them.
*/

use std::ffi::CStr;
use std::sync::OnceLock;

use dynlib::nvtx::{Domain, Name, Pushed};

use crate::stage::Stage;

/// The ranges that a profiler shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// One frame from its file, or from its decoded pixels, to its mask and memory.
    Pipeline,
    /// A pass that is not recorded.
    Warmup,
    /// A stage of a frame.
    Stage(Stage),
}

/// Ranges that are no stage.
const OTHERS: usize = 2;

impl Range {
    /// Name in a profiler.
    const fn name(self) -> &'static CStr {
        match self {
            Self::Pipeline => c"pipeline",
            Self::Warmup => c"warmup",
            Self::Stage(stage) => stage.range(),
        }
    }

    /// Its place among the registered names.
    const fn place(self) -> usize {
        match self {
            Self::Pipeline => 0,
            Self::Warmup => 1,
            Self::Stage(stage) => OTHERS + stage as usize,
        }
    }

    const fn at(place: usize) -> Self {
        match place {
            0 => Self::Pipeline,
            1 => Self::Warmup,
            _ => Self::Stage(Stage::ALL[place - OTHERS]),
        }
    }
}

impl From<Stage> for Range {
    fn from(stage: Stage) -> Self {
        Self::Stage(stage)
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
pub fn enter(range: impl Into<Range>) -> Guard {
    let place = range.into().place();
    Guard { _pushed: listener().map(|listener| listener.domain.push(listener.names[place])) }
}

/// Runs `work` inside a range.
pub fn within<T>(range: impl Into<Range>, work: impl FnOnce() -> T) -> T {
    let _guard = enter(range);
    work()
}

/// A tool with our domain and our names, registered once.
struct Listener {
    domain: Domain,
    names: [Name; OTHERS + Stage::COUNT],
}

fn listener() -> Option<&'static Listener> {
    static LISTENER: OnceLock<Option<Listener>> = OnceLock::new();
    let open = || {
        let domain = Domain::open(c"segtrt")?;
        let names = std::array::from_fn(|place| domain.register(Range::at(place).name()));
        Some(Listener { domain, names })
    };
    LISTENER.get_or_init(open).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_registered_where_ranges_look_for_them() {
        for place in 0..OTHERS + Stage::COUNT {
            assert_eq!(Range::at(place).place(), place);
        }
    }

    #[test]
    fn work_inside_a_range_gives_its_result_without_a_tool() {
        let _outer = enter(Range::Pipeline);
        assert_eq!(within(Stage::Track, || 7), 7);
    }
}
