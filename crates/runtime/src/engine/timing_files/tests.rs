//! Builds with made-up caches: a letter for each graph that was timed.

use anyhow::bail;

use super::*;

const EIGHT: Stack<'_> =
    Stack { tensorrt: "TensorRT 8.6.0", device: "H200", driver: "driver 580 with CUDA 13.0" };

fn files(dir: &Path, graph: &str) -> TimingFiles {
    TimingFiles::new(&dir.join("8.timing"), "edgetam_1024_fp16", graph)
}

/// What a build of `graph` starts from.
fn start(files: &TimingFiles) -> Start {
    files.start(EIGHT, |_| Ok(()))
}

/// 8.6.0.
fn never(_: &[u8]) -> Result<Vec<u8>> {
    bail!("could not merge the timing cache")
}

#[test]
fn each_graph_has_a_file_of_its_own_beside_the_shared_one() {
    let files = TimingFiles::new(Path::new("engines/8.6.timing"), "edgetam_1024_fp16", "memory");
    let own = "engines/8.6.timing.d/edgetam_1024_fp16_memory.timing";
    assert_eq!(files.own, Path::new(own));
}

#[test]
fn builds_that_end_together_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let build = |letter: u8| {
        let kept = files(dir.path(), "memory").keep(EIGHT, None, &[letter], |there| {
            // Long enough for the others to come meanwhile.
            std::thread::sleep(std::time::Duration::from_millis(5));
            Ok([there, &[letter]].concat())
        });
        assert_eq!(kept.unwrap(), None);
    };
    std::thread::scope(|scope| {
        for letter in b'a'..=b'j' {
            scope.spawn(move || build(letter));
        }
    });
    let mut kept = start(&files(dir.path(), "memory")).cache.unwrap();
    kept.sort_unstable();
    assert_eq!(kept, b"abcdefghij");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "neither lock nor folder stays");
}

#[test]
fn what_cannot_be_merged_is_kept_apart_until_the_shared_file_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    let [encoder, memory, prompt] =
        ["encoder", "memory", "prompt"].map(|graph| files(dir.path(), graph));
    // Three at a time, all from nothing. The first finds the shared file as it left it.
    assert_eq!(encoder.keep(EIGHT, None, b"e", never).unwrap(), None);
    let note = memory.keep(EIGHT, None, b"m", never).unwrap().unwrap();
    assert!(note.contains("8.timing.d/edgetam_1024_fp16_memory.timing"), "{note}");
    assert!(note.contains("could not merge"), "{note}");
    // The fourth starts from the shared one and leaves it newer than the memory's own.
    assert_eq!(start(&prompt).cache.as_deref(), Some(&b"e"[..]));
    assert_eq!(prompt.keep(EIGHT, Some(b"e"), b"ep", never).unwrap(), None);

    // Again: each graph meets what it timed.
    assert_eq!(start(&encoder).cache.as_deref(), Some(&b"ep"[..]));
    let again = start(&memory);
    assert_eq!((again.cache.as_deref(), again.notes.len()), (Some(&b"m"[..]), 0));
    // Its own stays its own where nothing else is known of it.
    assert!(memory.keep(EIGHT, Some(b"m"), b"mm", never).unwrap().is_some());
    assert_eq!(start(&memory).cache.as_deref(), Some(&b"mm"[..]));
    // A release that merges takes it in, and the file is gone.
    let merge = |there: &[u8]| Ok([there, b"mm"].concat());
    assert_eq!(memory.keep(EIGHT, Some(b"mm"), b"mm", merge).unwrap(), None);
    assert_eq!(start(&memory).cache.as_deref(), Some(&b"epmm"[..]));
    assert!(!dir.path().join("8.timing.d").exists());
}

#[test]
fn an_own_file_that_is_stale_damaged_or_refused_is_named_and_left_aside() {
    let dir = tempfile::tempdir().unwrap();
    let memory = files(dir.path(), "memory");
    memory.keep(EIGHT, None, b"shared", never).unwrap();
    memory.keep(EIGHT, None, b"own", never).unwrap();
    assert_eq!(start(&memory).cache.as_deref(), Some(&b"own"[..]));
    let refuses = |not: &'static [u8]| {
        memory.start(EIGHT, move |bytes| match bytes == not {
            true => bail!("no timing cache of this driver"),
            false => Ok(()),
        })
    };
    let refused = refuses(b"own");
    assert_eq!((refused.cache.as_deref(), refused.keeps), (Some(&b"shared"[..]), true));
    assert!(refused.notes[0].contains("_memory.timing is not used: no timing cache of this"));

    let other = Stack { tensorrt: "TensorRT 8.6.1", ..EIGHT };
    write(&memory.own, other, b"of another").unwrap();
    let stale = start(&memory);
    assert_eq!(stale.cache.as_deref(), Some(&b"shared"[..]));
    let said = "is of TensorRT 8.6.1 on H200, driver 580 with CUDA 13.0; this is TensorRT 8.6.0";
    assert!(stale.notes[0].contains(said), "{:?}", stale.notes);
    std::fs::write(&memory.own, "ftrt").unwrap();
    let damaged = start(&memory);
    assert_eq!(damaged.cache.as_deref(), Some(&b"shared"[..]));
    assert!(damaged.notes[0].contains("_memory.timing is damaged"), "{:?}", damaged.notes);

    // A sound shared file that TensorRT does not take is not written over.
    let refused = refuses(b"shared");
    assert_eq!((refused.cache, refused.keeps, refused.notes.len()), (None, false, 2));
    // Nothing at all, and a release without timing caches.
    let none = files(&dir.path().join("elsewhere"), "memory");
    assert_eq!(start(&none), Start { keeps: true, ..Start::default() });
    let without = none.start(EIGHT, |_| bail!("has no timing cache"));
    assert_eq!((without.keeps, without.notes.len()), (false, 1));
}

#[test]
fn a_cache_that_cannot_be_written_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let memory = files(&dir.path().join("gone"), "memory");
    assert!(memory.keep(EIGHT, None, b"m", never).is_err());
    std::fs::write(dir.path().join("8.timing.d"), "a file in the way").unwrap();
    let memory = files(dir.path(), "memory");
    assert_eq!(memory.keep(EIGHT, None, b"m", never).unwrap(), None);
    let error = memory.keep(EIGHT, None, b"n", never).unwrap_err();
    assert!(format!("{error:#}").contains("8.timing.d"), "{error:#}");
    assert_eq!(start(&memory).cache.as_deref(), Some(&b"m"[..]), "what was shared is there");
}
