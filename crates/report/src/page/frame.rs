/*!
The page around the sections: head, policy, style, script, title, contents.
*/

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::chart::{DARK, LIGHT, SERIES, page_rules};
use crate::content::Report;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The whole page.
pub fn page(report: &Report, title: &str, contents: &[(&str, &str)], body: &Markup) -> String {
    let rows: usize = report.sources.iter().map(|source| source.rows).sum();
    let mut from: Vec<String> = Vec::new();
    let mut files: Vec<&str> = report.compared.iter().map(|model| model.path.as_str()).collect();
    files.dedup();
    match files.len() {
        0 => {}
        1 => from.push("1 comparison".to_owned()),
        more => from.push(format!("{more} comparisons")),
    }
    match report.sources.as_slice() {
        [] if from.is_empty() => from.push("no rows".to_owned()),
        [] => {}
        [one] => from.push(format!("{rows} rows of {}", one.label)),
        more => from.push(format!("{rows} rows of {} runs", more.len())),
    }
    let from = from.join(" and ");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(format!("segtrt {}", report.segtrt));
                title { (title) }
                // Without it the browser requests an icon.
                link rel="icon" href="data:,";
                style { (PreEscaped(style())) }
            }
            body {
                a.skip href="#main" { "Skip to the report" }
                header {
                    div.title {
                        h1 { (title) }
                        button #theme type="button" hidden { "Dark or light" }
                    }
                    p.muted { (from) " · made " time { (report.generated) } " by \
                        segtrt " (report.segtrt) }
                    nav aria-label="Contents" {
                        ul { @for (id, name) in contents { li { a href=(format!("#{id}")) { (name) } } } }
                    }
                }
                main #main { (body) }
                footer { p.muted { "This file is self-contained and fetches nothing." } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// Colours, the page's rules, the plots' rules.
fn style() -> String {
    let (light, dark) = (LIGHT.variables(), DARK.variables());
    format!(
        ":root{{{light}color-scheme:light}}\
         @media (prefers-color-scheme:dark){{:root{{{dark}color-scheme:dark}}}}\
         :root[data-theme=light]{{{light}color-scheme:light}}\
         :root[data-theme=dark]{{{dark}color-scheme:dark}}\
         @media print{{:root,:root[data-theme]{{{light}color-scheme:light}}}}\
         {STYLE}{}{}",
        swatches(),
        page_rules()
    )
}

/// The colours of series in tables.
fn swatches() -> String {
    (0..SERIES).map(|at| format!(".swatch.c{at}{{background:var(--c{at})}}")).collect()
}

fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; img-src data:; \
         base-uri 'none'; form-action 'none'"
    )
}
