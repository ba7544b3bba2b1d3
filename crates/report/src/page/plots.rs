/*!
Plots on the page.
*/

use maud::{Markup, html};

use crate::chart::Plot;

/// Plots next to each other if there is room.
pub fn figures(plots: &[Plot]) -> Markup {
    html! {
        @if !plots.is_empty() {
            div.figures {
                @for plot in plots {
                    figure id=(format!("plot-{}", plot.name)) {
                        figcaption { (plot.title) }
                        div.holder { (plot.inline()) }
                        @for note in &plot.notes { p { (note) } }
                    }
                }
            }
        }
    }
}

/// Plots, or a sentence that there are none.
pub fn or_not_measured(plots: &[Plot], what: &str) -> Markup {
    match plots.is_empty() {
        true => html! { p.none { "Not measured: no row has " (what) "." } },
        false => figures(plots),
    }
}
