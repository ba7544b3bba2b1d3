/*!
Tables as files.
*/

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::Table;
use vos::files::atomic;

/// Creates `directory` and writes `NAME.md` and `NAME.tex` of every table into it. Returns the files
/// in order.
///
/// # Errors
/// Two tables have one name, or the directory cannot be created or written to.
pub fn write<'a>(
    directory: &Path,
    tables: impl IntoIterator<Item = &'a Table>,
) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(directory).with_context(|| {
        format!("cannot create {}; choose a writable folder for --tables", directory.display())
    })?;
    let mut files: Vec<PathBuf> = Vec::new();
    for table in tables {
        for (extension, text) in [("md", table.markdown()), ("tex", table.latex())] {
            let path = directory.join(format!("{}.{extension}", table.name));
            if files.contains(&path) {
                bail!("two tables are called {}; this is an error of segtrt", table.name);
            }
            atomic::write(&path, |out| Ok(out.write_all(text.as_bytes())?))?;
            files.push(path);
        }
    }
    Ok(files)
}
