/*!
Backends: where the graphs run.
*/

mod ort_library;
mod ort_network;

pub use ort_library::{build_info, find_library, open};
pub use ort_network::OrtNetwork;

use crate::cli::Provider;
use crate::environment;

/// The backend column: what ran the graphs, with its version.
pub fn label(provider: Provider) -> String {
    let info = build_info();
    // "ORT Build Info: git-branch=rel-1.31.1, git-commit-id=…"
    let version = info.split("git-branch=rel-").nth(1).and_then(|rest| rest.split(',').next());
    let library = version.map_or("onnxruntime".to_owned(), |v| format!("onnxruntime {v}"));
    match provider {
        Provider::Cpu => library,
        Provider::Cuda => format!("{library} cuda"),
        Provider::Tensorrt => format!("{library} tensorrt"),
    }
}

/// The device column.
pub fn device_name(provider: Provider) -> String {
    match provider {
        Provider::Cpu => {
            format!("cpu: {} ({} processors)", environment::processor(), environment::processors())
        }
        Provider::Cuda | Provider::Tensorrt => "gpu 0".to_owned(),
    }
}
