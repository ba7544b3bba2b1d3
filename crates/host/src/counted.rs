/*!
Numbers of things in sentences: "1 row", "2 rows", "2 passes".
*/

/// The number with its noun, in the plural where it is not one.
pub fn counted(count: usize, noun: &str) -> String {
    match (count, noun.ends_with('s')) {
        (1, _) => format!("1 {noun}"),
        (_, true) => format!("{count} {noun}es"),
        (_, false) => format!("{count} {noun}s"),
    }
}

/// "is" of one thing, "are" of several.
pub fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "row")), ["0 rows", "1 row", "2 rows"]);
        assert_eq!(counted(3, "pass"), "3 passes");
        assert_eq!([1, 2].map(are), ["is", "are"]);
    }
}
