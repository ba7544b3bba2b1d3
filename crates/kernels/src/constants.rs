/*!
Constants of the CUDA sources, as the compiler evaluated them: tile sizes, shared memory, threads of
a block. `scripts/kernels.py` writes them into the PTX, and `build.rs` reads them there. So each
stands once, in its source, and a name that no source has does not compile.
*/

use crate::images::Topic;

/// A constant of a module: `constant!(Preprocess, "TILE_X")`, a `u32`.
macro_rules! constant {
    ($topic:ident, $name:expr) => {
        const {
            $crate::constants::known($crate::constants::find(
                $crate::images::Topic::$topic,
                $name,
            ))
        }
    };
}
pub(crate) use constant;

/// A constant of a kernel's instance: `instance!("attention_cross", "shared")`, a `u32`. The source
/// has it as `attention_cross_shared`.
macro_rules! instance {
    ($kernel:literal, $name:literal) => {
        const {
            $crate::constants::known($crate::constants::find_anywhere(concat!(
                $kernel, "_", $name
            )))
        }
    };
}
pub(crate) use instance;

/// Threads of a kernel's blocks: `threads!("mask_words")`, a `u32`.
macro_rules! threads {
    ($kernel:expr) => {
        const { $crate::constants::known($crate::constants::threads_of($kernel)) }
    };
}
pub(crate) use threads;

/// Ends compilation where there is none.
pub(crate) const fn known(constant: Option<u32>) -> u32 {
    assert!(constant.is_some(), "no source in cuda/ has this constant, or no kernel this name");
    match constant {
        Some(value) => value,
        None => 0,
    }
}

pub(crate) const fn find(topic: Topic, name: &str) -> Option<u32> {
    let (all, mut at) = (topic.constants(), 0);
    while at < all.len() {
        if same(all[at].0, name) {
            return Some(all[at].1);
        }
        at += 1;
    }
    None
}

pub(crate) const fn find_anywhere(name: &str) -> Option<u32> {
    let mut module = 0;
    while module < Topic::ALL.len() {
        if let Some(value) = find(Topic::ALL[module], name) {
            return Some(value);
        }
        module += 1;
    }
    None
}

pub(crate) const fn threads_of(kernel: &str) -> Option<u32> {
    let mut module = 0;
    while module < Topic::ALL.len() {
        let (entries, mut at) = (Topic::ALL[module].entries(), 0);
        while at < entries.len() {
            if same(entries[at].name, kernel) {
                return entries[at].threads;
            }
            at += 1;
        }
        module += 1;
    }
    None
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_found_by_their_whole_name() {
        assert_eq!(find(Topic::Preprocess, "TILE_X"), Some(64));
        assert_eq!(find(Topic::Preprocess, "TILE_"), None);
        assert_eq!(find(Topic::Mask, "TILE_X"), None);
        assert_eq!(find(Topic::MemoryEncoderMask, "Widen::THREADS"), Some(128));
        assert_eq!(find_anywhere("attention_self_keys"), Some(64));
        assert_eq!(find_anywhere("attention_other_keys"), None);
        assert_eq!(threads_of("attention_self"), Some(256));
        assert_eq!(threads_of("attention_nobody"), None);
    }

    /// A module has no two constants of one name: the second would never be found.
    #[test]
    fn names_are_unique() {
        for topic in Topic::ALL {
            let mut names: Vec<&str> = topic.constants().iter().map(|(name, _)| *name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{topic:?}");
        }
    }
}
