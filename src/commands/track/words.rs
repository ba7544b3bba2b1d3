/*!
Prompts as words of the command line: `[ID:]X,Y[,-]`, `[ID:]X0,Y0,X1,Y1`, `[ID:]FILE`.
*/

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::track::job::Wanted;
use host::UsageError;
use vos::prompt::Click;

/// A click with its object.
pub type ClickWords = (u8, Click);
/// A box with its object.
pub type BoxWords = (u8, [f32; 4]);
/// A file or folder with its object.
pub type PathWords = (u8, PathBuf);

/// The object of a prompt without a number.
const FIRST: u8 = 1;

/// Divides `2:rest` into 2 and `rest`. Without digits and a colon in front all is the rest.
fn object_of(text: &str) -> Result<(u8, &str), String> {
    match text.split_once(':') {
        Some((id, rest)) if !id.is_empty() && id.bytes().all(|digit| digit.is_ascii_digit()) => {
            match id.parse() {
                Ok(id) if id > 0 => Ok((id, rest)),
                _ => Err(format!("object {id} is out of range; number objects from 1 to 255")),
            }
        }
        _ => Ok((FIRST, text)),
    }
}

fn numbers<const N: usize>(words: &[&str]) -> Option<[f32; N]> {
    let parsed: Option<Vec<f32>> = words
        .iter()
        .map(|word| word.trim().parse().ok().filter(|number: &f32| number.is_finite()))
        .collect();
    parsed?.try_into().ok()
}

/// Reads `[ID:]X,Y[,-]`.
///
/// # Errors
/// A sentence.
pub fn parse_click(text: &str) -> Result<ClickWords, String> {
    let (id, rest) = object_of(text)?;
    let mut words: Vec<&str> = rest.split(',').collect();
    let positive = match words.as_slice() {
        [_, _, sign] => {
            let positive = match sign.trim() {
                "+" => true,
                "-" => false,
                _ => return Err(no_click(text)),
            };
            words.pop();
            positive
        }
        _ => true,
    };
    let [x, y] = numbers(&words).ok_or_else(|| no_click(text))?;
    Ok((id, Click { x, y, positive }))
}

fn no_click(text: &str) -> String {
    format!("{text:?} is not [ID:]X,Y or [ID:]X,Y,-; write for example 320,180 or 2:320,180,-")
}

/// Reads `[ID:]X0,Y0,X1,Y1`.
///
/// # Errors
/// A sentence.
pub fn parse_box(text: &str) -> Result<BoxWords, String> {
    let (id, rest) = object_of(text)?;
    let words: Vec<&str> = rest.split(',').collect();
    let corners: [f32; 4] = numbers(&words).ok_or_else(|| {
        format!("{text:?} is not [ID:]X0,Y0,X1,Y1; write for example 10,20,90,200")
    })?;
    let [left, top, right, bottom] = corners;
    if left >= right || top >= bottom {
        let ((x0, x1), (y0, y1)) =
            ((left.min(right), left.max(right)), (top.min(bottom), top.max(bottom)));
        let meant = match x0 < x1 && y0 < y1 {
            true => format!("did you mean {x0},{y0},{x1},{y1}?"),
            false => "write for example 10,20,90,200".to_owned(),
        };
        return Err(format!(
            "{text:?} is an empty box: left must be less than right, and top less than bottom; {meant}"
        ));
    }
    Ok((id, corners))
}

/// Reads `[ID:]PATH`.
///
/// # Errors
/// A sentence.
pub fn parse_path(text: &str) -> Result<PathWords, String> {
    let (id, rest) = object_of(text)?;
    match rest {
        "" => Err(format!("{text:?} names no file; write for example 2:mask.png")),
        path => Ok((id, path.into())),
    }
}

/// The objects of all prompts, by rising id.
///
/// # Errors
/// [`UsageError`]: there is no prompt, an object has two boxes or masks, a mask and clicks, or only
/// negative clicks.
pub fn objects(
    clicks: &[ClickWords],
    boxes: &[BoxWords],
    masks: &[PathWords],
    truths: &[PathWords],
) -> Result<Vec<Wanted>> {
    let mut all: BTreeMap<u8, Wanted> = BTreeMap::new();
    let ids = clicks.iter().map(|(id, _)| id).chain(boxes.iter().map(|(id, _)| id));
    for id in ids.chain(masks.iter().map(|(id, _)| id)) {
        all.insert(*id, Wanted { id: *id, ..Wanted::default() });
    }
    if all.is_empty() {
        return usage(
            "no prompt: say what to track, for example --click 320,180 (pixels from the top left \
             corner), --box 10,20,90,200, or --mask FILE.png"
                .to_owned(),
        );
    }
    for (id, click) in clicks {
        all.entry(*id).or_default().clicks.clicks.push(*click);
    }
    for (id, corners) in boxes {
        if all.entry(*id).or_default().clicks.bbox.replace(*corners).is_some() {
            return usage(format!(
                "object {id} has two boxes; give one, or number the other object: --box {}:…",
                free(&all)
            ));
        }
    }
    for (id, file) in masks {
        if all.entry(*id).or_default().mask.replace(file.clone()).is_some() {
            return usage(format!(
                "object {id} has two masks; give one, or number the other object: --mask {}:FILE",
                free(&all)
            ));
        }
    }
    for (id, dir) in truths {
        match all.get_mut(id) {
            Some(object) => object.truth = Some(dir.clone()),
            None => {
                return usage(format!(
                    "--truth {id}:{}: there is no object {id}; give it a prompt, such as --click \
                     {id}:320,180",
                    dir.display()
                ));
            }
        }
    }
    for Wanted { id, clicks, mask, .. } in all.values() {
        if mask.is_some() && clicks.points() > 0 {
            return usage(format!(
                "object {id} has a mask and clicks or a box; SAM 2 takes one or the other. Leave \
                 one out, or number the other object"
            ));
        }
        if mask.is_none() && clicks.bbox.is_none() && clicks.clicks.iter().all(|c| !c.positive) {
            return usage(format!(
                "object {id} has negative clicks only; add one on the object: --click {id}:X,Y"
            ));
        }
    }
    Ok(all.into_values().collect())
}

/// The smallest number that no object has.
fn free(all: &BTreeMap<u8, Wanted>) -> u8 {
    (1..=u8::MAX).find(|id| !all.contains_key(id)).unwrap_or(u8::MAX)
}

fn usage<T>(message: String) -> Result<T> {
    bail!(UsageError(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_before_a_colon_is_the_object() {
        let click = |x, y, positive| Click { x, y, positive };
        assert_eq!(parse_click("320,180").unwrap(), (1, click(320.0, 180.0, true)));
        assert_eq!(parse_click("12:0.5, 7,-").unwrap(), (12, click(0.5, 7.0, false)));
        assert_eq!(parse_click("1:3,4,+").unwrap(), (1, click(3.0, 4.0, true)));
        assert_eq!(parse_box("2:1,2,3,4").unwrap(), (2, [1.0, 2.0, 3.0, 4.0]));
        assert_eq!(parse_path("3:a:b.png").unwrap(), (3, "a:b.png".into()));
        assert_eq!(parse_path("c:/a.png").unwrap(), (1, "c:/a.png".into()));
    }

    #[test]
    fn other_words_are_refused_with_an_example() {
        for text in ["", "3", "3,4,5", "a,b", "3,4,-,-", "nan,4", "1:", "inf,3"] {
            assert!(parse_click(text).unwrap_err().contains("320,180"), "{text}");
        }
        for text in ["1,2,3", "1,2,3,x", "1,9,2,9"] {
            assert!(parse_box(text).unwrap_err().contains("10,20,90,200"), "{text}");
        }
        assert!(parse_box("5,5,1,9").unwrap_err().contains("did you mean 1,5,5,9?"));
        for text in ["0:3,4", "256:3,4"] {
            assert!(parse_click(text).unwrap_err().contains("from 1 to 255"), "{text}");
        }
        assert!(parse_path("2:").unwrap_err().contains("2:mask.png"));
    }

    #[test]
    fn prompts_of_an_object_come_together_and_contradictions_are_named() {
        let clicks = ["2:9,9", "5,5", "2:1,1,-"].map(|text| parse_click(text).unwrap());
        let boxes = [parse_box("1:0,0,9,9").unwrap()];
        let found = objects(&clicks, &boxes, &[], &[]).unwrap();
        let points = |at: usize| (found[at].id, found[at].clicks.points());
        assert_eq!([points(0), points(1)], [(1, 3), (2, 2)]);
        let said = |clicks: &[&str], boxes: &[&str], masks: &[&str], truths: &[&str]| {
            let clicks: Vec<_> = clicks.iter().map(|text| parse_click(text).unwrap()).collect();
            let boxes: Vec<_> = boxes.iter().map(|text| parse_box(text).unwrap()).collect();
            let paths = |all: &[&str]| -> Vec<PathWords> {
                all.iter().map(|text| parse_path(text).unwrap()).collect()
            };
            let error = objects(&clicks, &boxes, &paths(masks), &paths(truths)).unwrap_err();
            assert!(error.downcast_ref::<UsageError>().is_some());
            error.to_string()
        };
        assert!(said(&[], &[], &[], &[]).contains("no prompt"));
        assert!(said(&["1,1,-"], &[], &[], &[]).contains("negative clicks only"));
        assert!(said(&["1,1"], &[], &["m.png"], &[]).contains("a mask and clicks"));
        assert!(said(&[], &["0,0,1,1", "0,0,2,2"], &[], &[]).contains("--box 2:"));
        assert!(said(&[], &[], &["3:a", "3:b"], &[]).contains("--mask 1:FILE"));
        assert!(said(&["1,1"], &[], &[], &["2:t"]).contains("there is no object 2"));
    }
}
