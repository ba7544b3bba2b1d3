/*!
nvJPEG's library: the search for it, and its functions.
*/

use std::ffi::c_int;

use super::error::NvJpegError;
use super::sys::{self, Functions, Status};
use dynlib::{Loaded, Opened, Probed, Wanted};

/// Environment variable that names the library or its folder. If it is set, nothing else is tried.
pub const VARIABLE: &str = "SEGTRT_NVJPEG_LIB";

static WANTED: Wanted = Wanted {
    title: "nvJPEG",
    file: "libnvjpeg.so",
    variable: VARIABLE,
    loader: &["libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so.11", "libnvjpeg.so"],
    pip: &["nvidia/nvjpeg/lib", "nvidia/cu13/lib"],
    advice: "it comes with the CUDA toolkit (apt-get install libnvjpeg-13-0 from NVIDIA's \
             repository) and with pip install nvidia-nvjpeg (CUDA 13) or nvidia-nvjpeg-cu12: name \
             its folder with SEGTRT_NVJPEG_LIB where it is not found by itself",
    without: "use --jpeg-decoder turbo",
};

/// An opened nvJPEG. Cheap to clone.
pub type Library = Opened<Functions>;

/// Opens the library that `SEGTRT_NVJPEG_LIB` names, else the first that is found. `driver_cuda` is
/// the driver's CUDA release ("13.0"), if known: a library built for a later one cannot run.
///
/// # Errors
/// [`NvJpegError::Library`] with the places, or with the reason against the named file.
pub fn open(driver_cuda: Option<&str>) -> Result<Library, NvJpegError> {
    Ok(Opened::find(&WANTED, driver_cuda, probe)?)
}

fn probe(loaded: &'static Loaded) -> Result<Probed<Functions>, String> {
    // SAFETY: only a library with all of nvJPEG's names is taken for it.
    let functions = unsafe { Functions::of(loaded) }.map_err(|lacking| {
        format!(
            "it has no {lacking}: it is older than CUDA 12's, or another library of that name, \
             such as JetPack's for video"
        )
    })?;
    let number = |get: unsafe extern "C" fn(c_int, *mut c_int) -> Status, which| {
        let mut value = 0;
        // SAFETY: the function writes one number to a place that lives through the call.
        let status = unsafe { get(which, &mut value) };
        (status == Status::SUCCESS).then_some(value)
    };
    let which = [sys::MAJOR_VERSION, sys::MINOR_VERSION, sys::PATCH_LEVEL];
    let version = which.map(|which| number(functions.get_property, which).unwrap_or_default());
    let cuda = number(functions.get_cudart_property, sys::MAJOR_VERSION);
    let cuda = cuda.unwrap_or(version[0]);
    Ok(Probed { functions, version, cuda, symbol: "nvjpegGetProperty" })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use dynlib::{Missed, Searched};

    #[test]
    fn a_missing_library_says_how_to_get_it() {
        let places = vec!["/here".into()];
        let text = Searched { wanted: &WANTED, places, named: false }.to_string();
        for word in ["/here", "pip install", "CUDA toolkit", VARIABLE, "--jpeg-decoder turbo"] {
            assert!(text.contains(word), "{word} in {text}");
        }
    }

    #[test]
    fn what_is_no_library_and_what_is_another_one_say_so() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("libnvjpeg.so.12");
        std::fs::write(&file, "no library").unwrap();
        let why = Opened::open("nvJPEG", &file, None, probe).unwrap_err();
        assert!(why.contains("libnvjpeg.so.12"), "{why}");
        // Every process here has libc.
        let why = Opened::open("nvJPEG", Path::new("libc.so.6"), None, probe).unwrap_err();
        assert!(why.contains("nvjpegGetProperty") && why.contains("JetPack"), "{why}");
        let missed = Missed::Unusable { wanted: &WANTED, path: file, why };
        let text = NvJpegError::Library(missed).to_string();
        assert!(
            text.contains("SEGTRT_NVJPEG_LIB") && text.contains("--jpeg-decoder turbo"),
            "{text}"
        );
    }
}
