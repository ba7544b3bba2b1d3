/*!
Whether a fused layer holds a layer that was pinned to fp32.

A fused layer's name lists the layers in it ("/a + PWN(/b, /c)"); 10 and 11 list the ONNX nodes
apart. A pinned name counts only as a whole: "/norm" is not in "/norm_1" nor in "/layers.10/norm".
*/

use std::collections::HashSet;

use crate::engine::LayerRecord;

/// The pinned layers of one build.
pub struct Pins<'a> {
    names: HashSet<&'a str>,
}

impl<'a> Pins<'a> {
    /// Pins by layer names as they were before the build.
    pub fn new(names: &'a [String]) -> Self {
        Self { names: names.iter().map(String::as_str).collect() }
    }

    /// One of the layers in `layer` is pinned.
    pub fn hold(&self, layer: &LayerRecord) -> bool {
        let listed = layer.sources.iter().any(|source| self.names.contains(source.as_str()));
        listed || self.names.iter().any(|name| holds_whole(&layer.name, name))
    }
}

fn holds_whole(fused: &str, name: &str) -> bool {
    if name.is_empty() {
        return false;
    }
    let part_of_a_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | ':');
    fused.match_indices(name).any(|(at, _)| {
        let (before, after) = (&fused[..at], &fused[at + name.len()..]);
        let open = !before.ends_with(part_of_a_name);
        // Myelin appends numbers to the names of its layers.
        open && (!after.starts_with(part_of_a_name) || after.starts_with("_myl"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(name: &str, sources: &[&str]) -> bool {
        let pinned = ["/norm".to_owned(), "(Unnamed Layer* 3) [Softmax]".to_owned()];
        let sources = sources.iter().map(|s| (*s).to_owned()).collect();
        Pins::new(&pinned).hold(&LayerRecord { name: name.into(), sources, ..Default::default() })
    }

    #[test]
    fn whole_names_count_and_parts_do_not() {
        for name in [
            "/norm",
            "/a + /norm",
            "PWN(/norm, /b)",
            "/norm_myl0_4",
            "/norm [profile 3]",
            "(Unnamed Layer* 3) [Softmax]",
        ] {
            assert!(held(name, &[]), "{name}");
        }
        for name in ["/norm_1", "/layers.10/norm", "/norm/Mul", "x/norm", "__myl_MulAdd"] {
            assert!(!held(name, &[]), "{name}");
        }
        assert!(held("__myl_MulAdd_myl0_1", &["/a", "/norm"]));
    }
}
