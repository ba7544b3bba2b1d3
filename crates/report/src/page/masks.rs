/*!
Pictures of masks: sides of comparisons next to the reference, overlays of runs.
*/

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};

use super::part::Part;
use crate::content::Report;
use crate::data::Strip;

/// The parts; none without a picture.
pub fn parts(report: &Report) -> Vec<Part> {
    let gallery = &report.gallery;
    if gallery.compared.is_empty() && gallery.runs.is_empty() {
        return Vec::new();
    }
    let markup = html! {
        @if !gallery.compared.is_empty() {
            p {
                "Left the reference, right the side. The prompted frame is that of the object with the \
                 worst frame; best, median and worst are by the IoU of the two masks."
            }
            @for (at, model) in report.compared.iter().enumerate() {
                @let strips: Vec<&Strip> = gallery.compared.iter().filter(|strip| strip.of == at).collect();
                @if !strips.is_empty() {
                    h3 { (model.title(&report.compared)) }
                    @for strip in strips { (row(strip, "pairs")) }
                }
            }
        }
        @if !gallery.runs.is_empty() {
            p {
                "The predicted mask in green, the outline of the ground truth in white, the prompt in \
                 red: the prompted frame, the last one and three between them."
            }
            @for (at, group) in report.groups.iter().enumerate() {
                @let strips: Vec<&Strip> = gallery.runs.iter().filter(|strip| strip.of == at).collect();
                @if !strips.is_empty() {
                    h3 { (group.full_name()) }
                    @for strip in strips { (row(strip, "frames")) }
                }
            }
        }
        @if gallery.omitted > 0 {
            p.muted { (gallery.omitted) " more pictures would make the page too large; they are \
                                         in the run folders." }
        }
    };
    vec![Part::Html(markup)]
}

fn row(strip: &Strip, class: &str) -> Markup {
    html! {
        div class=(format!("strip {class}")) {
            h4 { (strip.title) }
            div.pictures {
                @for picture in &strip.pictures {
                    figure.picture {
                        img src=(format!("data:image/jpeg;base64,{}", STANDARD.encode(&picture.jpeg)))
                            alt=(format!("{}, {}", strip.title, picture.caption));
                        figcaption { (picture.caption) }
                    }
                }
            }
        }
    }
}
