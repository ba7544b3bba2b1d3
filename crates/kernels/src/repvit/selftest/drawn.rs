/*!
RepViTs with drawn weights.
*/

use half::f16;

use crate::selftest::{f16_bytes, f32_bytes};
use vos::bundle::trunk::{LayerBytes, RepVitBlock, RepVitWeights, STAGES};
use vos::noise::Noise;

/// Places of a 3 x 3 kernel, and the one of the token itself.
pub const TAPS: usize = 9;
const MIDDLE: usize = 4;

/// A trunk as timm builds it: columns and blocks of each stage, and the side of the first map.
#[derive(Clone, Copy)]
pub struct Model {
    pub name: &'static str,
    pub columns: [usize; STAGES],
    pub depths: [usize; STAGES],
    pub grid: usize,
}

impl Model {
    /// The blocks, and the last one of each stage.
    pub fn blocks(&self) -> (Vec<RepVitBlock>, [usize; STAGES]) {
        let (mut blocks, mut ends) = (Vec::new(), [0; STAGES]);
        let (mut grid, mut dim) = (self.grid, self.columns[0]);
        for (stage, (columns, depth)) in self.columns.into_iter().zip(self.depths).enumerate() {
            let like = |dim: usize, dim_out: usize, grid: usize| RepVitBlock {
                dim,
                dim_out,
                grid,
                stride: 1,
                squeeze: 0,
                hidden: 2 * dim_out,
            };
            if stage > 0 {
                blocks.push(like(dim, dim, grid));
                blocks.push(RepVitBlock { stride: 2, ..like(dim, columns, grid) });
                (dim, grid) = (columns, grid / 2);
            }
            // A quarter of the columns, in eights; every other block squeezes.
            let squeeze = (dim / 4 + 4) / 8 * 8;
            blocks.extend((0..depth).map(|at| RepVitBlock {
                squeeze: if at % 2 == 0 { squeeze } else { 0 },
                ..like(dim, dim, grid)
            }));
            ends[stage] = blocks.len() - 1;
        }
        (blocks, ends)
    }
}

/// A layer's values, as they are stored.
#[derive(Default)]
pub struct Layer {
    pub weight: Vec<f16>,
    pub bias: Vec<f32>,
    bytes: (Vec<u8>, Vec<u8>),
}

/// The layers of one block.
pub struct DrawnBlock {
    pub depthwise: Layer,
    pub squeeze: Option<[Layer; 2]>,
    pub pointwise: Option<Layer>,
    pub up: Layer,
    pub down: Layer,
}

impl Layer {
    /// `gain` times what keeps a sum over `depth` as large as what it is of.
    pub fn drawn(mut noise: Noise, rows: usize, depth: usize, gain: f32) -> Self {
        let weight = noise.halves(rows * depth, gain / (depth as f32).sqrt());
        Self::of(weight, noise.normals(rows).iter().map(|value| 0.2 * value).collect())
    }

    fn of(weight: Vec<f16>, bias: Vec<f32>) -> Self {
        let bytes = (f16_bytes(&weight), f32_bytes(&bias));
        Self { weight, bias, bytes }
    }

    pub fn view(&self) -> LayerBytes<'_> {
        LayerBytes { weight: &self.bytes.0, bias: &self.bytes.1 }
    }
}

impl DrawnBlock {
    pub fn new(seed: u64, name: &str, block: &RepVitBlock) -> Self {
        let RepVitBlock { dim, dim_out, squeeze, hidden, .. } = *block;
        let noise = |what: &str| Noise::new(seed, &format!("repvit {name} {what}"));
        // A token counts as much as all of its neighbours, so that maps keep their size.
        let mut taps = noise("taps").halves(TAPS * dim, 0.25);
        for tap in &mut taps[MIDDLE * dim..(MIDDLE + 1) * dim] {
            *tap = f16::from_f32(tap.to_f32() + 0.7);
        }
        let bias = noise("taps' bias").normals(dim).iter().map(|value| 0.1 * value).collect();
        let layer = |what: &str, rows: usize, depth: usize, gain: f32| {
            Layer::drawn(noise(what), rows, depth, gain)
        };
        Self {
            depthwise: Layer::of(taps, bias),
            // Means are small: their differences would not show otherwise.
            squeeze: (squeeze > 0)
                .then(|| [layer("squeeze", squeeze, dim, 8.0), layer("excite", dim, squeeze, 2.0)]),
            pointwise: block.changes_columns().then(|| layer("pointwise", dim_out, dim, 1.0)),
            up: layer("up", hidden, dim_out, 1.4),
            down: layer("down", dim_out, hidden, 0.7),
        }
    }

    pub fn weights(&self) -> RepVitWeights<'_> {
        let of = |at: usize| self.squeeze.as_ref().map(|both| both[at].view());
        RepVitWeights {
            depthwise: self.depthwise.view(),
            squeeze: of(0),
            excite: of(1),
            pointwise: self.pointwise.as_ref().map(Layer::view),
            up: self.up.view(),
            down: self.down.view(),
        }
    }
}
