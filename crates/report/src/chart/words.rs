/*!
How wide words are, near enough to lay out a legend: the page's font is the reader's, so nobody
knows exactly.
*/

/// Width of `text` at `size`, somewhat more than in common fonts.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().map(|c| letter(c) * size).sum()
}

/// Parts of the font's size.
fn letter(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '\u{a0}' | 'I' | '('
        | ')' => 0.32,
        'f' | 't' | 'r' | '/' | '-' | '·' => 0.40,
        'm' | 'w' | 'M' | 'W' | '%' | '…' | '@' => 0.90,
        'A'..='Z' | '&' | '_' => 0.68,
        c if (c as u32) < 0x2E80 => 0.57,
        // Ideographs and pictures fill their square.
        _ => 1.05,
    }
}

/// `text`, cut with an ellipsis where it is wider than `room` at `size`.
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
