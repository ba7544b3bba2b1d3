/*!
Cells of tables: sortable numbers, and the words for missing values.
*/

use maud::{Markup, html};

use crate::chart::thousands;
use crate::data::Group;
use crate::input::Validity;

/// The text of a missing number.
pub const NOT_MEASURED: &str = "not measured";

/// A number with its decimals, struck through if its rows are INVALID.
pub fn number(value: Option<f64>, digits: usize, struck: bool) -> Markup {
    match value {
        Some(value) => html! {
            td.n data-v=(value) { @if struck { s { (shown(value, digits)) } } @else { (shown(value, digits)) } }
        },
        None => html! { td.n.none { (NOT_MEASURED) } },
    }
}

/// A number with the given decimals, or with more if it would otherwise read as zero.
pub fn shown(value: f64, digits: usize) -> String {
    const MOST: usize = 6;
    let vanishes = |digits: usize| value != 0.0 && value.abs() < 0.5 * 10f64.powi(-(digits as i32));
    let digits = (digits..MOST).find(|digits| !vanishes(*digits)).unwrap_or(digits);
    thousands(value, digits)
}

/// A number for running text.
pub fn in_text(value: Option<f64>, digits: usize, unit: &str) -> String {
    value.map_or_else(
        || NOT_MEASURED.to_owned(),
        |value| format!("{} {unit}", shown(value, digits)).trim_end().to_owned(),
    )
}

/// A text, or the word for a missing one.
pub fn text(value: Option<&str>) -> Markup {
    match value {
        Some(value) => html! { td { (value) } },
        None => html! { td.none { "unknown" } },
    }
}

/// A coloured word with a sign, so that the colour is not needed.
pub fn badge(validity: Validity) -> Markup {
    let (class, sign) = match validity {
        Validity::Valid => ("good", "✓"),
        Validity::Invalid => ("bad", "✗"),
        Validity::Unjudged => ("warn", "?"),
        Validity::NoVerdict | Validity::Unmeasured => ("plain", "–"),
    };
    html! { span.badge.(class) { (sign) " " (validity.word()) } }
}

/// Number of rows of a group by validity.
pub fn badges(group: &Group) -> Markup {
    let counts = &group.counts;
    let shown = [
        (counts.valid, Validity::Valid),
        (counts.invalid, Validity::Invalid),
        (counts.unjudged, Validity::Unjudged),
        (counts.no_verdict, Validity::NoVerdict),
        (counts.rows - counts.measured, Validity::Unmeasured),
    ];
    html! {
        @for (count, validity) in shown.into_iter().filter(|(count, _)| *count > 0) {
            span.count { (count) " " (badge(validity)) } " "
        }
    }
}

/// A scrollable table, which the script can sort.
pub fn table(caption: &str, sortable: bool, head: &Markup, body: &Markup) -> Markup {
    html! {
        // Focusable, so that the keyboard can scroll it.
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table.sortable[sortable] {
                caption { (caption) }
                thead { tr { (head) } }
                tbody { (body) }
            }
        }
    }
}

/// Heads of columns: text columns first, numbers from `from` on.
pub fn heads(names: &[&str], numbers_from: usize) -> Markup {
    html! {
        @for (at, name) in names.iter().enumerate() {
            th scope="col" class=[(at >= numbers_from).then_some("n")] { (name) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_do_not_read_as_zero() {
        assert_eq!(
            (shown(0.28, 0), shown(0.007, 2), shown(0.004, 2)),
            ("0.3".into(), "0.01".into(), "0.004".into())
        );
        assert_eq!(
            (shown(0.0, 2), shown(1234.5, 0), shown(1e-9, 2)),
            ("0.00".into(), "1234".into(), "0.00".into())
        );
    }
}
