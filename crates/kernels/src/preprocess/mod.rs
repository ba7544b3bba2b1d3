/*!
A decoded frame to the network's input, in one launch of `cuda/preprocess.cu`.

With [`Filter::PillowBicubic`] the values are those of [`vos::preprocess::Preprocessor`], with the
bilinear filters those of [`vos::preprocess::linear`], bit for bit; as halves they are rounded to
nearest, ties to even.
*/

pub(crate) mod selftest;
mod tiles;

use anyhow::{Result, ensure};
use half::f16;

use super::images::Topic;
use super::tables::{Axis, Place, Tables};
use super::{Element, Filter, Kernels, blocks, int, need, need_exactly};
use crate::constants::constant;
use crate::kernel::arguments;
use cuda::module::{Function, Launch};
use cuda::{Gpu, Pinned, Stream, View};
use tiles::{Tiles, UNIT};
use vos::geometry::Geometry;
use vos::preprocess::{linear, pillow, tables};

/// Outputs of a block.
const TILE: (usize, usize) =
    (constant!(Preprocess, "TILE_X") as usize, constant!(Preprocess, "TILE_Y") as usize);
/// Threads of a block.
const THREADS: u32 = constant!(Preprocess, "THREADS");
/// Units of 16 bytes of a thread that fetches a frame.
const FETCHED: usize = 4;
/// Weights along x come in groups.
const GROUP: usize = 4;

/// Turns frames of one size into inputs of one size; its tables lie on the device.
#[derive(Debug)]
pub struct Preprocess {
    function: Function,
    grid: Launch,
    fetch: Function,
    form: Form,
    /// Where all that a tile takes fits into shared memory.
    tiled: Option<Tiled>,
    /// Sizes and places, the last arguments of either kernel.
    sizes: [i32; 7],
    frame_bytes: usize,
    image_bytes: usize,
    element: Element,
}

/// Where the RGB bytes of a frame lie, row after row.
#[derive(Debug)]
pub enum Frame<'a> {
    /// In device memory, from a multiple of 4 on.
    Device(&'a View),
    /// In host memory, which the device reads in place.
    Pinned(&'a mut Pinned),
}

/// The kernel of tiles that take all of their input, with its tables.
#[derive(Debug)]
struct Tiled {
    function: Function,
    grid: Launch,
    values: View,
    /// Spans and taps.
    x: [View; 2],
    y: [View; 2],
    groups: [i32; 2],
}

/// The arguments between the image and the sizes.
#[derive(Debug)]
enum Form {
    Bicubic { values: View, x: [View; 2], groups: i32, y: [View; 3], longest: i32 },
    Columns { values: View, x: [View; 3], y: [View; 3], longest: i32 },
    Linear { x: [View; 3], y: [View; 3], longest: i32, mean_std: View },
}

impl Preprocess {
    /// Makes the tables for frames of the geometry's video size and brings them to the device.
    /// `mean` and `std` are of each RGB channel on the 0..1 scale.
    ///
    /// # Errors
    /// A frame or an input beyond 2³¹ bytes, or what the driver says.
    #[expect(clippy::too_many_arguments, reason = "each is another thing, and there is one caller")]
    pub fn new(
        gpu: &Gpu,
        kernels: &Kernels,
        geometry: &Geometry,
        filter: Filter,
        element: Element,
        mean: [f32; 3],
        std: [f32; 3],
        stream: &Stream,
    ) -> Result<Self> {
        let ((width, height), side) = (geometry.video_size(), geometry.side());
        let content = geometry.content();
        let frame_bytes = 3 * width * height;
        let image_bytes = 3 * side * side * element.bytes();
        // Kernels count the bytes of a frame, and a word or two beyond it, in 32 bits.
        ensure!(
            frame_bytes < i32::MAX as usize - 64 && image_bytes < i32::MAX as usize,
            "frames of {width}x{height} for inputs of {side}x{side} are more than kernels count; \
             shrink the video first"
        );
        let form = match filter {
            Filter::PillowBicubic => bicubic(gpu, geometry, element, mean, std, stream)?,
            Filter::AntialiasBilinear => bilinear(gpu, geometry, true, mean, std, stream)?,
            Filter::Bilinear => bilinear(gpu, geometry, false, mean, std, stream)?,
        };
        let name = match (&form, element) {
            (Form::Bicubic { .. }, Element::F16) => "preprocess_bicubic_f16",
            (Form::Bicubic { .. }, Element::F32) => "preprocess_bicubic_f32",
            (Form::Columns { .. }, Element::F16) => "preprocess_columns_f16",
            (Form::Columns { .. }, Element::F32) => "preprocess_columns_f32",
            (Form::Linear { .. }, Element::F16) => "preprocess_linear_f16",
            (Form::Linear { .. }, Element::F32) => "preprocess_linear_f32",
        };
        let sizes = [width, height, side, content.x, content.y, content.width, content.height];
        let mut counted = [0; 7];
        for (to, from) in counted.iter_mut().zip(sizes) {
            *to = int(from, "a side")?;
        }
        let tiles = matches!((&form, element), (Form::Bicubic { .. }, Element::F16));
        let tiles = Tiles::of(geometry).filter(|_| tiles);
        let tiled = |tiles: Tiles| Tiled::new(gpu, kernels, &tiles, mean, std, stream);
        Ok(Self {
            tiled: tiles.map(tiled).transpose()?,
            function: kernels.function(Topic::Preprocess, name)?,
            fetch: kernels.function(Topic::Preprocess, "frame_fetch")?,
            grid: Launch {
                grid: (blocks(side, TILE.0)?, blocks(side, TILE.1)?, 1),
                threads: THREADS,
            },
            form,
            sizes: counted,
            frame_bytes,
            image_bytes,
            element,
        })
    }

    /// Bytes of the input: `3 * side * side` elements.
    pub fn image_bytes(&self) -> usize {
        self.image_bytes
    }

    /// Writes the network's input. What lies beyond [`Self::frame_bytes`] of the frame is not read.
    /// `image`: [`Self::image_bytes`], channel after channel, from a multiple of 8 on. One launch,
    /// no allocation; with a frame in device memory it may be recorded.
    ///
    /// # Errors
    /// Views of another size or alignment, or what the driver says.
    pub fn enqueue(&self, frame: Frame<'_>, image: &View, stream: &Stream) -> Result<()> {
        match frame {
            Frame::Device(frame) => self.launch(frame, image, stream),
            Frame::Pinned(pinned) => {
                // SAFETY: the kernel only reads the frame; the view ends with this statement, and
                // `used_by` follows.
                self.launch(&unsafe { pinned.view() }?, image, stream)?;
                Ok(pinned.used_by(stream)?)
            }
        }
    }

    /// Copies a frame's [`Self::frame_bytes`] bytes to the start of `frame` by a kernel, which reads
    /// them over the bus. On a GPU of its own that begins sooner than a copy engine does, and takes
    /// multiprocessors meanwhile.
    ///
    /// # Errors
    /// Views of another size or alignment, or what the driver says.
    pub fn fetch(&self, pinned: &mut Pinned, frame: &View, stream: &Stream) -> Result<()> {
        need(frame, self.frame_bytes, UNIT, "the frame")?;
        {
            // SAFETY: the kernel only reads it; the view ends with this block, and `used_by` follows.
            let host = unsafe { pinned.view() }?;
            need(&host, self.frame_bytes, UNIT, "the frame in host memory")?;
            let units = self.frame_bytes / UNIT;
            let args = arguments!(
                ["frame_fetch"];
                Views[2]([&host, frame]),
                I32(int(units, "the size of a frame")?),
                I32(int(self.frame_bytes, "the size of a frame")?),
            );
            let grid = (blocks(units.max(1), FETCHED * THREADS as usize)?, 1, 1);
            // SAFETY: the arguments are the kernel's own; both have `frame_bytes` bytes.
            unsafe { self.fetch.launch(Launch { grid, threads: THREADS }, &args, stream) }?;
        }
        Ok(pinned.used_by(stream)?)
    }

    fn launch(&self, frame: &View, image: &View, stream: &Stream) -> Result<()> {
        need(frame, self.frame_bytes, 4, "the frame")?;
        need_exactly(image, self.image_bytes, 2 * self.element.bytes(), "the network's input")?;
        let whole_units = (frame.address() as usize).is_multiple_of(UNIT);
        if let Some(tiled) = self.tiled.as_ref().filter(|_| whole_units) {
            return tiled.launch(frame, image, self.sizes, stream);
        }
        let args = match &self.form {
            Form::Bicubic { values, x: [a, b], groups, y: [c, d, e], longest } => arguments!(
                ["preprocess_bicubic_*"];
                Views[5]([frame, image, values, a, b]),
                I32(*groups),
                Views[3]([c, d, e]),
                I32(*longest),
                Ints[7](self.sizes),
            ),
            Form::Columns { values, x: [a, b, c], y: [d, e, f], longest } => arguments!(
                ["preprocess_columns_*"];
                Views[9]([frame, image, values, a, b, c, d, e, f]),
                I32(*longest),
                Ints[7](self.sizes),
            ),
            Form::Linear { x: [a, b, c], y: [d, e, f], longest, mean_std } => arguments!(
                ["preprocess_linear_*"];
                Views[8]([frame, image, a, b, c, d, e, f]),
                I32(*longest),
                View(mean_std),
                Ints[7](self.sizes),
            ),
        };
        // SAFETY: the arguments are those of the kernel that `name` above picked for this form. It
        // reads the frame where the tables point, which lies inside (`Axis::new`), and the tables
        // themselves, which were made for these sizes; it writes `image_bytes` bytes of the image.
        unsafe { self.function.launch(self.grid, &args, stream) }?;
        Ok(())
    }
}

impl Tiled {
    fn new(
        gpu: &Gpu,
        kernels: &Kernels,
        tiles: &Tiles,
        mean: [f32; 3],
        std: [f32; 3],
        stream: &Stream,
    ) -> Result<Self> {
        let mut made = Tables::default();
        let values = made.words(halves(&tables(mean, std).concat()));
        let places = [&tiles.x, &tiles.y].map(|axis| {
            let taps = axis.taps.iter().flatten().map(|word| word.to_le_bytes());
            [made.ints(axis.spans.iter().flatten().copied()), made.words(taps)]
        });
        let view = made.upload(gpu, stream)?;
        let parts = |[spans, taps]: &[Place; 2]| -> Result<[View; 2]> {
            Ok([spans.of(&view)?, taps.of(&view)?])
        };
        Ok(Self {
            function: kernels.function(Topic::Preprocess, "preprocess_tiles_f16")?,
            grid: tiles.launch()?,
            values: values.of(&view)?,
            x: parts(&places[0])?,
            y: parts(&places[1])?,
            groups: [int(tiles.x.groups, "a support")?, int(tiles.y.groups, "a support")?],
        })
    }

    /// Of a frame that begins at a multiple of 16 bytes.
    fn launch(&self, frame: &View, image: &View, sizes: [i32; 7], stream: &Stream) -> Result<()> {
        let Self { values, x: [spans_x, taps_x], y: [spans_y, taps_y], groups, .. } = self;
        let [width, height, side, ..] = sizes;
        let args = arguments!(
            ["preprocess_tiles_f16"];
            Views[5]([frame, image, values, spans_x, taps_x]),
            I32(groups[0]),
            Views[2]([spans_y, taps_y]),
            I32(groups[1]),
            Ints[3]([width, height, side]),
        );
        // SAFETY: the arguments are the kernel's own. Spans lie inside the frame and take no more
        // rows and bytes than its shared memory holds (`Tiles::of`), and there are taps for each
        // output of the grid's tiles. Image and frame were measured by the caller.
        unsafe { self.function.launch(self.grid, &args, stream) }?;
        Ok(())
    }
}

/// The values of bytes as halves.
fn halves(values: &[f32]) -> impl Iterator<Item = [u8; 2]> {
    values.iter().map(|value| f16::from_f32(*value).to_le_bytes())
}

fn bicubic(
    gpu: &Gpu,
    geometry: &Geometry,
    element: Element,
    mean: [f32; 3],
    std: [f32; 3],
    stream: &Stream,
) -> Result<Form> {
    let ((width, height), content) = (geometry.video_size(), geometry.content());
    let columns = pillow::taps(width, content.width);
    let rows = pillow::taps(height, content.height);
    let (x, y) = (Axis::new(&columns, width)?, Axis::new(&rows, height)?);
    let longest = int(y.longest, "a support")?;
    let values = tables(mean, std).concat();
    let mut made = Tables::default();
    let values = match element {
        Element::F32 => made.floats(values),
        Element::F16 => made.words(halves(&values)),
    };
    let y_places = [made.ints(y.first), made.ints(y.count), made.ints(padded(&rows, y.longest))];
    if pillow::columns_first((width, height), (content.width, content.height)) {
        let weights = transposed(&columns, x.longest);
        let x_places = [made.ints(x.first), made.ints(x.count), made.ints(weights)];
        let view = made.upload(gpu, stream)?;
        let (x, y) = (parts(&x_places, &view)?, parts(&y_places, &view)?);
        return Ok(Form::Columns { values: values.of(&view)?, x, y, longest });
    }
    let groups = x.longest.div_ceil(GROUP);
    // Group by group, then column by column: neighbours in a warp read neighbours.
    let grouped = (0..groups).flat_map(|group| {
        let four = move |weights: &[i32]| {
            (0..GROUP)
                .map(|i| weights.get(GROUP * group + i).copied().unwrap_or(0))
                .collect::<Vec<_>>()
        };
        columns.iter().flat_map(move |(_, weights)| four(weights))
    });
    let x_places = [made.ints(x.first), made.ints(grouped)];
    let view = made.upload(gpu, stream)?;
    Ok(Form::Bicubic {
        values: values.of(&view)?,
        x: [x_places[0].of(&view)?, x_places[1].of(&view)?],
        groups: int(groups, "a support")?,
        y: parts(&y_places, &view)?,
        longest,
    })
}

fn bilinear(
    gpu: &Gpu,
    geometry: &Geometry,
    antialias: bool,
    mean: [f32; 3],
    std: [f32; 3],
    stream: &Stream,
) -> Result<Form> {
    let ((width, height), content) = (geometry.video_size(), geometry.content());
    let columns = linear::taps(antialias, width, content.width);
    let rows = linear::taps(antialias, height, content.height);
    let (x, y) = (Axis::new(&columns, width)?, Axis::new(&rows, height)?);
    let mut made = Tables::default();
    let x_places =
        [made.ints(x.first), made.ints(x.count), made.floats(transposed(&columns, x.longest))];
    let y_places = [made.ints(y.first), made.ints(y.count), made.floats(padded(&rows, y.longest))];
    let mean_std = made.floats(mean.into_iter().chain(std));
    let view = made.upload(gpu, stream)?;
    Ok(Form::Linear {
        x: parts(&x_places, &view)?,
        y: parts(&y_places, &view)?,
        longest: int(y.longest, "a support")?,
        mean_std: mean_std.of(&view)?,
    })
}

fn parts(places: &[Place; 3], view: &View) -> Result<[View; 3]> {
    Ok([places[0].of(view)?, places[1].of(view)?, places[2].of(view)?])
}

/// The weights tap by tap, then position by position, filled up with zeros: neighbours in a warp
/// read neighbours.
fn transposed<W: Copy + Default>(taps: &[(usize, Vec<W>)], longest: usize) -> Vec<W> {
    let of = |tap: usize| taps.iter().map(move |(_, weights)| weights.get(tap).copied());
    (0..longest).flat_map(of).map(Option::unwrap_or_default).collect()
}

/// The weights of each position, filled up with zeros to one length.
fn padded<W: Copy + Default>(taps: &[(usize, Vec<W>)], longest: usize) -> Vec<W> {
    let fill = |weights: &[W]| {
        (0..longest).map(|at| weights.get(at).copied().unwrap_or_default()).collect::<Vec<W>>()
    };
    taps.iter().flat_map(|(_, weights)| fill(weights)).collect()
}
