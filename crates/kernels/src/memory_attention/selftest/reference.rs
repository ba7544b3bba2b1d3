/*!
The pieces of a memory attention in float64, token by token. Nothing is rounded on the way.
*/

use super::drawn::Drawn;
use crate::MemoryAttentionPiece as Piece;
use crate::selftest::f64_reference::{dot, layer_norm};
use vos::bundle::memory_attention::{MEMORY, TURNING, WIDTH};

/// As in the model.
const EPSILON: f64 = 1e-5;
/// From a column to the other of its pair.
const PARTNER: usize = WIDTH / 2;

/// Elements and their places: of the tokens, and of queries, keys and values, as many as there are.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    pub y: Vec<(usize, f64)>,
    pub sections: Vec<Vec<(usize, f64)>>,
}

impl Drawn {
    /// What a piece gives for these tokens.
    pub fn expected(&self, piece: Piece, sample: &[usize]) -> Expected {
        let mut expected = Expected::default();
        for token in sample {
            let (y, projected) = self.token(piece, *token);
            let placed = |first: usize, row: &[f64]| -> Vec<(usize, f64)> {
                row.iter().enumerate().map(|(column, value)| (first + column, *value)).collect()
            };
            expected.y.extend(placed(token * WIDTH, &y));
            let sections = projected.chunks(WIDTH).enumerate();
            for (at, section) in sections {
                if expected.sections.len() == at {
                    expected.sections.push(Vec::new());
                }
                let first = (at * self.shape.tokens() + token) * WIDTH;
                expected.sections[at].extend(placed(first, section));
            }
        }
        expected
    }

    /// A token, and what is projected of it.
    fn token(&self, piece: Piece, token: usize) -> (Vec<f64>, Vec<f64>) {
        let tokens = self.shape.tokens();
        let row = |values: &[half::f16], columns: usize| -> Vec<f64> {
            values[token * columns..][..columns].iter().map(|value| value.to_f64()).collect()
        };
        match piece {
            Piece::Start => {
                let positions = self.get("positions");
                let column = |at: usize| {
                    self.x[at * tokens + token].to_f64() + f64::from(positions[at * tokens + token])
                };
                let y: Vec<f64> = (0..WIDTH).map(column).collect();
                let projected = self.projected(0, "norm1", "qkv", &y, token);
                (y, projected)
            }
            Piece::Query(layer) => self.queried(layer, token, &row(&self.attended[0], WIDTH)),
            Piece::Finish(layer) => {
                let bank = row(&self.attended[1], MEMORY);
                let y = self.finished(layer, &row(&self.x, WIDTH), &bank);
                let projected = self.projected(layer + 1, "norm1", "qkv", &y, token);
                (y, projected)
            }
            Piece::Last => {
                let bank = row(&self.attended[1], MEMORY);
                let y = self.finished(self.shape.layers - 1, &row(&self.x, WIDTH), &bank);
                let norm = layer_norm(&y, self.get("norm.weight"), self.get("norm.bias"), EPSILON);
                (norm, Vec::new())
            }
        }
    }

    /// A token behind a layer's self-attention, and its query.
    pub fn queried(&self, layer: usize, token: usize, frame: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let x = &self.x[token * WIDTH..][..WIDTH];
        let y: Vec<f64> = x.iter().zip(frame).map(|(a, b)| a.to_f64() + b).collect();
        let projected = self.projected(layer, "norm2", "query", &y, token);
        (y, projected)
    }

    /// Behind the attention to the bank and the MLP of a layer.
    fn finished(&self, layer: usize, x: &[f64], bank: &[f64]) -> Vec<f64> {
        let [sum, normed] = self.ended(layer, x, bank);
        let mut hidden = self.product(layer, "up", &normed);
        hidden.iter_mut().for_each(|value| *value = value.max(0.0));
        let down = self.product(layer, "down", &hidden);
        sum.iter().zip(&down).map(|(a, b)| a + b).collect()
    }

    /// The sum behind the attention to the bank, and its norm in front of the MLP.
    pub fn ended(&self, layer: usize, x: &[f64], bank: &[f64]) -> [Vec<f64>; 2] {
        let value = self.product(layer, "value", bank);
        let sum: Vec<f64> = x.iter().zip(&value).map(|(a, b)| a + b).collect();
        let normed = self.normed(layer, "norm3", &sum);
        [sum, normed]
    }

    fn normed(&self, layer: usize, norm: &str, x: &[f64]) -> Vec<f64> {
        let of = |part: &str| self.get(&format!("layers.{layer}.{norm}.{part}"));
        layer_norm(x, of("weight"), of("bias"), EPSILON)
    }

    fn product(&self, layer: usize, name: &str, x: &[f64]) -> Vec<f64> {
        let weight = self.get(&format!("layers.{layer}.{name}"));
        let bias = self.get(&format!("layers.{layer}.{name}_bias"));
        let rows = weight.chunks(x.len()).zip(bias);
        rows.map(|(row, bias)| dot(x, row) + f64::from(*bias)).collect()
    }

    /// Queries, and keys and values where there are any; the first two are turned by the token's
    /// place.
    fn projected(&self, layer: usize, norm: &str, name: &str, y: &[f64], token: usize) -> Vec<f64> {
        let mut all = self.product(layer, name, &self.normed(layer, norm, y));
        let (grid, turns) = (self.shape.grid, self.get("turns"));
        for section in all.chunks_mut(WIDTH).take(2) {
            for pair in 0..PARTNER {
                let place = if pair < TURNING { token % grid } else { token / grid };
                let at = 2 * (place * TURNING + pair % TURNING);
                let [cos, sin] = [turns[at], turns[at + 1]].map(f64::from);
                let (a, b) = (section[pair], section[pair + PARTNER]);
                (section[pair], section[pair + PARTNER]) = (a * cos - b * sin, a * sin + b * cos);
            }
        }
        all
    }
}
