/*!
Paints several objects on a frame: tinted masks with an outline, each in its colour; their clicks
and boxes; a line of text in a corner.
*/

use font8x8::legacy::BASIC_LEGACY;

use super::paint::paint_outline;
use crate::mask::Mask;
use crate::prompt::{Click, Prompt};

/// Colours of objects, by their ids. They differ in lightness too, for readers who see few colours.
const COLOURS: [[u8; 3]; 8] = [
    [0, 230, 90],
    [255, 150, 0],
    [70, 160, 255],
    [255, 90, 210],
    [255, 230, 0],
    [0, 225, 225],
    [180, 120, 255],
    [255, 110, 100],
];
const WHITE: [u8; 3] = [255; 3];
const BLACK: [u8; 3] = [0; 3];
const RED: [u8; 3] = [230, 20, 20];

/// One object on one frame. Masks have the frame's size.
#[derive(Clone, Copy, Debug)]
pub struct ObjectLayer<'a> {
    /// The object's id, from 1 on; it decides on the colour.
    pub id: u8,
    /// The predicted mask.
    pub mask: &'a Mask,
    /// The ground truth, where it is known.
    pub truth: Option<&'a Mask>,
    /// The prompt, on the frames that show it.
    pub prompt: Option<&'a Prompt>,
}

/// The colour of an object.
pub fn colour_of(id: u8) -> [u8; 3] {
    COLOURS[usize::from(id.saturating_sub(1)) % COLOURS.len()]
}

/// Paints all objects: masks first, prompts last, so that no mask covers a click. `opacity` of the
/// tint is from 0 (outline only) to 1.
pub fn paint_objects(
    rgb: &mut [u8],
    size: (usize, usize),
    layers: &[ObjectLayer<'_>],
    opacity: f32,
) {
    for layer in layers {
        tint(rgb, layer.mask, colour_of(layer.id), opacity);
    }
    for truth in layers.iter().filter_map(|layer| layer.truth) {
        paint_outline(rgb, truth);
    }
    for layer in layers {
        if let Some(prompt) = layer.prompt {
            mark(rgb, size, prompt, colour_of(layer.id));
        }
    }
}

/// Blends the mask's pixels with `colour`; its edge has the colour itself.
fn tint(rgb: &mut [u8], mask: &Mask, colour: [u8; 3], opacity: f32) {
    let (width, height) = (mask.width(), mask.height());
    let line = line_width((width, height));
    let mut edge = Vec::new();
    for (x, y) in mask.pixels() {
        let inside = x > 0
            && y > 0
            && x + 1 < width
            && y + 1 < height
            && mask.get(x - 1, y)
            && mask.get(x + 1, y)
            && mask.get(x, y - 1)
            && mask.get(x, y + 1);
        if !inside {
            edge.push((x, y));
        }
        let pixel = &mut rgb[3 * (y * width + x)..][..3];
        for (value, ink) in pixel.iter_mut().zip(colour) {
            let mixed = f32::from(*value) * (1.0 - opacity) + f32::from(ink) * opacity;
            *value = mixed.round() as u8;
        }
    }
    for (x, y) in edge {
        for row in y.saturating_sub(line - 1)..(y + line).min(height) {
            for column in x.saturating_sub(line - 1)..(x + line).min(width) {
                if mask.get(column, row) {
                    rgb[3 * (row * width + column)..][..3].copy_from_slice(&colour);
                }
            }
        }
    }
}

/// Clicks as discs with a plus or a minus, the box as a line.
fn mark(rgb: &mut [u8], size: (usize, usize), prompt: &Prompt, colour: [u8; 3]) {
    match *prompt {
        Prompt::Point { x, y } => disc(rgb, size, Click { x, y, positive: true }, colour),
        Prompt::Box { x_min, y_min, x_max, y_max } => {
            frame(rgb, size, [x_min, y_min, x_max, y_max], colour);
        }
        Prompt::Clicks(ref given) => {
            given.bbox.into_iter().for_each(|corners| frame(rgb, size, corners, colour));
            given.clicks.iter().for_each(|click| disc(rgb, size, *click, colour));
        }
        // The mask is what is painted.
        Prompt::Mask(_) => {}
    }
}

/// A disc with a white ring: the object's colour and a plus, or red and a minus.
fn disc(rgb: &mut [u8], (width, height): (usize, usize), click: Click, colour: [u8; 3]) {
    let radius = (5 * line_width((width, height)) + 2) as i64;
    let bar = (line_width((width, height)) as i64 - 1).max(0);
    let (middle_x, middle_y) = (click.x as i64, click.y as i64);
    for y in (middle_y - radius).max(0)..(middle_y + radius + 1).min(height as i64) {
        for x in (middle_x - radius).max(0)..(middle_x + radius + 1).min(width as i64) {
            let (dx, dy) = ((x - middle_x).abs(), (y - middle_y).abs());
            let far = dx * dx + dy * dy;
            let arm = radius - 4;
            let minus = dy <= bar && dx <= arm;
            let plus = click.positive && dx <= bar && dy <= arm;
            let inner = radius - 2;
            let ink = match far {
                _ if far > radius * radius => continue,
                _ if far > inner * inner => WHITE,
                _ if minus || plus => {
                    if click.positive {
                        BLACK
                    } else {
                        WHITE
                    }
                }
                _ if click.positive => colour,
                _ => RED,
            };
            rgb[3 * (y as usize * width + x as usize)..][..3].copy_from_slice(&ink);
        }
    }
}

/// A rectangle's line with a black one around it.
fn frame(rgb: &mut [u8], (width, height): (usize, usize), corners: [f32; 4], colour: [u8; 3]) {
    let line = line_width((width, height));
    let [left, top, right, bottom] = corners.map(|at| at.max(0.0) as usize);
    let mut fill = |columns: [usize; 2], rows: [usize; 2], grow: usize, ink: [u8; 3]| {
        for y in rows[0].saturating_sub(grow)..(rows[1] + grow + 1).min(height) {
            for x in columns[0].saturating_sub(grow)..(columns[1] + grow + 1).min(width) {
                rgb[3 * (y * width + x)..][..3].copy_from_slice(&ink);
            }
        }
    };
    for (grow, ink) in [(line, BLACK), (line - 1, colour)] {
        for y in [top, bottom] {
            fill([left, right], [y, y], grow, ink);
        }
        for x in [left, right] {
            fill([x, x], [top, bottom], grow, ink);
        }
    }
}

/// Corner of a line of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// Top left.
    TopLeft,
    /// Bottom left.
    BottomLeft,
}

/// Writes white text on a dark bar into a corner. Letters outside ASCII stay blank; text that is
/// too wide for the frame is cut.
pub fn paint_text(rgb: &mut [u8], (width, height): (usize, usize), text: &str, corner: Corner) {
    let scale = (height / 270).max(1);
    let (side, margin) = (8 * scale, 4 * scale);
    let bar = side + 2 * margin;
    if height < bar {
        return;
    }
    let top = match corner {
        Corner::TopLeft => 0,
        Corner::BottomLeft => height - bar,
    };
    let length = (text.chars().count() * side + 2 * margin).min(width);
    for y in top..top + bar {
        for value in &mut rgb[3 * (y * width)..3 * (y * width + length)] {
            *value /= 4;
        }
    }
    for (at, letter) in text.chars().enumerate() {
        let left = margin + at * side;
        if left + side > width {
            return;
        }
        let rows = BASIC_LEGACY.get(letter as usize).copied().unwrap_or_default();
        for (row, bits) in rows.iter().enumerate() {
            for column in (0..8).filter(|column| bits >> column & 1 == 1) {
                for y in 0..scale {
                    for x in 0..scale {
                        let y = top + margin + row * scale + y;
                        let x = left + column * scale + x;
                        rgb[3 * (y * width + x)..][..3].copy_from_slice(&WHITE);
                    }
                }
            }
        }
    }
}

/// Width of lines on a frame of this size, pixels: 1 at 240 rows, 4 at 1080.
fn line_width((width, height): (usize, usize)) -> usize {
    (width.min(height) / 240).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::Clicks;

    const SIZE: (usize, usize) = (60, 40);

    fn pixel(rgb: &[u8], x: usize, y: usize) -> [u8; 3] {
        rgb[3 * (y * SIZE.0 + x)..][..3].try_into().unwrap()
    }

    #[test]
    fn each_object_has_its_colour_and_the_tint_its_opacity() {
        let mask = |from: usize| {
            Mask::from_fn(SIZE.0, SIZE.1, |x, y| (from..from + 9).contains(&x) && y < 9)
        };
        let (one, two) = (mask(2), mask(30));
        let layer = |id, mask| ObjectLayer { id, mask, truth: None, prompt: None };
        let mut rgb = vec![100_u8; 3 * SIZE.0 * SIZE.1];
        paint_objects(&mut rgb, SIZE, &[layer(1, &one), layer(2, &two)], 0.5);
        assert_eq!(pixel(&rgb, 2, 4), colour_of(1), "the edge");
        assert_eq!(pixel(&rgb, 5, 4), [50, 165, 95], "half of both");
        assert_eq!(pixel(&rgb, 34, 4), [178, 125, 50]);
        assert_eq!(pixel(&rgb, 20, 4), [100; 3]);
        assert_ne!(colour_of(1), colour_of(2));
        assert_eq!(colour_of(9), colour_of(1));
        let mut rgb = vec![100_u8; 3 * SIZE.0 * SIZE.1];
        paint_objects(&mut rgb, SIZE, &[layer(1, &one)], 0.0);
        assert_eq!([pixel(&rgb, 2, 4), pixel(&rgb, 5, 4)], [colour_of(1), [100; 3]]);
    }

    #[test]
    fn clicks_lie_on_the_masks_and_stay_inside_the_frame() {
        let mask = Mask::from_fn(SIZE.0, SIZE.1, |_, _| true);
        let click = |x, y, positive| Click { x, y, positive };
        let clicks =
            vec![click(30.0, 20.0, true), click(10.0, 20.0, false), click(59.0, 39.0, true)];
        let prompt = Prompt::Clicks(Clicks { bbox: Some([1.0, 2.0, 58.0, 300.0]), clicks });
        let layer = ObjectLayer { id: 1, mask: &mask, truth: None, prompt: Some(&prompt) };
        let mut rgb = vec![0_u8; 3 * SIZE.0 * SIZE.1];
        paint_objects(&mut rgb, SIZE, &[layer], 1.0);
        assert_eq!(pixel(&rgb, 30, 20), BLACK, "a plus");
        assert_eq!(pixel(&rgb, 30, 22), BLACK, "its upright arm");
        assert_eq!(pixel(&rgb, 32, 22), colour_of(1));
        assert_eq!(pixel(&rgb, 30, 27), WHITE, "the ring");
        assert_eq!([pixel(&rgb, 10, 20), pixel(&rgb, 10, 22)], [WHITE, RED], "a minus");
        assert_eq!([pixel(&rgb, 1, 30), pixel(&rgb, 2, 30)], [colour_of(1), BLACK], "the box");
    }

    #[test]
    fn text_is_cut_at_the_frames_edge() {
        let mut rgb = vec![200_u8; 3 * SIZE.0 * SIZE.1];
        paint_text(&mut rgb, SIZE, "25.0 FPS and more", Corner::BottomLeft);
        assert_eq!(pixel(&rgb, 0, 0), [200; 3]);
        assert_eq!(pixel(&rgb, 0, SIZE.1 - 1), [50; 3], "the bar");
        assert!((0..SIZE.0).any(|x| pixel(&rgb, x, SIZE.1 - 8) == WHITE), "letters");
        paint_text(&mut [], (0, 0), "none", Corner::TopLeft);
    }
}
