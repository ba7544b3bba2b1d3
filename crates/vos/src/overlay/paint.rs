/*!
Paints a mask, the ground truth and a prompt on a frame, and writes painted frames as PNG.
*/

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use crate::mask::Mask;
use crate::prompt::Prompt;

const WHITE: [u8; 3] = [255; 3];
const RED: [u8; 3] = [255, 0, 0];

/// Tints the object half green, as the predecessor did, with a fully green outline.
pub fn paint(rgb: &mut [u8], mask: &Mask) {
    let (width, height) = (mask.width(), mask.height());
    for (x, y) in mask.pixels() {
        let inside = x > 0
            && y > 0
            && x + 1 < width
            && y + 1 < height
            && mask.get(x - 1, y)
            && mask.get(x + 1, y)
            && mask.get(x, y - 1)
            && mask.get(x, y + 1);
        let pixel = &mut rgb[3 * (y * width + x)..][..3];
        if inside {
            pixel[1] = pixel[1].midpoint(255);
        } else {
            pixel.copy_from_slice(&[0, 255, 0]);
        }
    }
}

/// Outlines the object in white. The line lies outside it, so that it never covers a mask's
/// outline that is right.
pub fn paint_outline(rgb: &mut [u8], truth: &Mask) {
    let (width, height) = (truth.width(), truth.height());
    for (x, y) in truth.pixels() {
        for row in y.saturating_sub(1)..(y + 2).min(height) {
            for column in x.saturating_sub(1)..(x + 2).min(width) {
                if !truth.get(column, row) {
                    rgb[3 * (row * width + column)..][..3].copy_from_slice(&WHITE);
                }
            }
        }
    }
}

/// Marks a click with a red square in a white frame and a box with a red line; a mask prompt is the
/// ground truth, whose outline is there.
pub fn paint_prompt(rgb: &mut [u8], (width, height): (usize, usize), prompt: &Prompt) {
    let line = width.min(height) / 240;
    let mut fill = |[left, top, right, bottom]: [f32; 4], grow: usize, colour: [u8; 3]| {
        let first = |at: f32| (at.max(0.0) as usize).saturating_sub(grow);
        for y in first(top)..(bottom.max(0.0) as usize + grow + 1).min(height) {
            for x in first(left)..(right.max(0.0) as usize + grow + 1).min(width) {
                rgb[3 * (y * width + x)..][..3].copy_from_slice(&colour);
            }
        }
    };
    match *prompt {
        Prompt::Point { x, y } => {
            fill([x, y, x, y], 2 * line + 3, WHITE);
            fill([x, y, x, y], 2 * line + 2, RED);
        }
        Prompt::Box { x_min, y_min, x_max, y_max } => {
            for y in [y_min, y_max] {
                fill([x_min, y, x_max, y], line, RED);
            }
            for x in [x_min, x_max] {
                fill([x, y_min, x, y_max], line, RED);
            }
        }
        Prompt::Clicks(ref given) => {
            for click in &given.clicks {
                let point = Prompt::Point { x: click.x, y: click.y };
                paint_prompt(rgb, (width, height), &point);
            }
            if let Some([x_min, y_min, x_max, y_max]) = given.bbox {
                let corners = Prompt::Box { x_min, y_min, x_max, y_max };
                paint_prompt(rgb, (width, height), &corners);
            }
        }
        Prompt::Mask(_) => {}
    }
}

/// Writes interleaved RGB as PNG.
pub fn write_png(path: &Path, (width, height): (usize, usize), rgb: &[u8]) -> anyhow::Result<()> {
    let file = BufWriter::new(File::create(path)?);
    let mut encoder = png::Encoder::new(file, u32::try_from(width)?, u32::try_from(height)?);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(rgb)?;
    writer.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edge_is_green_the_inside_half_green_the_rest_untouched() {
        let mask = Mask::from_fn(5, 5, |x, y| (1..4).contains(&x) && (1..4).contains(&y));
        let mut rgb = [100_u8, 51, 7].repeat(25);
        paint(&mut rgb, &mask);
        let pixel = |x: usize, y: usize| &rgb[3 * (y * 5 + x)..][..3];
        assert_eq!(pixel(0, 0), [100, 51, 7]);
        assert_eq!(pixel(1, 2), [0, 255, 0]);
        assert_eq!(pixel(2, 2), [100, 153, 7]);
    }

    #[test]
    fn the_truth_is_outlined_outside_and_the_prompt_is_red() {
        let truth = Mask::from_fn(20, 20, |x, y| (4..16).contains(&x) && (4..16).contains(&y));
        let mut rgb = vec![9_u8; 3 * 400];
        paint_outline(&mut rgb, &truth);
        let pixel = |rgb: &[u8], x: usize, y: usize| -> [u8; 3] {
            rgb[3 * (y * 20 + x)..][..3].try_into().unwrap()
        };
        assert_eq!([3, 4].map(|x| pixel(&rgb, x, 10)), [WHITE, [9; 3]]);
        paint_prompt(&mut rgb, (20, 20), &Prompt::Point { x: 10.6, y: 1.0 });
        assert_eq!([8, 7, 6].map(|x| pixel(&rgb, x, 0)), [RED, WHITE, [9; 3]]);
        let frame = Prompt::Box { x_min: 4.0, y_min: 4.0, x_max: 15.0, y_max: 40.0 };
        paint_prompt(&mut rgb, (20, 20), &frame);
        assert_eq!([4, 5, 15].map(|x| pixel(&rgb, x, 19)), [RED, [9; 3], RED]);
    }
}
