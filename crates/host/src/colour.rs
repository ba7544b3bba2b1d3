/*!
Colours of the words that judge: on a terminal only, and not where `NO_COLOR` is set.
*/

use std::borrow::Cow;
use std::io::IsTerminal;

use crate::printable::printable;

const RED: &str = "1;31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// Words that are coloured wherever they stand.
const WORDS: [(&str, &str); 7] = [
    ("INVALID", RED),
    ("FAILED", RED),
    ("WORSE", RED),
    ("MISSING", RED),
    ("INCOMPLETE", RED),
    ("VALID", GREEN),
    ("SKIPPED", YELLOW),
];

/// What is coloured at the beginning of a line.
const BEGINNINGS: [(&str, &str, &str); 8] = [
    ("", "Error:", RED),
    ("", "[ERROR]", RED),
    ("", "[WARN]", YELLOW),
    ("", "ok ", GREEN),
    ("", "skipped ", YELLOW),
    ("  ", "ok ", GREEN),
    ("  ", "warning ", YELLOW),
    ("  ", "missing ", RED),
];

/// Whether colours are wanted on this stream: a terminal that can show them, and no `NO_COLOR`.
pub fn are_wanted(stream: &impl IsTerminal) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !set("NO_COLOR") && !dumb
}

/// Text for this stream: printable, with colours where they are wanted.
pub fn shown<'t>(text: &'t str, stream: &impl IsTerminal) -> Cow<'t, str> {
    let text = printable(text);
    match are_wanted(stream) {
        true => Cow::Owned(painted(&text)),
        false => text,
    }
}

/// The text with codes of colours.
fn painted(text: &str) -> String {
    text.split_inclusive('\n').map(painted_line).collect()
}

fn painted_line(line: &str) -> String {
    for (indent, word, colour) in BEGINNINGS {
        if let Some(rest) = line.strip_prefix(indent).and_then(|line| line.strip_prefix(word)) {
            return format!("{indent}{}{}", coloured(word, colour), painted_words(rest));
        }
    }
    painted_words(line)
}

fn painted_words(text: &str) -> String {
    let end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let paint = |piece: &str| {
        let word = piece.trim_end_matches(end);
        match WORDS.iter().find(|(known, _)| *known == word) {
            Some((_, colour)) => format!("{}{}", coloured(word, colour), &piece[word.len()..]),
            None => piece.to_owned(),
        }
    };
    text.split_inclusive(end).map(paint).collect()
}

fn coloured(word: &str, colour: &str) -> String {
    format!("\u{1b}[{colour}m{word}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_and_beginnings_are_coloured_and_nothing_else() {
        assert_eq!(painted("a INVALID, b"), "a \u{1b}[1;31mINVALID\u{1b}[0m, b");
        assert_eq!(painted("VALID\nx"), "\u{1b}[32mVALID\u{1b}[0m\nx");
        assert_eq!(painted("  ok       disk"), "  \u{1b}[32mok \u{1b}[0m      disk");
        for plain in ["IS_INVALID INVALIDATED invalid", "an Error: x", "it is ok now", ""] {
            assert_eq!(painted(plain), plain);
        }
    }
}
