/*!
The released checkpoints: where their publishers put them, and how they are known.
*/

use crate::download::Check;
use vos::model_tag::ModelTag;
use vos::prompt::PromptKind;

/// Meta's folder of SAM 2.1.
const SAM2_FOLDER: &str = "https://dl.fbaipublicfiles.com/segment_anything_2/092824";
/// EdgeTAM's repository keeps the file itself.
const EDGETAM_FOLDER: &str = "https://github.com/facebookresearch/EdgeTAM/raw/main/checkpoints";

/// A released checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Released {
    /// Name of the model, as manifests have it.
    pub name: &'static str,
    /// Folder of the publisher.
    pub folder: &'static str,
    /// Name of the file there.
    pub file: &'static str,
    /// Its size in bytes, where it is known.
    pub bytes: Option<u64>,
    /// Its licence.
    pub licence: &'static str,
    /// Who published it.
    pub publisher: &'static str,
    hash: Hash,
}

/// Hash of a file, as it is published.
#[derive(Clone, Copy, Debug)]
enum Hash {
    Sha256(&'static str),
    /// The publisher names the file in git alone.
    GitBlob(&'static str),
}

const fn sam2(
    name: &'static str,
    file: &'static str,
    bytes: u64,
    sha256: &'static str,
) -> Released {
    Released {
        name,
        folder: SAM2_FOLDER,
        file,
        bytes: Some(bytes),
        licence: "Apache-2.0",
        publisher: "Meta, facebookresearch/sam2",
        hash: Hash::Sha256(sha256),
    }
}

/// All of them, smallest first.
pub const MODELS: [Released; 5] = [
    Released {
        name: "edgetam",
        folder: EDGETAM_FOLDER,
        file: "edgetam.pt",
        bytes: None,
        licence: "Apache-2.0",
        publisher: "Meta, facebookresearch/EdgeTAM",
        hash: Hash::GitBlob("abd54d22bbd22ba3e53cf59a307e59e0f3701be6"),
    },
    sam2(
        "sam2.1_tiny",
        "sam2.1_hiera_tiny.pt",
        156_008_466,
        "7402e0d864fa82708a20fbd15bc84245c2f26dff0eb43a4b5b93452deb34be69",
    ),
    sam2(
        "sam2.1_small",
        "sam2.1_hiera_small.pt",
        184_416_285,
        "6d1aa6f30de5c92224f8172114de081d104bbd23dd9dc5c58996f0cad5dc4d38",
    ),
    sam2(
        "sam2.1_base_plus",
        "sam2.1_hiera_base_plus.pt",
        323_606_802,
        "a2345aede8715ab1d5d31b4a509fb160c5a4af1970f199d9054ccfb746c004c5",
    ),
    sam2(
        "sam2.1_large",
        "sam2.1_hiera_large.pt",
        898_083_611,
        "2647878d5dfa5098f2f8649825738a9345572bae2d4350a2468587ece47dd318",
    ),
];

impl Released {
    /// The file's address at its publisher, or in a folder of `mirror`.
    pub fn url(&self, mirror: Option<&str>) -> String {
        format!("{}/{}", mirror.unwrap_or(self.folder).trim_end_matches('/'), self.file)
    }

    /// Its published hash.
    pub fn check(&self) -> Check {
        match self.hash {
            Hash::Sha256(hash) => Check::Sha256(hash.to_owned()),
            Hash::GitBlob(hash) => Check::GitBlob(hash.to_owned()),
        }
    }
}

/// A checkpoint by a name of its model (`sam2.1_tiny`) or tag (`sam2_tiny`), spelt as
/// [`ModelTag::parse`] takes it.
pub fn by_name(name: &str) -> Option<&'static Released> {
    let network = ModelTag::parse(name, PromptKind::Points).map(|tag| tag.network);
    MODELS.iter().find(|model| network.as_deref() == Some(model.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_the_names_that_people_write() {
        for (name, wanted) in [
            ("edgetam", "edgetam"),
            ("sam2.1_tiny", "sam2.1_tiny"),
            ("sam2.1-tiny", "sam2.1_tiny"),
            ("sam2_base", "sam2.1_base_plus"),
            ("SAM2.1-base+", "sam2.1_base_plus"),
            ("sam2.1-base-plus", "sam2.1_base_plus"),
            ("sam2_large", "sam2.1_large"),
        ] {
            assert_eq!(by_name(name).map(|model| model.name), Some(wanted), "{name}");
        }
        assert!(by_name("edgetam_mini").is_none(), "it comes with the program");
        assert!(by_name("sam2_huge").is_none());
    }

    #[test]
    fn a_mirror_is_a_folder_with_the_same_file() {
        let tiny = by_name("sam2_tiny").unwrap();
        assert_eq!(
            tiny.url(None),
            "https://dl.fbaipublicfiles.com/segment_anything_2/092824/sam2.1_hiera_tiny.pt"
        );
        assert_eq!(tiny.url(Some("http://m/x/")), "http://m/x/sam2.1_hiera_tiny.pt");
    }

    #[test]
    fn hashes_have_the_length_of_their_kind() {
        for model in MODELS {
            let (hash, digits) = match model.check() {
                Check::Sha256(hash) => (hash, 64),
                Check::GitBlob(hash) => (hash, 40),
            };
            let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            assert!(hash.len() == digits && hash.bytes().all(lower), "{}", model.name);
        }
    }
}
