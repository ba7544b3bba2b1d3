/*!
Words for a POSIX shell: what is written into scripts, sent to other machines, and shown to be
typed.
*/

/// A text as one word that stands for itself, in quotes where it needs them. A zero byte, which no
/// file's name and no argument can hold, stays as it is.
pub fn word(text: &str) -> String {
    let quoted = shlex::Quoter::new().allow_nul(true).quote(text);
    quoted.map_or_else(|_| text.to_owned(), std::borrow::Cow::into_owned)
}

/// A path as a shell word.
pub fn path(path: &std::path::Path) -> String {
    word(&path.to_string_lossy())
}

/// Words joined to a command line.
pub fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The command line of this process, with those of `more` that it lacks.
pub fn this_command(more: &[&str]) -> String {
    let typed = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let mut words: Vec<String> = typed.collect();
    for word in more {
        if !words.iter().any(|typed| typed == word) {
            words.push((*word).to_owned());
        }
    }
    line(words.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_shell_reads_every_word_as_it_was() {
        for text in
            ["orin", "it's", "a\\b", "$HOME `x` \"y\" \n z", "-n", "'", "*", "~/x", "ü!^", ""]
        {
            let script = format!("printf %s {}", word(text));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
        assert_eq!(line(["sbatch", "--gres=gpu:1", "a b"]), "sbatch '--gres=gpu:1' 'a b'");
    }
}
