/*!
The files of a packed split: regular files only, each once, and files outside the split's folder.
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Results of earlier runs, if somebody wrote them into a split.
const NOT_CLIPS: &str = "benchmark_outputs";
/// Links that are named one by one.
const NAMED_LINKS: usize = 10;

/// What a split holds.
#[derive(Debug, Default)]
pub struct Clips {
    /// Names below the split, with slashes, and the files.
    pub files: Vec<(String, PathBuf)>,
    /// Links that lead out of the split, in sentences.
    pub warnings: Vec<String>,
}

/// Lists a split. Splits are made of links at times: the files count, and those that lie elsewhere
/// are named.
///
/// # Errors
/// What is neither a folder nor a regular file, a name that is no UTF-8, a folder that is reached
/// twice, as by a link to a folder above it.
pub fn list(split: &Path) -> Result<Clips> {
    let root = split.canonicalize().with_context(|| format!("cannot read {}", split.display()))?;
    let mut walk = Walk { root, seen: BTreeMap::new(), out: Vec::new(), clips: Clips::default() };
    walk.folder(split, "")?;
    let Walk { mut clips, out, .. } = walk;
    let named = out.iter().take(NAMED_LINKS).cloned();
    clips.warnings.extend(
        named.map(|link| {
            format!("a link leads out of the split, what it points to is packed: {link}")
        }),
    );
    if out.len() > NAMED_LINKS {
        clips
            .warnings
            .push(format!("{} more links lead out of the split", out.len() - NAMED_LINKS));
    }
    Ok(clips)
}

struct Walk {
    /// The split without links.
    root: PathBuf,
    /// Folders that were entered, without links, and by which path.
    seen: BTreeMap<PathBuf, PathBuf>,
    /// Links that lead out of the split.
    out: Vec<String>,
    clips: Clips,
}

impl Walk {
    fn folder(&mut self, dir: &Path, name: &str) -> Result<()> {
        let cannot = || format!("cannot read {}", dir.display());
        let real = dir.canonicalize().with_context(cannot)?;
        if let Some(first) = self.seen.insert(real, dir.to_owned()) {
            bail!(
                "cannot pack {}: it is a link back to the folder {}; remove the link, or replace \
                 it by a copy",
                dir.display(),
                first.display()
            );
        }
        for entry in std::fs::read_dir(dir).with_context(cannot)? {
            let path = entry.with_context(cannot)?.path();
            let Some(file) = path.file_name().and_then(|name| name.to_str()) else {
                bail!("cannot pack {}: its name is no UTF-8; rename it", path.display());
            };
            let inside = match name {
                "" => file.to_owned(),
                _ => format!("{name}/{file}"),
            };
            let meta = std::fs::metadata(&path)
                .with_context(|| format!("cannot pack {}; remove it", path.display()))?;
            if meta.is_dir() && file == NOT_CLIPS {
                continue;
            }
            self.note_link(&path);
            if meta.is_dir() {
                self.folder(&path, &inside)?;
            } else if meta.is_file() {
                self.clips.files.push((inside, path));
            } else {
                bail!(
                    "cannot pack {}: it is neither a folder nor a regular file but a pipe, a \
                     socket or a device; remove it",
                    path.display()
                );
            }
        }
        Ok(())
    }

    fn note_link(&mut self, path: &Path) {
        if !path.is_symlink() {
            return;
        }
        if let Ok(real) = path.canonicalize()
            && !real.starts_with(&self.root)
        {
            self.out.push(format!("{} -> {}", path.display(), real.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn split() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("split/a")).unwrap();
        std::fs::create_dir_all(dir.path().join("elsewhere")).unwrap();
        std::fs::write(dir.path().join("split/a/0.jpg"), "0").unwrap();
        std::fs::write(dir.path().join("elsewhere/1.jpg"), "1").unwrap();
        dir
    }

    #[test]
    fn links_to_folders_above_end_with_their_name() {
        let dir = split();
        let split = dir.path().join("split");
        symlink(".", split.join("l1")).unwrap();
        symlink(".", split.join("l2")).unwrap();
        let error = list(&split).unwrap_err().to_string();
        assert!(error.contains("split/l") && error.contains("link back"), "{error}");
    }

    #[test]
    fn links_out_of_the_split_are_followed_and_named() {
        let dir = split();
        let split = dir.path().join("split");
        symlink("a/0.jpg", split.join("inside.jpg")).unwrap();
        symlink("../elsewhere", split.join("b")).unwrap();
        for at in 0..NAMED_LINKS {
            symlink("../elsewhere/1.jpg", split.join(format!("{at}.jpg"))).unwrap();
        }
        let clips = list(&split).unwrap();
        assert_eq!(clips.files.len(), 3 + NAMED_LINKS);
        assert_eq!(clips.warnings.len(), NAMED_LINKS + 1, "{:?}", clips.warnings);
        assert!(clips.warnings.iter().all(|warning| !warning.contains("inside.jpg")));
        assert!(clips.warnings[0].contains("elsewhere"), "{:?}", clips.warnings);
        assert_eq!(clips.warnings[NAMED_LINKS], "1 more links lead out of the split");
    }

    #[test]
    fn pipes_and_links_to_nowhere_are_refused_by_name() {
        let dir = split();
        let split = dir.path().join("split");
        let pipe = split.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let error = list(&split).unwrap_err().to_string();
        assert!(error.contains("split/pipe") && error.contains("a pipe"), "{error}");
        std::fs::remove_file(&pipe).unwrap();
        symlink("nowhere", &pipe).unwrap();
        let error = format!("{:#}", list(&split).unwrap_err());
        assert!(error.contains("split/pipe"), "{error}");
    }
}
