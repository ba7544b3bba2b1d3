/*!
Whether this machine is a Jetson, and what its board says of itself. Paths are relative to a root,
which is `/`, so that tests can make a board up.
*/

use std::path::Path;

/// L4T's release file, by which the predecessor's script recognises a Jetson; absent in some
/// containers.
const RELEASE: &str = "etc/nv_tegra_release";
/// The kernel's device tree.
const MODELS: [&str; 2] = ["proc/device-tree/model", "sys/firmware/devicetree/base/model"];

/// By the release file or the board's name.
pub fn is_jetson(root: &Path) -> bool {
    let named = || model(root).is_some_and(|name| name.to_lowercase().contains("jetson"));
    root.join(RELEASE).exists() || named()
}

/// The board's name in the device tree; PCs and servers have none.
pub fn model(root: &Path) -> Option<String> {
    MODELS.iter().find_map(|path| text(&root.join(path)))
}

/// The first line of L4T's release file.
pub fn l4t(root: &Path) -> Option<String> {
    text(&root.join(RELEASE))?.lines().next().map(str::to_owned)
}

/// A file's text without the blanks and zeros at its ends; `None` if it cannot be read or is
/// empty.
pub fn text(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(path: &str, text: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        root
    }

    #[test]
    fn the_release_file_or_the_boards_name_tells_a_jetson() {
        let released = machine(RELEASE, "# R36 (release)\n# more\n");
        assert!(is_jetson(released.path()));
        assert_eq!(l4t(released.path()).as_deref(), Some("# R36 (release)"));
        for path in MODELS {
            let orin = machine(path, "NVIDIA Jetson Orin Nano\0");
            assert!(is_jetson(orin.path()));
            assert_eq!(model(orin.path()).as_deref(), Some("NVIDIA Jetson Orin Nano"));
            assert!(!is_jetson(machine(path, "Raspberry Pi 5\0").path()));
        }
        assert!(!is_jetson(machine("etc/os-release", "x").path()));
    }
}
