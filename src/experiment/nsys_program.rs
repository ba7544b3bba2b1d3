/*!
Where Nsight Systems is: `NSYS_CMD`, the search path, and the folders in which its packages lie.
*/

use std::path::{Path, PathBuf};

/// Folders outside the search path; the first is JetPack's.
const USUAL: [&str; 2] = ["/opt/nvidia/nsight-systems/bin/nsys", "/usr/local/bin/nsys"];

/// The program, if there is one. A `NSYS_CMD` that names nothing means that there is none: it was meant.
pub fn find() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let search: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    let named = std::env::var_os("NSYS_CMD").filter(|name| !name.is_empty()).map(PathBuf::from);
    find_in(named.as_deref(), &search, &USUAL.map(PathBuf::from))
}

fn find_in(named: Option<&Path>, search: &[PathBuf], usual: &[PathBuf]) -> Option<PathBuf> {
    let on_path =
        |name: &Path| search.iter().map(|folder| folder.join(name)).find(|path| is_program(path));
    match named {
        Some(path) if path.components().count() > 1 => is_program(path).then(|| path.to_owned()),
        Some(name) => on_path(name),
        None => on_path(Path::new("nsys"))
            .or_else(|| usual.iter().find(|path| is_program(path)).cloned()),
    }
}

fn is_program(path: &Path) -> bool {
    #[cfg(unix)]
    let runs = |meta: std::fs::Metadata| {
        use std::os::unix::fs::PermissionsExt as _;
        meta.is_file() && meta.permissions().mode() & 0o111 != 0
    };
    #[cfg(not(unix))]
    let runs = |meta: std::fs::Metadata| meta.is_file();
    std::fs::metadata(path).is_ok_and(runs)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_named_program_is_meant_and_others_are_searched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nsys");
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        let search = [dir.path().to_owned()];
        assert_eq!(find_in(None, &search, &[]), None, "it is not executable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_in(None, &search, &[]), Some(path.clone()));
        assert_eq!(find_in(None, &[], &[dir.path().join("no"), path.clone()]), Some(path.clone()));
        assert_eq!(find_in(Some(Path::new("nsys")), &search, &[]), Some(path.clone()));
        assert_eq!(find_in(Some(&path), &[], &[]), Some(path.clone()));
        assert_eq!(find_in(Some(Path::new("/no/nsys")), &search, &[path]), None);
    }
}
