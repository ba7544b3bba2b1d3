/*!
Plots as standalone files: SVG, and PNG or PDF drawn from the SVG with the compiled-in font.
*/

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

use super::chart::{Plot, Style};
use super::pdf::pdf;
use vos::files::atomic;

const REGULAR: &[u8] = include_bytes!("font/roboto-regular.ttf");
const BOLD: &[u8] = include_bytes!("font/roboto-bold.ttf");
const FAMILY: &str = "Roboto";
/// Pixels for each unit of the drawing: 2040 across, enough for a page in print.
const PNG_SCALE: f32 = 3.0;

/// Creates `directory` and writes `NAME.svg` and `NAME.png` of every plot into it; in place of the PNG
/// a `NAME.pdf` of those for a paper. Returns the files in order.
///
/// # Errors
/// Two plots have one name, or the directory cannot be created or written to.
pub fn write<'a>(
    directory: &Path,
    plots: impl IntoIterator<Item = &'a Plot>,
) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(directory).with_context(|| {
        format!("cannot create {}; choose a writable folder for --plots", directory.display())
    })?;
    let options = options();
    let mut files: Vec<PathBuf> = Vec::new();
    for plot in plots {
        let svg = plot.file();
        let tree = Tree::from_str(&plot.light(), &options)
            .with_context(|| format!("plot {} cannot be drawn", plot.name))?;
        let (extension, picture) = match plot.style {
            Style::Page => ("png", png(&tree)?),
            // A unit of the parsed file is a pixel of 96 an inch.
            Style::Paper => ("pdf", pdf(&tree, 0.75)),
        };
        for (extension, bytes) in [("svg", svg.as_bytes()), (extension, &picture)] {
            let path = directory.join(format!("{}.{extension}", plot.name));
            if files.contains(&path) {
                bail!("two plots are called {}; this is an error of segtrt", plot.name);
            }
            atomic::write(&path, |out| Ok(out.write_all(bytes)?))?;
            files.push(path);
        }
    }
    Ok(files)
}

/// No system font is used: a plot looks the same on every machine.
fn options() -> Options<'static> {
    let mut options = Options { font_family: FAMILY.to_owned(), ..Options::default() };
    let fonts = options.fontdb_mut();
    fonts.load_font_data(REGULAR.to_vec());
    fonts.load_font_data(BOLD.to_vec());
    options
}

fn png(tree: &Tree) -> Result<Vec<u8>> {
    let size =
        tree.size().to_int_size().scale_by(PNG_SCALE).ok_or_else(|| anyhow!("it has no size"))?;
    let mut pixels =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| anyhow!("it has no size"))?;
    resvg::render(tree, Transform::from_scale(PNG_SCALE, PNG_SCALE), &mut pixels.as_mut());
    Ok(pixels.encode_png()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Bar, BarGroup, Head, bars};

    #[test]
    fn the_font_has_every_sign_that_plots_use() {
        let options = options();
        let face = options.fontdb.faces().next().unwrap();
        assert_eq!(face.families[0].0, FAMILY);
        let has = |c: char| {
            let draw = |text: &str| {
                let svg = format!(
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"30\"><text \
                     x=\"5\" y=\"20\">{text}</text></svg>"
                );
                png(&Tree::from_str(&svg, &options).unwrap()).unwrap()
            };
            draw(&c.to_string()) != draw("")
        };
        for c in "aZ09·−…≤≥%()äλж".chars() {
            assert!(has(c), "{c} is drawn as nothing");
        }
    }

    #[test]
    fn plots_of_one_name_are_refused_and_papers_get_a_pdf() {
        let dir = tempfile::tempdir().unwrap();
        let head = Head { style: Style::Paper, name: "a", title: "A", alt: "some text" };
        let bar = Bar { series: 0, value: Some(2.0), text: "2".into(), invalid: false };
        let groups = [BarGroup { label: "x".into(), bars: vec![bar] }];
        let plot = bars(&head, "ms", &[], &groups, Vec::new()).unwrap();
        let files = write(dir.path(), [&plot]).unwrap();
        assert_eq!(files, [dir.path().join("a.svg"), dir.path().join("a.pdf")]);
        let bytes = std::fs::read(&files[1]).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("%PDF-1."), "{text}");
        // 3.3 inches of 72 points.
        assert!(text.contains("/MediaBox [0 0 237."), "{text}");
        let error = format!("{:#}", write(dir.path(), [&plot, &plot]).unwrap_err());
        assert!(error.contains("two plots are called a"), "{error}");
    }
}
