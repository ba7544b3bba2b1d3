/*!
`HOST:PATH` taken apart, and the path as a word that a POSIX shell expands as meant and no further.
*/

use std::fmt;
use std::str::FromStr;

use host::shell;

/// A place on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// As ssh takes it: `user@machine`, or a name of its configuration.
    pub host: String,
    /// Folder, or pattern of folders; relative to the home folder there.
    pub path: String,
}

/// Why a text is no `HOST:PATH`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {why}; expected HOST:PATH such as nvidia@jetson:nsight_experiment_x")]
pub struct BadRemote {
    text: String,
    why: &'static str,
}

impl FromStr for Remote {
    type Err = BadRemote;

    fn from_str(text: &str) -> Result<Self, BadRemote> {
        let bad = |why| BadRemote { text: text.to_owned(), why };
        // An IPv6 address has colons of its own, so it stands in brackets.
        let after_address = text.find(']').filter(|_| text.contains('[')).unwrap_or(0);
        let colon = text[after_address..].find(':').map(|at| at + after_address);
        let (host, path) = match colon {
            Some(colon) if !text[..colon].contains('/') => (&text[..colon], &text[colon + 1..]),
            _ => return Err(bad("names no machine")),
        };
        let host: String = host.chars().filter(|c| !matches!(c, '[' | ']')).collect();
        if host.is_empty() || host.ends_with('@') {
            return Err(bad("names no machine"));
        }
        // ssh would take it for an option.
        if host.starts_with('-') || host.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(bad("has no name of a machine before the colon"));
        }
        if path.is_empty() {
            return Err(bad("names no folder"));
        }
        if path.chars().any(char::is_control) {
            return Err(bad("has a control character in its path"));
        }
        if path.starts_with('~') && path != "~" && !path.starts_with("~/") {
            return Err(bad("names another user's home; write the whole path"));
        }
        Ok(Self { host, path: path.to_owned() })
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = self.host.contains(':');
        match brackets {
            true => write!(f, "[{}]:{}", self.host, self.path),
            false => write!(f, "{}:{}", self.host, self.path),
        }
    }
}

impl Remote {
    /// The path as one word of a POSIX shell: `*`, `?` and `[a-z]` match names, `~/` is the home
    /// folder, a backslash takes the next character as it is, and nothing else means anything.
    pub fn shell_word(&self) -> String {
        let (home, rest) = match self.path.strip_prefix('~') {
            Some(rest) => ("\"$HOME\"", rest),
            None => ("", self.path.as_str()),
        };
        let mut word = home.to_owned();
        let mut literal = String::new();
        let mut at = rest;
        while let Some(c) = at.chars().next() {
            let mut taken = c.len_utf8();
            let bare = match c {
                '*' | '?' => Some(c.to_string()),
                '[' => bracket(at).map(str::to_owned),
                _ => None,
            };
            if let Some(bare) = bare {
                taken = bare.len();
                push_literal(&mut word, &mut literal);
                word.push_str(&bare);
            } else if let ('\\', Some(next)) = (c, at[taken..].chars().next()) {
                taken += next.len_utf8();
                literal.push(next);
            } else {
                literal.push(c);
            }
            at = &at[taken..];
        }
        push_literal(&mut word, &mut literal);
        word
    }
}

/// The bracket expression that a text begins with, if its members are plain characters and ranges.
fn bracket(text: &str) -> Option<&str> {
    let end = text.find(']')?;
    let members = &text[1..end];
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '!' | ',');
    (!members.is_empty() && members.chars().all(plain)).then(|| &text[..=end])
}

/// Adds a text that the shell takes as it is.
fn push_literal(word: &mut String, literal: &mut String) {
    if !literal.is_empty() {
        word.push_str(&shell::word(&std::mem::take(literal)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Remote, String> {
        text.parse::<Remote>().map_err(|error| error.to_string())
    }

    #[test]
    fn machine_and_path_are_told_apart() {
        for (text, host, path) in [
            ("jetson:/data/x", "jetson", "/data/x"),
            ("nvidia@10.0.0.7:runs/a b", "nvidia@10.0.0.7", "runs/a b"),
            ("a:b:c", "a", "b:c"),
            ("me@[fe80::1]:/x", "me@fe80::1", "/x"),
            ("[::1]:~/x", "::1", "~/x"),
        ] {
            let remote = parse(text).unwrap();
            assert_eq!((remote.host.as_str(), remote.path.as_str()), (host, path), "{text}");
        }
        assert_eq!(parse("[::1]:/x").unwrap().to_string(), "[::1]:/x");
    }

    #[test]
    fn what_is_no_place_is_refused_with_the_reason() {
        for (text, why) in [
            ("/data/x", "names no machine"),
            ("./a:b", "names no machine"),
            (":/x", "names no machine"),
            ("me@:/x", "names no machine"),
            ("jetson:", "names no folder"),
            ("-oProxyCommand=evil:/x", "has no name of a machine"),
            ("a b:/x", "has no name of a machine"),
            ("a:/x\ny", "control character"),
            ("a:~root/x", "another user's home"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why) && error.contains("expected HOST:PATH"), "{text}: {error}");
        }
    }

    #[test]
    fn only_patterns_mean_something_to_the_shell() {
        for (path, word) in [
            ("/data/x", "/data/x"),
            ("/a b/$(rm -rf ~);`x`", "'/a b/$(rm -rf ~);`x`'"),
            ("it's", "\"it's\""),
            ("/e/exp_*/run?", "/e/exp_*/run?"),
            ("/e/[0-9]x[!ab]", "/e/[0-9]x[!ab]"),
            ("/e/[$(x)]", "'/e/[$(x)]'"),
            ("/e/[", "'/e/['"),
            (r"/e/a\*b", "'/e/a*b'"),
            (r"/e/a\", r#""/e/a\\""#),
            ("~/runs", "\"$HOME\"/runs"),
            ("~", "\"$HOME\""),
            ("/ü*", "'/ü'*"),
        ] {
            let remote = Remote { host: "h".into(), path: path.into() };
            assert_eq!(remote.shell_word(), word, "{path}");
        }
    }
}
