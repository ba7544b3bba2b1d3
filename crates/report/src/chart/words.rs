/*!
Approximate width of words for the layout of a legend. The page uses the reader's font, so the exact
width is unknown.
*/

/// Width of `text` at `size`, a little more than in common fonts.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().map(|c| letter(c) * size).sum()
}

/// Width of a letter in parts of the font size.
fn letter(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '\u{a0}' | 'I' | '('
        | ')' => 0.32,
        'f' | 't' | 'r' | '/' | '-' | '·' => 0.40,
        'm' | 'w' | 'M' | 'W' | '%' | '…' | '@' => 0.90,
        'A'..='Z' | '&' | '_' => 0.68,
        c if (c as u32) < 0x2E80 => 0.57,
        // Ideographs and emoji fill their square.
        _ => 1.05,
    }
}

/// `text`, shortened with an ellipsis if it is wider than `room` at `size`.
pub fn fit(text: &str, room: f64, size: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = letter('…') * size;
    for c in text.chars() {
        used += letter(c) * size;
        if used > room {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_and_short_ones_are_not() {
        assert_eq!(fit("edgetam", 100.0, 12.0), "edgetam");
        let cut = fit(&"sam2_large_points ".repeat(9), 100.0, 12.0);
        assert!(cut.ends_with('…') && width(&cut, 12.0) <= 100.0, "{cut}");
    }
}
