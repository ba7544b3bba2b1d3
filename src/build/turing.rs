/*!
What TensorRT for RTX needs for Turing: graphs without matrix products in fp32, which it does not have there.

From 1.7 on it refuses such products plan by plan; earlier releases build them without a word, and others saw zeros come of it. The
bundle's manifest says at once, and of all graphs, what they were written for. Any other TensorRT has those products on Turing, so that
this is nobody else's matter.
*/

use crate::bundle::Bundle;
use crate::platform::TURING_SM;
use crate::shell;

/// Why TensorRT for RTX builds nothing for this GPU from that bundle, a sentence.
pub fn lacks(bundle: &Bundle, gpu: &str, sm: u32) -> Option<String> {
    let manifest = &bundle.manifest;
    (sm == TURING_SM && manifest.export.for_sm != Some(sm)).then(|| {
        format!(
            "{} is of {} graphs for {}, and TensorRT for RTX builds for {gpu} (sm_{sm}) from fp16 graphs without matrix products in \
             fp32 alone (expected: for_sm = {sm} below [export])",
            bundle.dir.join("manifest.toml").display(),
            manifest.model.precision,
            manifest.target_phrase()
        )
    })
}

/// Where such bundles go: a folder of their own, for their name is that of the usual ones.
const OUT: &str = "onnx/bundles_sm75";

/// The command that makes such a bundle of the same model.
pub fn export_command(bundle: &Bundle) -> String {
    let (model, imgsz) = (shell::word(&bundle.manifest.model.name), bundle.manifest.model.imgsz);
    format!(
        "python onnx/export.py --model {model} --imgsz {imgsz} --precision fp16 --padded-track --for-sm {TURING_SM} --checkpoint FILE \
         --out {OUT}"
    )
}

/// The commands that make such a bundle and build its engines.
pub fn remedy(bundle: &Bundle, platform: &str) -> String {
    let (model, imgsz) = (shell::word(&bundle.manifest.model.name), bundle.manifest.model.imgsz);
    format!(
        "export it with: {}, then: segtrt build-engines --platform {} --models {model} --imgsz {imgsz} --precision fp16 --onnx-dir \
         {OUT}",
        export_command(bundle),
        shell::word(platform)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::sort_for;

    fn bundle(for_sm: Option<u32>) -> Bundle {
        let mut bundle = Bundle::open("onnx/bundles/edgetam_mini_256_fp32".as_ref()).unwrap();
        bundle.manifest.export.for_sm = for_sm;
        bundle
    }

    #[test]
    fn only_turing_needs_graphs_of_its_own_and_any_other_bundle_is_told_by_its_file() {
        for (for_sm, written_for) in [(None, "any GPU"), (Some(89), "sm_89")] {
            let why = lacks(&bundle(for_sm), "RTX 2080", 75).unwrap();
            for words in ["edgetam_mini_256_fp32/manifest.toml is of fp32 graphs for", written_for]
            {
                assert!(why.contains(words), "{why}");
            }
            assert_eq!(lacks(&bundle(for_sm), "RTX 3090", 86), None);
        }
        assert_eq!(lacks(&bundle(Some(75)), "RTX 2080", 75), None);
        let remedy = remedy(&bundle(None), "rtx2080");
        assert!(
            remedy.contains("--for-sm 75 ") && remedy.contains("--platform rtx2080 "),
            "{remedy}"
        );
    }

    #[test]
    fn bundles_of_the_gpu_come_first_and_those_of_another_last() {
        let sorted = |sm| {
            let mut bundles = [Some(75), None, Some(89)].map(bundle);
            sort_for(&mut bundles, sm);
            bundles.map(|bundle| bundle.manifest.export.for_sm)
        };
        assert_eq!(sorted(75), [Some(75), None, Some(89)]);
        assert_eq!(sorted(86), [None, Some(75), Some(89)]);
        assert_eq!(sorted(89), [Some(89), None, Some(75)]);
    }
}
