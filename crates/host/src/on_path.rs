/*!
The search for programs along PATH.
*/

use std::path::PathBuf;

/// The files called `name` in the folders of PATH, in PATH's order.
pub fn find(name: &str) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let files = std::env::split_paths(&path).map(|folder| folder.join(&name));
    files.filter(|program| program.is_file()).collect()
}
