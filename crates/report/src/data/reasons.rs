/*!
Reasons of INVALID rows, and rows without numbers, folded by their codes.

The findings of a recorded pass have codes. A table alone has them in the text of its reason,
`code: sentence; code: sentence`.
*/

use super::group::{Reason, ReasonCode};
use crate::input::{RecordedPass, ResultRow, Validity};
use vos::record::Weight;

/// Texts with their number of rows, the most frequent first.
pub fn texts(rows: &[&ResultRow]) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::new();
    for (row, state) in rejected(rows) {
        let text = row.why().unwrap_or("no reason given").to_owned();
        match reasons.iter_mut().find(|known| known.state == state && known.text == text) {
            Some(known) => known.rows += 1,
            None => reasons.push(Reason { state, text, rows: 1 }),
        }
    }
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.rows));
    reasons
}

/// Codes with their number of rows, the most frequent first.
pub fn codes(rows: &[&ResultRow], passes: &[&RecordedPass]) -> Vec<ReasonCode> {
    let mut found: Vec<ReasonCode> = Vec::new();
    for (row, state) in rejected(rows) {
        let mut of_row: Vec<(String, String)> = Vec::new();
        let key = row.key();
        let run = row.number("run").map(|run| run as u64);
        let is_of_row = |pass: &&&RecordedPass| {
            (pass.video.as_str(), pass.object.as_str(), pass.model.as_str()) == key
                && run.is_none_or(|run| run == pass.run)
        };
        if !row.is_unproven() && state == Validity::Invalid {
            let findings = passes.iter().filter(is_of_row).flat_map(|pass| &pass.findings);
            for finding in findings.filter(|finding| finding.weight == Weight::Fault) {
                of_row.push((finding.code.clone(), finding.sentence.clone()));
            }
        }
        if of_row.is_empty() {
            of_row = parts(row.why().unwrap_or("no reason given"));
        }
        // A code counts once a row, with its worst sentence.
        let mut counted: Vec<String> = Vec::new();
        for (code, sentence) in of_row {
            let entry = found.iter_mut().find(|known| known.state == state && known.code == code);
            let is_new = !counted.contains(&code);
            match entry {
                Some(known) => {
                    known.rows += usize::from(is_new);
                    if percent(&sentence) > percent(&known.worst) {
                        known.worst = sentence;
                    }
                }
                None => {
                    found.push(ReasonCode { state, code: code.clone(), rows: 1, worst: sentence })
                }
            }
            counted.push(code);
        }
    }
    found.sort_by_key(|code| std::cmp::Reverse(code.rows));
    found
}

fn rejected<'a>(rows: &[&'a ResultRow]) -> impl Iterator<Item = (&'a ResultRow, Validity)> {
    let states: Vec<(&ResultRow, Validity)> =
        rows.iter().map(|row| (*row, row.validity())).collect();
    states
        .into_iter()
        .filter(|(_, state)| matches!(state, Validity::Invalid | Validity::Unmeasured))
}

/// Codes and sentences of a text; the whole text as a code if it has none.
fn parts(text: &str) -> Vec<(String, String)> {
    let is_code = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b' '))
            && word.split(' ').count() <= 2
    };
    let mut parts: Vec<(String, String)> = Vec::new();
    for piece in text.split("; ") {
        match (piece.split_once(": "), parts.last_mut()) {
            (Some((code, sentence)), _) if is_code(code) => {
                parts.push((code.to_owned(), sentence.to_owned()));
            }
            // A sentence may have a semicolon.
            (_, Some(last)) => last.1 = format!("{}; {piece}", last.1),
            (_, None) => parts.push((piece.to_owned(), String::new())),
        }
    }
    parts
}

/// The first percentage of a sentence.
fn percent(sentence: &str) -> f64 {
    let words: Vec<&str> = sentence.split(' ').collect();
    let of = |pair: &[&str]| (pair[1].starts_with('%')).then(|| pair[0].parse().ok()).flatten();
    words.windows(2).find_map(of).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tables_reason_has_its_codes_taken_apart() {
        let text = "unsteady: the latencies spread by 13 % of their mean; stop other programs; \
                    drift: the second half was 16 % slower";
        let expected = [
            ("unsteady", "the latencies spread by 13 % of their mean; stop other programs"),
            ("drift", "the second half was 16 % slower"),
        ];
        let found = parts(text);
        let found: Vec<(&str, &str)> =
            found.iter().map(|(code, text)| (code.as_str(), text.as_str())).collect();
        assert_eq!(found, expected);
        assert_eq!(parts("no reason given"), [("no reason given".to_owned(), String::new())]);
        assert_eq!((percent(expected[0].1), percent("none")), (13.0, 0.0));
    }
}
