/*!
Text that others chose (names of clips and remote files, words of damaged files) on its way to a
terminal.

A name may hold an escape sequence that clears the screen, sets the window's title or types a
command into some terminals. `println!` and `eprintln!` of this library ([`crate::message`]) show
such characters instead of sending them, so that no message can forget it.
*/

use std::borrow::Cow;

/// The text with its control characters shown as `\u001b`, as JSON writes them, so that a JSON
/// document stays one. Line ends and tabs pass. Characters that reverse the direction of writing
/// are shown, too: they make one name look like another.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().map(|c| match is_hidden(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    });
    Cow::Owned(shown.collect())
}

fn is_hidden(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && !matches!(c, '\n' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_and_nothing_else_changes() {
        assert_eq!(
            printable("a\u{1b}]0;x\u{7}b\u{9b}2J\r\u{7f}"),
            "a\\u001b]0;x\\u0007b\\u009b2J\\u000d\\u007f"
        );
        assert_eq!(printable("gpj.\u{202e}exe"), "gpj.\\u202eexe");
        assert!(matches!(printable("Größe\tüber\n日本 é 🚀"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_json_document_keeps_its_meaning() {
        let name = "a\u{9b}\u{7f}\u{202e}\u{1b}\"";
        let document = serde_json::to_string(name).unwrap();
        let shown = printable(&document);
        assert!(!shown.chars().any(is_hidden));
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), name);
    }
}
