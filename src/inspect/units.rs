/*!
Numbers and pairs as text.
*/

use std::fmt::Write;

/// Pairs as two aligned columns without lines.
pub(super) fn facts(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (name, value) in pairs {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {name:width$}  {value}");
    }
    out
}

pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// "sm_86, sm_89".
pub(super) fn capabilities(sm: &[u32]) -> String {
    sm.iter().map(|sm| format!("sm_{sm}")).collect::<Vec<_>>().join(", ")
}
