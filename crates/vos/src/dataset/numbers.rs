/*!
Orders frames by the numbers in their names.

In SA-V a mask names its frame by number. If a frame file is missing, or names are not padded with
zeros, the N-th file by name is not frame N, and every later mask would be compared with another
frame. Such a clip is reordered or refused.
*/

use std::path::{Path, PathBuf};

use super::ClipError;

/// Sorts files by the numbers at the end of their stems if all have one and all begin alike;
/// otherwise leaves them. Returns whether they were sorted.
pub(super) fn sort(files: &mut [PathBuf]) -> bool {
    let prefix = files.first().and_then(|file| parts(file)).map(|(prefix, _)| prefix.to_owned());
    let Some(prefix) = prefix else { return false };
    if !files.iter().all(|file| parts(file).is_some_and(|(own, _)| own == prefix)) {
        return false;
    }
    // Files with the same number stay in the order of their names.
    files.sort_by_key(|file| parts(file).map(|(_, number)| number));
    true
}

/// The frames of the clip in `dir`, with frame N at index N.
///
/// # Errors
/// A name without a number, a missing number or a duplicate one.
pub(super) fn in_order(dir: &Path, mut files: Vec<PathBuf>) -> Result<Vec<PathBuf>, ClipError> {
    let refused = |what: String| ClipError::FrameNames { dir: dir.into(), what };
    if !sort(&mut files) {
        let first = files.first().and_then(|file| parts(file)).map(|(prefix, _)| prefix);
        let odd = files.iter().find(|file| {
            let own = parts(file).map(|(prefix, _)| prefix);
            own.is_none() || own != first
        });
        let name = odd.and_then(|file| file.file_name()).unwrap_or_default();
        return Err(refused(format!("{name:?} does not end in a frame number as the others do")));
    }
    // ffmpeg counts from 1 and writes a word before the number (frame_000001.jpg). A bare number is
    // the frame's index.
    let (prefix, first) = files.first().and_then(|file| parts(file)).unwrap_or_default();
    let from = u64::from(!prefix.is_empty() && first == 1);
    for (number, file) in (from..).zip(&files) {
        let found = parts(file).map_or(number, |(_, found)| found);
        let name = file.file_name().unwrap_or_default();
        if found > number {
            return Err(refused(format!("frame {number} is missing, the next file is {name:?}")));
        }
        if found < number {
            return Err(refused(format!("{name:?} is a second file of frame {found}")));
        }
    }
    Ok(files)
}

/// The text before the number at the end of a file's stem, and the number.
fn parts(file: &Path) -> Option<(&str, u64)> {
    let stem = file.file_stem()?.to_str()?;
    let prefix = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    Some((prefix, stem[prefix.len()..].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(names: &[&str]) -> Result<String, String> {
        let files = names.iter().map(|name| PathBuf::from("v").join(name)).collect();
        let name = |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().to_owned();
        in_order(Path::new("v"), files)
            .map(|files| files.iter().map(name).collect::<Vec<_>>().join(" "))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_frame_is_where_its_number_says() {
        for (names, expected) in [
            (&["00000.jpg", "00001.jpg", "00002.jpg"][..], "00000.jpg 00001.jpg 00002.jpg"),
            (
                &[
                    "0.jpg", "1.jpg", "10.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg", "6.jpg",
                    "7.jpg", "8.jpg", "9.jpg",
                ],
                "0.jpg 1.jpg 2.jpg 3.jpg 4.jpg 5.jpg 6.jpg 7.jpg 8.jpg 9.jpg 10.jpg",
            ),
            // As ffmpeg names them.
            (&["frame_000001.jpg", "frame_000002.jpg"], "frame_000001.jpg frame_000002.jpg"),
            (&["a_0.jpg", "a_1.jpg"], "a_0.jpg a_1.jpg"),
        ] {
            assert_eq!(ordered(names).unwrap(), expected);
        }
    }

    #[test]
    fn a_frame_that_is_missing_or_there_twice_is_named() {
        for (names, said) in [
            (
                &["00000.jpg", "00001.jpg", "00003.jpg"][..],
                r#"frame 2 is missing, the next file is "00003.jpg""#,
            ),
            (&["00001.jpg", "00002.jpg"], r#"frame 0 is missing, the next file is "00001.jpg""#),
            (&["0.jpg", "00000.jpg", "00001.jpg"], r#""00000.jpg" is a second file of frame 0"#),
            (&["frame_000001.jpg", "frame_000003.jpg"], "frame 2 is missing"),
            (&["00000.jpg", "00001.jpg", "cover.jpg"], r#""cover.jpg" does not end in"#),
            (&["00000.jpg", "b_00001.jpg"], r#""b_00001.jpg" does not end in"#),
            (&["99999999999999999999999.jpg"], "does not end in a frame number"),
        ] {
            let error = ordered(names).unwrap_err();
            assert!(error.contains(said) && error.contains("v: "), "{names:?}: {error}");
        }
    }
}
