/*!
Paths in a job, which is JSON and so UTF-8: one that is not is refused by its name, where serde
would not say which it was.

For fields: `#[serde(serialize_with = "crate::child::utf8::path")]`, or `optional`.
*/

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// A path as text.
///
/// # Errors
/// It is not UTF-8.
pub fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    path.to_str().ok_or_else(|| serde::ser::Error::custom(refused(path)))?.serialize(serializer)
}

/// A path as text, or none.
///
/// # Errors
/// It is not UTF-8.
pub fn optional<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(there) => self::path(there, serializer),
        None => serializer.serialize_none(),
    }
}

fn refused(path: &Path) -> String {
    format!(
        "the path {path:?} is not UTF-8, and worker processes take no other; rename it, or name \
         it by a symbolic link"
    )
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[derive(Serialize)]
    struct Job {
        #[serde(serialize_with = "path")]
        plan: PathBuf,
        #[serde(serialize_with = "optional")]
        library: Option<PathBuf>,
    }

    #[test]
    fn a_path_that_is_not_utf8_is_named_and_others_are_text() {
        let odd = || PathBuf::from(std::ffi::OsStr::from_bytes(b"out\xff"));
        for (plan, library) in [(odd(), None), ("a".into(), Some(odd()))] {
            let error = crate::child::check(&Job { plan, library }).unwrap_err().to_string();
            assert!(error.starts_with(r#"the path "out\xFF" is not UTF-8"#), "{error}");
        }
        let job = Job { plan: "ä".into(), library: None };
        assert_eq!(serde_json::to_string(&job).unwrap(), r#"{"plan":"ä","library":null}"#);
        crate::child::check(&job).unwrap();
    }
}
