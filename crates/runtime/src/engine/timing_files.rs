/*!
The timing caches of a build: the one that it starts from, and the one that it writes.

All builds share one file. What another build left there meanwhile is merged with what this one
timed, as far as TensorRT can: 8.6.0 merges no caches that hold parts of Myelin's. What it cannot
merge has a file of its own for each graph, in a folder beside the shared one, and the next build of
that graph looks there first. It is gone as soon as the shared file holds what is in it.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

pub use super::timing_cache::Stack;
use super::timing_cache::{locked, read, write};

/// The two files of one graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimingFiles {
    /// Of all graphs.
    #[serde(serialize_with = "host::child::utf8::path")]
    pub shared: PathBuf,
    /// The graph's file, for timings that could not be merged.
    #[serde(serialize_with = "host::child::utf8::path")]
    pub own: PathBuf,
}

/// How a build begins.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The cache that it starts from; none where there is none.
    pub cache: Option<Vec<u8>>,
    /// TensorRT keeps a cache of this build.
    pub keeps: bool,
    /// Files that are not used, each with the reason.
    pub notes: Vec<String>,
}

impl TimingFiles {
    /// The folder of the shared file, which must exist before a build ends; none where that is the
    /// current one.
    pub fn folder(&self) -> Option<&Path> {
        self.shared.parent().filter(|folder| !folder.as_os_str().is_empty())
    }

    /// Those of a graph: `own` is `SHARED.d/<model folder>_<graph>.timing`.
    pub fn new(shared: &Path, model_folder: &str, graph: &str) -> Self {
        let mut folder = shared.as_os_str().to_owned();
        folder.push(".d");
        let own = PathBuf::from(folder).join(format!("{model_folder}_{graph}.timing"));
        Self { shared: shared.to_owned(), own }
    }

    /// Offers `set` the graph's own cache, else the shared one, else an empty one.
    ///
    /// The own one has what the last build of this graph timed, which the shared one lacks however
    /// new it is.
    pub fn start(&self, stack: Stack<'_>, mut set: impl FnMut(&[u8]) -> Result<()>) -> Start {
        let mut start = Start::default();
        let mut refused = None;
        for path in [&self.own, &self.shared] {
            let cache = match read(path, stack) {
                Ok(Some(cache)) => cache,
                Ok(None) => continue,
                Err(why) => {
                    start.notes.push(format!("the timing cache is not used: {why}"));
                    continue;
                }
            };
            match set(&cache) {
                Ok(()) => return Start { cache: Some(cache), keeps: true, ..start },
                Err(error) => {
                    let path_name = path.display();
                    let note = format!("the timing cache {path_name} is not used: {error:#}");
                    start.notes.push(note);
                    refused = Some(path);
                }
            }
        }
        // Not over a shared file that is sound and that this TensorRT does not take.
        if refused != Some(&self.shared) {
            match set(&[]) {
                Ok(()) => start.keeps = true,
                Err(error) => start.notes.push(format!("the timing cache is not used: {error:#}")),
            }
        }
        start
    }

    /// Writes `timed`, the cache of a build that started from `begun`, for later builds. `merge`
    /// receives the timings that others wrote to the shared file meanwhile, and merges them with
    /// `timed`. If it fails, `timed` goes to the graph's file, and the result is a note for the
    /// user.
    ///
    /// Builds that end at the same time wait for one another, so that none loses what another
    /// timed.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn keep(
        &self,
        stack: Stack<'_>,
        begun: Option<&[u8]>,
        timed: &[u8],
        merge: impl FnOnce(&[u8]) -> Result<Vec<u8>>,
    ) -> Result<Option<String>> {
        locked(&self.shared, || {
            let there = read(&self.shared, stack).ok().flatten();
            let merged = match there.filter(|there| Some(there.as_slice()) != begun) {
                None => Ok(timed.to_vec()),
                Some(others) => merge(&others),
            };
            let error = match merged {
                Ok(all) => {
                    write(&self.shared, stack, &all)?;
                    self.forget_own();
                    return Ok(None);
                }
                Err(error) => error,
            };
            if let Some(folder) = self.own.parent() {
                std::fs::create_dir_all(folder)
                    .with_context(|| format!("cannot create {}", folder.display()))?;
            }
            write(&self.own, stack, timed)?;
            Ok(Some(format!(
                "what was timed is kept in {}, where the next build of this graph looks first, \
                 because the shared timing cache does not take it: {error:#}",
                self.own.display()
            )))
        })
    }

    /// The shared file holds it now. One that stays does no harm: it is of the same graph.
    fn forget_own(&self) {
        let _ = std::fs::remove_file(&self.own);
        if let Some(folder) = self.own.parent() {
            // Only where no other graph has a file.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests;
