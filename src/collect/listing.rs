/*!
The other machine's answer to the listing: folders with files and checksums.
*/

use std::io::{BufReader, Read};
use std::path::{Component, Path};

use anyhow::{Context, Result, bail};

use super::ssh::{TooMuch, skip_noise};

/// Bytes that a listing may have: some 400,000 files.
const MOST_LISTING: u64 = 64 << 20;

/// One folder there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Folder {
    /// Its whole path, without symbolic links.
    pub path: String,
    /// Its files.
    pub files: Vec<ListedFile>,
    /// Entries that are neither files nor folders; they are not fetched.
    pub links: usize,
    /// Names that cannot be taken over, with the reason.
    pub refused: Vec<String>,
    /// Something in it could not be read.
    pub incomplete: bool,
}

/// One file there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedFile {
    /// Relative to its folder, with `/` between the parts.
    pub name: String,
    /// sha256 in hex; `None` where that machine cannot tell.
    pub sha256: Option<String>,
}

impl Folder {
    /// The last part of its path: its name here.
    ///
    /// # Errors
    /// The root of that machine has none.
    pub(super) fn name(&self) -> Result<String> {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        if !is_plain(name) || name.contains('/') {
            bail!("{:?} has no name that a folder here can have; name another folder", self.path);
        }
        Ok(name.to_owned())
    }
}

/// A listing: the folders, and paths that are no folder there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub folders: Vec<Folder>,
    pub missing: Vec<String>,
}

/// Reads an answer.
///
/// # Errors
/// An answer that is cut off, is none, or is longer than any honest one.
pub(super) fn read(answer: impl Read) -> Result<Listing> {
    let mut answer = BufReader::new(answer);
    skip_noise(&mut answer)?;
    let mut body = Vec::new();
    answer.take(MOST_LISTING + 1).read_to_end(&mut body).context("cannot read what ssh gave")?;
    if body.len() as u64 > MOST_LISTING {
        bail!(TooMuch("its listing is longer than 64 MiB; name single result folders"));
    }
    parse(&body)
}

fn parse(body: &[u8]) -> Result<Listing> {
    let mut listing = Listing::default();
    let mut whole = false;
    for record in body.split(|byte| *byte == 0) {
        let text = String::from_utf8_lossy(record);
        match text.chars().next() {
            Some('D') => {
                listing.folders.push(Folder { path: text[1..].to_owned(), ..Folder::default() })
            }
            Some('E') => listing.missing.push(text[1..].to_owned()),
            Some('Z') => whole = true,
            None => {}
            Some(kind) => match listing.folders.last_mut() {
                Some(folder) => folder.add(kind, record)?,
                None => bail!("the listing begins with {text:?}, expected a folder"),
            },
        }
    }
    if !whole {
        bail!("the listing was cut off; the connection broke or find and sh failed there");
    }
    Ok(listing)
}

impl Folder {
    fn add(&mut self, kind: char, record: &[u8]) -> Result<()> {
        let file = match kind {
            'L' => {
                self.links += 1;
                return Ok(());
            }
            'X' => {
                self.incomplete = true;
                return Ok(());
            }
            'F' => record.get(1..).map(|name| (name, None)),
            _ => hashed(record),
        };
        let Some((name, sha256)) = file else {
            bail!(
                "the listing holds {:?}, which is no file with its sha256",
                String::from_utf8_lossy(record)
            );
        };
        match std::str::from_utf8(name).ok().and_then(|name| name.strip_prefix("./")) {
            Some(name) if is_plain(name) => {
                self.files.push(ListedFile { name: name.to_owned(), sha256 });
            }
            _ => self.refused.push(String::from_utf8_lossy(name).into_owned()),
        }
        Ok(())
    }
}

/// `HASH  NAME`, as sha256sum prints it (a star instead of the second blank means a binary file).
fn hashed(record: &[u8]) -> Option<(&[u8], Option<String>)> {
    let (hash, rest) = record.split_at_checked(64)?;
    let is_hex = hash.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let name = rest.strip_prefix(b"  ").or_else(|| rest.strip_prefix(b" *"))?;
    is_hex.then(|| (name, Some(String::from_utf8_lossy(hash).into_owned())))
}

/// A relative name that stays below its folder, without anything that terminals or later tools trip
/// over.
pub(super) fn is_plain(name: &str) -> bool {
    let parts = Path::new(name).components();
    !name.is_empty()
        && !name.chars().any(char::is_control)
        && !name.split('/').any(|part| part.is_empty() || part == ".")
        && !name.split('/').any(|part| part == super::receive::PART)
        && parts.into_iter().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::script::MARKER;

    fn parse(answer: &[u8]) -> Result<Listing> {
        read(answer)
    }

    fn answer(records: &[&str]) -> Vec<u8> {
        format!("Welcome to jetson!\n{MARKER}{}\0", records.join("\0")).into_bytes()
    }

    #[test]
    fn folders_files_and_what_is_missing_are_read() {
        let hash = "0".repeat(64);
        let (one, two) = (format!("{hash}  ./a b.csv"), format!("{hash} *./deep/c"));
        let listing =
            parse(&answer(&["D/data/x", "L./l", &one, &two, "Eno", "D/y", "F./f", "X/y", "Z"]));
        let listing = listing.unwrap();
        assert_eq!(listing.missing, ["no"]);
        let [x, y] = listing.folders.try_into().unwrap();
        assert_eq!((x.path.as_str(), x.links, x.incomplete), ("/data/x", 1, false));
        let names: Vec<_> = x.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["a b.csv", "deep/c"]);
        assert_eq!(x.files[0].sha256.as_deref(), Some(hash.as_str()));
        assert_eq!((y.files[0].sha256.clone(), y.incomplete), (None, true));
        assert_eq!(x.name().unwrap(), "x");
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        let hash = "0".repeat(64);
        let bad = [
            "./../x",
            "/etc/passwd",
            "./a/../../b",
            "./a\nb",
            "./a//b",
            "./a/./b",
            "./.segtrt-part",
        ];
        let records: Vec<String> = bad.iter().map(|name| format!("{hash}  {name}")).collect();
        let mut all = vec!["D/x"];
        all.extend(records.iter().map(String::as_str));
        all.push("Z");
        let listing = parse(&answer(&all)).unwrap();
        assert_eq!(listing.folders[0].files, []);
        assert_eq!(listing.folders[0].refused, bad);
        for path in ["/", "", "/x/..", "/x/a\u{7}"] {
            assert!(Folder { path: path.into(), ..Folder::default() }.name().is_err(), "{path:?}");
        }
    }

    #[test]
    fn an_answer_that_is_cut_off_or_none_is_an_error() {
        let error = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        assert!(error(b"This account is not available\n").contains("before the answer began"));
        assert!(error(&answer(&["D/x"])).contains("cut off"));
        assert!(error(&answer(&["D/x", "zzz", "Z"])).contains("no file with its sha256"));
        assert!(error(&answer(&["F./a", "Z"])).contains("expected a folder"));
    }
}
