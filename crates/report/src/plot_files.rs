/*!
Plots as standalone files: SVG, and PNG rendered from the SVG with the compiled-in font.
*/

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

use super::chart::Plot;
use vos::files::atomic;

const REGULAR: &[u8] = include_bytes!("font/roboto-regular.ttf");
const BOLD: &[u8] = include_bytes!("font/roboto-bold.ttf");
const FAMILY: &str = "Roboto";
/// Pixels for each unit of the drawing: 2040 across, enough for a page in print.
const PNG_SCALE: f32 = 3.0;

/// Creates `directory` and writes `NAME.svg` and `NAME.png` of every plot into it. Returns the
/// files in order.
///
/// # Errors
/// The directory cannot be created or written to.
pub fn write<'a>(
    directory: &Path,
    plots: impl IntoIterator<Item = &'a Plot>,
) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(directory).with_context(|| {
        format!("cannot create {}; choose a writable folder for --plots", directory.display())
    })?;
    let options = options();
    let mut files = Vec::new();
    for plot in plots {
        let svg = plot.file();
        let image =
            png(&svg, &options).with_context(|| format!("plot {} cannot be drawn", plot.name))?;
        for (extension, bytes) in [("svg", svg.as_bytes()), ("png", &image)] {
            let path = directory.join(format!("{}.{extension}", plot.name));
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

fn png(svg: &str, options: &Options<'_>) -> Result<Vec<u8>> {
    let tree = Tree::from_str(svg, options)?;
    let size =
        tree.size().to_int_size().scale_by(PNG_SCALE).ok_or_else(|| anyhow!("it has no size"))?;
    let mut pixels =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| anyhow!("it has no size"))?;
    resvg::render(&tree, Transform::from_scale(PNG_SCALE, PNG_SCALE), &mut pixels.as_mut());
    Ok(pixels.encode_png()?)
}

#[cfg(test)]
mod tests {
    use super::*;

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
                png(&svg, &options).unwrap()
            };
            draw(&c.to_string()) != draw("")
        };
        for c in "aZ09·−…≤≥%()äλж".chars() {
            assert!(has(c), "{c} is drawn as nothing");
        }
    }
}
