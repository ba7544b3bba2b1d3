/*!
Finds a wheel in a package index, as pip does: the page of the package links each file.
*/

use std::time::Duration;

use anyhow::{Result, bail};

use crate::download;

/// The usual index.
pub const INDEX: &str = "https://pypi.org/simple";

/// The address of `file` of `package`.
///
/// # Errors
/// The index cannot be read, or does not have the file.
pub fn address(index: &str, package: &str, file: &str, stall: Duration) -> Result<String> {
    let page = format!("{}/{package}/", index.trim_end_matches('/'));
    let text = match download::text(&page, stall) {
        Ok(text) => text,
        Err(why) => bail!("cannot read the package index {page}: {why}"),
    };
    match link(&page, &text, file) {
        Some(address) => Ok(address),
        None => {
            bail!("the package index {page} has no {file}; take another index with --mirror URL")
        }
    }
}

/// The link to `file` on a page, as a whole address without a fragment.
fn link(page: &str, text: &str, file: &str) -> Option<String> {
    let links = text.split("href=").skip(1).filter_map(|rest| {
        let quote = rest.chars().next().filter(|first| ['"', '\''].contains(first))?;
        rest[1..].split(quote).next()
    });
    let bare = |link: &str| link.split(['#', '?']).next().unwrap_or_default().to_owned();
    let found = links.map(bare).find(|link| link.rsplit('/').next() == Some(file))?;
    Some(absolute(page, &found))
}

/// A link relative to a page whose address ends with a slash.
fn absolute(page: &str, link: &str) -> String {
    if link.contains("://") {
        return link.to_owned();
    }
    let scheme = page.find("://").map_or(0, |at| at + 3);
    let host = page[scheme..].find('/').map_or(page.len(), |at| scheme + at);
    if let Some(rest) = link.strip_prefix("//") {
        return format!("{}{rest}", &page[..scheme]);
    }
    if link.starts_with('/') {
        return format!("{}{link}", &page[..host]);
    }
    let mut parts: Vec<&str> = page[host..].trim_matches('/').split('/').collect();
    for part in link.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." => {}
            part => parts.push(part),
        }
    }
    format!("{}/{}", &page[..host], parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_as_browsers_do() {
        let page = "https://host:8/simple/x/";
        let text = |link: &str| format!("<a href='y.whl'>y</a>\n<a data-x=\"1\" href=\"{link}\">");
        let found = |link: &str| link_of(page, &text(link));
        assert_eq!(found("https://f/a/x.whl#sha256=1"), "https://f/a/x.whl");
        assert_eq!(found("../../packages/x.whl?a=b"), "https://host:8/packages/x.whl");
        assert_eq!(found("/p/x.whl"), "https://host:8/p/x.whl");
        assert_eq!(found("x.whl"), "https://host:8/simple/x/x.whl");
        assert_eq!(found("//f/x.whl"), "https://f/x.whl");
        assert_eq!(link(page, &text("other-x.whl"), "x.whl"), None);
    }

    fn link_of(page: &str, text: &str) -> String {
        link(page, text, "x.whl").unwrap()
    }
}
