/*!
A file's tensors on the device, all of them in one piece of memory, found by their names.
*/

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result, ensure};

use cuda::{Gpu, MemoryTag, Stream, View};
use vos::bundle::FileTensor;

/// What any copy of 16 bytes needs, and whole lines of the caches.
const ALIGNMENT: usize = 128;

/// What scales and what is added.
#[derive(Debug)]
pub(super) struct Affine {
    pub weight: View,
    pub bias: View,
}

/// Where they are.
pub(super) struct Loaded {
    memory: View,
    places: BTreeMap<String, Range<usize>>,
}

impl Loaded {
    /// Brings these tensors to the device, whose bytes `get` knows by name.
    ///
    /// # Errors
    /// One that is missing or of another size, too little memory, or what the driver says.
    pub fn new<'f>(
        gpu: &Gpu,
        tensors: &[FileTensor],
        get: impl Fn(&str) -> Result<&'f [u8]>,
        stream: &Stream,
    ) -> Result<Self> {
        let mut bytes = Vec::new();
        let mut places = BTreeMap::new();
        for tensor in tensors {
            let found = get(&tensor.name)?;
            ensure!(
                found.len() == tensor.bytes(),
                "{} has {} bytes, {} are expected",
                tensor.name,
                found.len(),
                tensor.bytes()
            );
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
            places.insert(tensor.name.clone(), bytes.len()..bytes.len() + found.len());
            bytes.extend_from_slice(found);
        }
        let memory = View::new(&gpu.tagged(MemoryTag::Weights), bytes.len())?;
        memory.upload(&bytes, stream)?;
        Ok(Self { memory, places })
    }

    /// A product's weight has the product's name.
    pub fn product(&self, name: &str) -> Result<Affine> {
        self.both(name, &format!("{name}_bias"))
    }

    pub fn norm(&self, name: &str) -> Result<Affine> {
        self.both(&format!("{name}.weight"), &format!("{name}.bias"))
    }

    pub fn both(&self, weight: &str, bias: &str) -> Result<Affine> {
        Ok(Affine { weight: self.one(weight)?, bias: self.one(bias)? })
    }

    pub fn one(&self, name: &str) -> Result<View> {
        let place = self.places.get(name);
        let place = place.with_context(|| format!("no tensor {name} was loaded"))?;
        Ok(self.memory.part(place.start, place.len())?)
    }
}
