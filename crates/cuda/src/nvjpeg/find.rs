/*!
What is looked for as nvJPEG's library.
*/

use crate::find::Wanted;

/// Environment variable that names the library, or its folder. Where it is set nothing else is tried.
pub const VARIABLE: &str = "SEGTRT_NVJPEG_LIB";

/// nvJPEG.
pub(super) static WANTED: Wanted = Wanted {
    title: "nvJPEG",
    file: "libnvjpeg.so",
    variable: VARIABLE,
    loader: &["libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so.11", "libnvjpeg.so"],
    pip: &["nvidia/nvjpeg/lib", "nvidia/cu13/lib"],
    advice: "it comes with the CUDA toolkit (apt-get install libnvjpeg-13-0 from NVIDIA's repository) and with pip install \
             nvidia-nvjpeg (CUDA 13) or nvidia-nvjpeg-cu12: name its folder with SEGTRT_NVJPEG_LIB where it is not found by \
             itself, or use --decoder turbo",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Searched;

    #[test]
    fn nothing_found_says_how_to_get_it() {
        let places = vec!["/here".into()];
        let text = Searched { wanted: &WANTED, places, named: false }.to_string();
        for word in ["/here", "pip install", "CUDA toolkit", VARIABLE, "--decoder turbo"] {
            assert!(text.contains(word), "{word} in {text}");
        }
    }
}
