/*!
Backends: where the graphs run.
*/

mod ort_bank;
mod ort_library;
mod ort_network;

pub use ort_library::{build_info, find_library, open};
pub use ort_network::{OrtNetwork, load_session, plain};
pub use vos::record::Provider;

use std::path::Path;

use host::processor::{processor, processors};
use vos::record::Backend;

/// ONNX Runtime with its version, as rows keep it.
pub fn describe(provider: Provider, library: &Path) -> Backend {
    Backend::OnnxRuntime { version: version(library), provider }
}

/// ONNX Runtime's version: of the file's own name, which wheels and distributions write in full,
/// else of the branch that the build description names.
fn version(library: &Path) -> Option<String> {
    let real = library.canonicalize().unwrap_or_else(|_| library.to_owned());
    let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let of_name = name.split_once(".so.").map(|(_, version)| version.to_owned());
    let info = build_info();
    let of_branch = info.split("git-branch=rel-").nth(1).and_then(|rest| rest.split(',').next());
    of_name.or_else(|| of_branch.map(str::to_owned))
}

/// The device column.
pub fn device_name(provider: Provider) -> String {
    match provider {
        Provider::Cpu => {
            format!("cpu: {} ({} processors)", processor(), processors())
        }
        Provider::Cuda | Provider::Tensorrt => "gpu 0".to_owned(),
    }
}
