/*!
What is looked for as cuBLASLt's library.
*/

use crate::find::Wanted;

/// Environment variable that names the library, or its folder. Where it is set nothing else is tried.
pub const VARIABLE: &str = "SEGTRT_CUBLASLT_LIB";

/// cuBLASLt. Its part of cuBLAS that is called here is the same in CUDA 11.4 to 13.4, as far as its declarations go.
pub(super) static WANTED: Wanted = Wanted {
    title: "cuBLASLt",
    file: "libcublasLt.so",
    variable: VARIABLE,
    loader: &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"],
    pip: &["nvidia/cu13/lib", "nvidia/cublas/lib"],
    advice: "it comes with the CUDA toolkit (apt-get install libcublas-13-0 from NVIDIA's repository) and with pip install \
             nvidia-cublas (CUDA 13) or nvidia-cublas-cu12: name its folder with SEGTRT_CUBLASLT_LIB where it is not found by \
             itself, or run the encoder without its trunk: segtrt build-engines --graphs encoder",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Searched;

    #[test]
    fn nothing_found_says_how_to_get_it_and_how_to_do_without() {
        let places = vec!["/here".into()];
        let text = Searched { wanted: &WANTED, places, named: false }.to_string();
        for word in ["/here", "nvidia-cublas-cu12", "libcublas-13-0", VARIABLE, "--graphs encoder"]
        {
            assert!(text.contains(word), "{word} in {text}");
        }
    }
}
