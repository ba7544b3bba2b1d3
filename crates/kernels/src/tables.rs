/*!
Tables on the device: several arrays in one block of memory.
*/

use std::ops::Range;

use anyhow::{Result, ensure};

use cuda::{Gpu, Stream, View};

/// What vector loads of 16 bytes need.
const ALIGNMENT: usize = 16;

/// Arrays on their way to the device.
#[derive(Default)]
pub(super) struct Tables {
    bytes: Vec<u8>,
}

/// Where an array lies among the others.
pub(super) struct Place(Range<usize>);

impl Tables {
    pub fn ints(&mut self, values: impl IntoIterator<Item = i32>) -> Place {
        self.words(values.into_iter().map(i32::to_le_bytes))
    }

    pub fn floats(&mut self, values: impl IntoIterator<Item = f32>) -> Place {
        self.words(values.into_iter().map(f32::to_le_bytes))
    }

    /// Arrays of any fixed size, one after the other.
    pub fn words<const N: usize>(&mut self, values: impl IntoIterator<Item = [u8; N]>) -> Place {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let start = self.bytes.len();
        self.bytes.extend(values.into_iter().flatten());
        Place(start..self.bytes.len())
    }

    /// Brings all arrays to the device; their places then name parts of the view.
    pub fn upload(self, gpu: &Gpu, stream: &Stream) -> Result<View> {
        let view = View::new(gpu, self.bytes.len())?;
        view.upload(&self.bytes, stream)?;
        Ok(view)
    }
}

impl Place {
    /// The array itself.
    pub fn of(&self, tables: &View) -> Result<View> {
        Ok(tables.part(self.0.start, self.0.len())?)
    }
}

/// The taps of an axis as arrays: first positions, counts, and the longest count.
pub(super) struct Axis {
    pub first: Vec<i32>,
    pub count: Vec<i32>,
    pub longest: usize,
}

impl Axis {
    /// `length`: positions of the input.
    pub fn new<W>(taps: &[(usize, Vec<W>)], length: usize) -> Result<Self> {
        let mut axis = Self { first: Vec::new(), count: Vec::new(), longest: 0 };
        for (first, weights) in taps {
            ensure!(first + weights.len() <= length, "a weight lies outside the frame");
            axis.first.push(super::int(*first, "a position")?);
            axis.count.push(super::int(weights.len(), "a support")?);
            axis.longest = axis.longest.max(weights.len());
        }
        Ok(axis)
    }
}
