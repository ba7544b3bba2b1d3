/*!
The command line as the result files repeat it.
*/

/// The command line, for the files; the program by its name alone.
pub(super) fn command_line() -> String {
    let words = std::env::args().skip(1).map(|word| match word.contains([' ', '"']) {
        true => format!("{word:?}"),
        false => word,
    });
    std::iter::once("segtrt".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
