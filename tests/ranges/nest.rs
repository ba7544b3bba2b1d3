//! Ranges put back together from what a tool heard, and what a bench's ranges must look like.

use std::collections::HashMap;

/// A finished range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranged {
    /// Its name.
    pub name: String,
    /// The ranges directly inside it, in order.
    pub inside: Vec<Ranged>,
}

/// Pushes and pops, thread by thread.
#[derive(Debug, Default)]
pub struct Ranges {
    open: HashMap<String, Vec<Ranged>>,
    done: Vec<Ranged>,
}

impl Ranges {
    /// A range begins.
    pub fn push(&mut self, thread: &str, name: &str) {
        let range = Ranged { name: name.to_owned(), inside: Vec::new() };
        self.open.entry(thread.to_owned()).or_default().push(range);
    }

    /// The innermost range ends.
    pub fn pop(&mut self, thread: &str) {
        let open = self.open.get_mut(thread).expect("a pop on a thread without ranges");
        let range = open.pop().expect("a pop without a push");
        match open.last_mut() {
            Some(outer) => outer.inside.push(range),
            None => self.done.push(range),
        }
    }

    /// The outermost ranges, once all have ended.
    pub fn finish(self) -> Vec<Ranged> {
        assert!(self.open.values().all(Vec::is_empty), "never ended: {:?}", self.open);
        self.done
    }
}

/// Asserts that there is one `pipeline` for each of `frames` frames with every stage once inside
/// it, in order, the prompt on `prompted` of them and the track step on the others; those of
/// `warmups` passes lie in a `warmup`.
pub fn assert_frames(outermost: &[Ranged], warmups: usize, frames: usize, prompted: usize) {
    let is_warmup = |range: &&Ranged| range.name == "warmup";
    assert_eq!(outermost.iter().filter(is_warmup).count(), warmups, "warm-up passes");
    let of = |range: &Ranged| match range.name.as_str() {
        "warmup" => range.inside.clone(),
        _ => vec![range.clone()],
    };
    let outermost: Vec<Ranged> = outermost.iter().flat_map(of).collect();
    assert_eq!(outermost.len(), frames, "outer ranges");
    let mut prompts = 0;
    for (at, frame) in outermost.iter().enumerate() {
        assert_eq!(frame.name, "pipeline", "outer range {at}");
        let stages: Vec<&str> = frame.inside.iter().map(|range| range.name.as_str()).collect();
        let with =
            |step| ["decode", "preprocess", "encoder", step, "postprocess", "memory"].to_vec();
        prompts += usize::from(stages == with("prompt"));
        assert!(stages == with("prompt") || stages == with("track"), "frame {at}: {stages:?}");
        assert!(frame.inside.iter().all(|stage| stage.inside.is_empty()), "frame {at}");
    }
    assert_eq!(prompts, prompted, "prompted frames");
}
