/*!
A plot as PDF: vector outlines on white, as a journal's tools accept them.

svg2pdf does the same for any SVG, but brings a second copy of usvg, which would add megabytes to the
program. A plot only has paths, texts and solid colours, so a walk over usvg's tree is enough. Texts
become outlines; colours that are not opaque are blended with the white page.
*/

use pdf_writer::types::{LineCapStyle, LineJoinStyle};
use pdf_writer::{Content, Filter, Finish, Pdf, Rect, Ref};
use resvg::tiny_skia::{PathSegment, Transform};
use resvg::usvg::{FillRule, Group, LineCap, LineJoin, Node, Paint, Path, Tree};

/// The drawing as a PDF of one page; a unit of it has `points` points.
pub fn pdf(tree: &Tree, points: f32) -> Vec<u8> {
    let (width, height) = (tree.size().width() * points, tree.size().height() * points);
    // PDF counts y from the bottom.
    let place = Transform::from_row(points, 0.0, 0.0, -points, 0.0, height);
    let mut content = Content::new();
    group(tree.root(), place, 1.0, &mut content);
    let content = content.finish();
    let [catalogue, pages, page, stream] = [1, 2, 3, 4].map(Ref::new);
    let mut pdf = Pdf::new();
    pdf.catalog(catalogue).pages(pages);
    pdf.pages(pages).kids([page]).count(1);
    pdf.page(page)
        .parent(pages)
        .media_box(Rect::new(0.0, 0.0, width, height))
        .contents(stream)
        .resources()
        .finish();
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(&content, 6);
    pdf.stream(stream, &packed).filter(Filter::FlateDecode);
    pdf.document_info(Ref::new(5)).creator(pdf_writer::TextStr("segtrt"));
    pdf.finish()
}

fn group(of: &Group, place: Transform, opacity: f32, out: &mut Content) {
    let opacity = opacity * of.opacity().get();
    for node in of.children() {
        match node {
            Node::Group(inner) => group(inner, place, opacity, out),
            Node::Path(drawn) => path(drawn, place, opacity, out),
            Node::Text(text) => group(text.flattened(), place, opacity, out),
            // A plot has none.
            Node::Image(_) => {}
        }
    }
}

fn path(drawn: &Path, place: Transform, opacity: f32, out: &mut Content) {
    if !drawn.is_visible() {
        return;
    }
    let whole = place.pre_concat(drawn.abs_transform());
    let Some(outline) = drawn.data().clone().transform(whole) else { return };
    if let Some(fill) = drawn.fill()
        && let Some([r, g, b]) = colour(fill.paint(), opacity * fill.opacity().get())
    {
        out.set_fill_rgb(r, g, b);
        segments(outline.segments(), out);
        match fill.rule() {
            FillRule::NonZero => out.fill_nonzero(),
            FillRule::EvenOdd => out.fill_even_odd(),
        };
    }
    if let Some(stroke) = drawn.stroke()
        && let Some([r, g, b]) = colour(stroke.paint(), opacity * stroke.opacity().get())
    {
        let (scale, _) = whole.get_scale();
        out.set_stroke_rgb(r, g, b);
        out.set_line_width(stroke.width().get() * scale);
        out.set_line_cap(match stroke.linecap() {
            LineCap::Butt => LineCapStyle::ButtCap,
            LineCap::Round => LineCapStyle::RoundCap,
            LineCap::Square => LineCapStyle::ProjectingSquareCap,
        });
        out.set_line_join(match stroke.linejoin() {
            LineJoin::Round => LineJoinStyle::RoundJoin,
            LineJoin::Bevel => LineJoinStyle::BevelJoin,
            LineJoin::Miter | LineJoin::MiterClip => LineJoinStyle::MiterJoin,
        });
        let dashes = stroke.dasharray().unwrap_or_default().iter().map(|dash| dash * scale);
        out.set_dash_pattern(dashes, stroke.dashoffset() * scale);
        segments(outline.segments(), out);
        out.stroke();
    }
}

/// A solid colour on white; `None` for other paints, which a plot does not have.
fn colour(paint: &Paint, opacity: f32) -> Option<[f32; 3]> {
    let Paint::Color(colour) = paint else { return None };
    let on_white = |part: u8| f32::from(part) / 255.0 * opacity + 1.0 - opacity;
    Some([colour.red, colour.green, colour.blue].map(on_white))
}

fn segments(of: impl Iterator<Item = PathSegment>, out: &mut Content) {
    let mut last = (0.0, 0.0);
    for segment in of {
        match segment {
            PathSegment::MoveTo(p) => {
                out.move_to(p.x, p.y);
                last = (p.x, p.y);
            }
            PathSegment::LineTo(p) => {
                out.line_to(p.x, p.y);
                last = (p.x, p.y);
            }
            // PDF has cubic curves only.
            PathSegment::QuadTo(c, p) => {
                let near = |from: f32, control: f32| from + 2.0 / 3.0 * (control - from);
                out.cubic_to(
                    near(last.0, c.x),
                    near(last.1, c.y),
                    near(p.x, c.x),
                    near(p.y, c.y),
                    p.x,
                    p.y,
                );
                last = (p.x, p.y);
            }
            PathSegment::CubicTo(a, b, p) => {
                out.cubic_to(a.x, a.y, b.x, b.y, p.x, p.y);
                last = (p.x, p.y);
            }
            PathSegment::Close => drop(out.close_path()),
        }
    }
}
