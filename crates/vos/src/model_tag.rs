/*!
Model tags in the predecessor's form: `<model>_<prompt>`, such as `sam2_tiny_points`.

Rows have the tag's text, bundles have Meta's name of the network; only this file maps between them.
*/

use serde::{Deserialize, Serialize};

use crate::prompt::PromptKind;

/// Tag root → model name in bundle manifests.
const MODELS: [(&str, &str); 6] = [
    ("edgetam", "edgetam"),
    ("sam2_tiny", "sam2.1_tiny"),
    ("sam2_small", "sam2.1_small"),
    ("sam2_base", "sam2.1_base_plus"),
    ("sam2_large", "sam2.1_large"),
    ("edgetam_mini", "edgetam_mini"),
];

/// The predecessor's `--models all`, in its order.
const ALL: [&str; 5] = ["edgetam", "sam2_tiny", "sam2_small", "sam2_base", "sam2_large"];

/// One entry of `--models`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTag {
    /// The text in the CSV.
    pub text: String,
    /// The network's name in bundle manifests.
    pub network: String,
    /// How the object is prompted.
    pub prompt: PromptKind,
}

impl ModelTag {
    /// Parses one tag. Without a prompt suffix `default_prompt` applies. Manifest names
    /// (`sam2.1_tiny_points`) and the papers' spelling (`SAM2.1-tiny`, `sam2.1-base+`) are accepted
    /// too. `None`: unknown.
    pub fn parse(text: &str, default_prompt: PromptKind) -> Option<Self> {
        let text = text.to_lowercase().replace('-', "_").replace("base+", "base_plus");
        let text = text.as_str();
        let known =
            |root: &str| MODELS.iter().find(|(tag, model)| *tag == root || *model == root).copied();
        let suffixed = text
            .rsplit_once('_')
            .and_then(|(root, suffix)| Some((known(root)?, PromptKind::from_name(suffix)?)));
        let ((root, network), prompt) =
            suffixed.or_else(|| known(text).map(|model| (model, default_prompt)))?;
        Some(Self {
            text: format!("{root}_{}", prompt.name()),
            network: network.to_owned(),
            prompt,
        })
    }

    /// `--models all`: every published model, with point and box prompts.
    pub fn all() -> Vec<String> {
        ALL.iter().flat_map(|root| [format!("{root}_points"), format!("{root}_bbox")]).collect()
    }

    /// Every model with a tag, including the demo's small network, with point and box prompts.
    pub fn every() -> Vec<String> {
        let both = |(root, _): &(&str, _)| [format!("{root}_points"), format!("{root}_bbox")];
        MODELS.iter().flat_map(both).collect()
    }

    /// Whether checkpoints of this network, by its name in manifests, are published.
    pub fn is_published(network: &str) -> bool {
        MODELS.iter().any(|(root, model)| *model == network && ALL.contains(root))
    }

    /// The tag, with the model's name in manifests, that is most like `text`; none where no tag is
    /// alike.
    pub fn nearest(text: &str) -> Option<String> {
        const ALIKE: f64 = 0.8;
        let of = |network| ["points", "bbox", "mask"].map(|prompt| format!("{network}_{prompt}"));
        let likeness = |tag: String| (strsim::normalized_damerau_levenshtein(&tag, text), tag);
        let all = MODELS.iter().flat_map(|(_, network)| of(network)).map(likeness);
        let best = all.max_by(|a, b| a.0.total_cmp(&b.0))?;
        (best.0 >= ALIKE).then_some(best.1)
    }

    /// All tags, for messages.
    pub fn known() -> String {
        format!("{} followed by _points, _bbox or _mask", Self::models())
    }

    /// All models by their names in manifests, which `segtrt fetch` takes too, separated by commas.
    pub fn models() -> String {
        let networks: Vec<&str> = MODELS.iter().map(|(_, network)| *network).collect();
        networks.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_parse_as_the_predecessor_splits_them() {
        let parse = |text| ModelTag::parse(text, PromptKind::Bbox);
        let tag = parse("sam2_base_points").unwrap();
        assert_eq!((tag.network.as_str(), tag.prompt), ("sam2.1_base_plus", PromptKind::Points));
        assert_eq!(parse("edgetam_mini").unwrap().text, "edgetam_mini_bbox");
        assert_eq!(parse("sam2.1_tiny_mask").unwrap().text, "sam2_tiny_mask");
        assert_eq!(parse("SAM2.1-Tiny").unwrap().text, "sam2_tiny_bbox");
        assert_eq!(parse("sam2.1-base+_points").unwrap().text, "sam2_base_points");
        assert_eq!(parse("sam2_huge_points"), None);
        assert_eq!(parse("edgetam_clicks"), None);
        assert!(ModelTag::is_published("sam2.1_tiny") && !ModelTag::is_published("edgetam_mini"));
        let nearest = ModelTag::nearest("edgetam_mini_pionts");
        assert_eq!(nearest.as_deref(), Some("edgetam_mini_points"));
        let nearest = ModelTag::nearest("sam2_tinny_points");
        assert_eq!(nearest.as_deref(), Some("sam2.1_tiny_points"), "as fetch has it");
        assert_eq!(ModelTag::nearest("yolo"), None);
        // Messages list nothing that a command does not take.
        let models = ModelTag::models();
        assert!(models.split(", ").all(|model| parse(model).is_some()));
        assert!(ModelTag::all().iter().all(|tag| parse(tag).is_some()));
    }
}
