/*!
Advice about a library that the loader does not open.

The libraries of 8.x are linked with cuDNN and cuBLAS: if those are missing, the advice to install
TensorRT would lead nowhere.
*/

use std::path::Path;

/// The missing library that `own` is linked with, from the loader's message; none if `own` itself
/// is missing.
pub(super) fn needed_by<'a>(why: &'a str, own: &str) -> Option<&'a str> {
    why.split("; ").find_map(|words| {
        let (library, _) = words.split_once(": cannot open shared object file")?;
        (!library.contains(own)).then_some(library)
    })
}

/// Advice about a TensorRT that does not open, as a clause.
pub(super) fn hint(path: &Path, why: &str) -> String {
    let own = path.file_name().unwrap_or_default().to_string_lossy();
    match needed_by(why, &own) {
        Some(library) => {
            format!("the file is there, a library that it needs is not: {}", how_to_get(library))
        }
        None => "name the directory of libnvinfer.so or libtensorrt_rtx.so".to_owned(),
    }
}

/// How to get a library that TensorRT is linked with, as a clause.
pub(super) fn how_to_get(library: &str) -> String {
    let package = match library {
        cudnn if cudnn.starts_with("libcudnn") => {
            "install cuDNN 8 (JetPack and NVIDIA's apt repository: sudo apt install libcudnn8; \
             pip: the 8.x of nvidia-cudnn-cu11 or nvidia-cudnn-cu12, whichever CUDA the TensorRT \
             is for)"
                .to_owned()
        }
        other => format!("install the package that has {other}"),
    };
    format!("{package}, or name the directory that holds it in LD_LIBRARY_PATH")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_dependency_is_told_from_a_missing_file() {
        let gone = |name: &str| {
            format!("{name}: cannot open shared object file: No such file or directory")
        };
        let parser = "libnvonnxparser.so";
        assert_eq!(needed_by(&gone("/opt/libnvonnxparser.so.8"), parser), None);
        let both = format!("{}; {}", gone("libcudnn.so.8"), gone("libnvonnxparser.so.8"));
        assert_eq!(needed_by(&both, parser), Some("libcudnn.so.8"));
        assert_eq!(needed_by("/etc/passwd: invalid ELF header", parser), None);
        let library = Path::new("/opt/libnvinfer.so.8");
        assert!(hint(library, &gone("libcudnn.so.8")).contains("apt install libcudnn8"));
        assert!(
            hint(library, &gone("libcublas.so.12"))
                .contains("the package that has libcublas.so.12")
        );
        assert!(
            hint(library, &gone("/opt/libnvinfer.so.8"))
                .starts_with("name the directory of libnvinfer.so")
        );
    }
}
