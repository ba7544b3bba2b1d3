/*!
File names of an object and model: unique, and within the limit of file systems.

`pytorch/segtorch/file_stem.py` builds the same names.
*/

use sha2::{Digest, Sha256};

/// Stands between clip and object.
const OBJECT: &str = "__obj";
/// Stands before a hash.
const HASHED: char = '~';
/// Digits of the hash.
const DIGITS: usize = 16;
/// Most bytes of a name. File systems allow 255, endings (`.json`, `.mp4`) included.
const MOST: usize = 240;
/// Bytes that a cut clip's name keeps, and a cut object's.
const KEPT: usize = 80;

/// The beginning of the names.
///
/// `a__obj1` with object `2` and `a` with object `1__obj2` would be the same, so such names have a
/// hash; so have those that look like one with a hash.
pub(super) fn of(video: &str, object: &str, model: &str) -> String {
    let plain = format!("{video}{OBJECT}{object}__{model}");
    let odd = |name: &str| name.contains(OBJECT) || name.contains(HASHED);
    if plain.len() <= MOST && !odd(video) && !odd(object) {
        return plain;
    }
    // A clip's name has no zero in it.
    let hash = format!("{:x}", Sha256::digest(format!("{video}\0{object}")));
    let hash = hash.get(..DIGITS).unwrap_or(&hash);
    format!("{}{OBJECT}{}{HASHED}{hash}__{model}", cut(video), cut(object))
}

/// The first bytes of a name, as far as they are whole letters.
fn cut(name: &str) -> &str {
    let mut end = name.len().min(KEPT);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_stay_as_they_are() {
        assert_eq!(of("sav_000001", "000", "m_points"), "sav_000001__obj000__m_points");
        assert_eq!(of("a_", "1", "m"), "a___obj1__m");
        // As the predecessor's longest.
        assert_eq!(of(&"v".repeat(200), "000", "m").len(), 200 + 5 + 3 + 3);
    }

    #[test]
    fn no_two_objects_share_a_name() {
        let mut names = vec![
            of("a", "1__obj2", "m"),
            of("a__obj1", "2", "m"),
            of("a__obj1__obj2", "", "m"),
            of("a", "1", "m"),
            of(&"v".repeat(250), "0", "m"),
            of(&"v".repeat(251), "0", "m"),
            of("v", &"0".repeat(250), "m"),
        ];
        // What has the name of a hashed one is hashed itself.
        let hashed = names[1].strip_prefix("a__obj1__obj").unwrap();
        names.push(of("a__obj1", hashed.strip_suffix("__m").unwrap(), "m"));
        names.push(of("a", "1__obj2~0123456789abcdef", "m"));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }

    #[test]
    fn long_names_fit_and_cut_no_letter_in_two() {
        let name = of(&"ä".repeat(127), &"ö".repeat(127), "sam2_base_points");
        assert!(name.len() <= MOST, "{}", name.len());
        assert!(name.starts_with(&"ä".repeat(40)) && name.contains("__objö"), "{name}");
        assert_eq!(of("x__obj", "~", "m"), "x__obj__obj~~054c02b587e4e68e__m");
    }
}
