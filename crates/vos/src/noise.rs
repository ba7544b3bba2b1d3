/*!
Random numbers from a fixed seed, identical on every machine. Each tensor has its own stream, so
that another tensor changes no numbers.
*/

use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

/// Numbers of one stream when there are many.
const CHUNK: usize = 4096;

/// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled",
/// 2016).
#[derive(Clone, Debug)]
pub struct Noise(u64);

impl Noise {
    /// The stream called `name`.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a spreads seed and name over the state, which must not be 0.
        let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
        let hash = bytes.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        Self::begun(hash)
    }

    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Uniform in [low, high).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.bits() >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// Approximately normal, mean 0 and deviation 1, within ±6: twelve uniform numbers minus six.
    /// It uses only sums, which are exact everywhere; a logarithm may differ in its last bit
    /// between C libraries.
    pub fn normal(&mut self) -> f32 {
        // Twelve 16-bit numbers from three draws; half a step makes the mean exactly 0. The steps
        // are written out because inputs have many millions of numbers, and each step of an
        // iterator is a call in an unoptimised build.
        let (mut sum, mut draws) = (0, 0);
        while draws < 3 {
            let bits = self.bits();
            sum += (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
            draws += 1;
        }
        ((sum as f64 + 6.0) / 65536.0 - 6.0) as f32
    }

    /// `count` approximately normal numbers.
    pub fn normals(&mut self, count: usize) -> Vec<f32> {
        self.many(count, |chunk, noise| chunk.iter_mut().for_each(|value| *value = noise.normal()))
    }

    /// `count` approximately normal f16 numbers with this deviation.
    pub fn halves(&mut self, count: usize, deviation: f32) -> Vec<f16> {
        self.many(count, |chunk, noise| {
            let mut values = [0.0; CHUNK];
            let values = &mut values[..chunk.len()];
            values.iter_mut().for_each(|value| *value = deviation * noise.normal());
            chunk.convert_from_f32_slice(values);
        })
    }

    /// Numbers of any kind, generated in parallel: each chunk has a stream whose seed is drawn from
    /// this one, so the result does not depend on the number of CPU cores.
    fn many<T: Clone + Default + Send>(
        &mut self,
        count: usize,
        draw: impl Fn(&mut [T], &mut Self) + Sync,
    ) -> Vec<T> {
        let begin: Vec<u64> = (0..count.div_ceil(CHUNK)).map(|_| self.bits()).collect();
        let mut values = vec![T::default(); count];
        let chunks = values.par_chunks_mut(CHUNK).zip(begin);
        chunks.for_each(|(chunk, begin)| draw(chunk, &mut Self::begun(begin)));
        values
    }

    fn begun(state: u64) -> Self {
        let mut noise = Self(state | 1);
        // The first numbers would still show the similarity of two seeds.
        (0..16).for_each(|_| _ = noise.bits());
        noise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_gives_the_same_numbers_and_another_name_others() {
        let draw = |seed, name| Noise::new(seed, name).normals(100);
        assert_eq!(draw(7, "mem"), draw(7, "mem"));
        assert_ne!(draw(7, "mem"), draw(7, "ptrs"));
        assert_ne!(draw(7, "mem"), draw(8, "mem"));
    }

    #[test]
    fn many_numbers_are_the_same_on_any_number_of_processors_and_no_chunk_is_another() {
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| Noise::new(7, "mem").normals(5 * CHUNK / 2))
        };
        let values = on(1);
        assert_eq!(values, on(3));
        assert_ne!(values[..100], values[CHUNK..CHUNK + 100]);
        let mut noise = Noise::new(7, "mem");
        noise.normals(10);
        assert_ne!(noise.normals(10), values[..10], "the next ones differ");
        let halves = Noise::new(7, "mem").halves(values.len(), 0.5);
        let halved = values.iter().map(|value| f16::from_f32(0.5 * value));
        assert!(halves.iter().copied().eq(halved));
    }

    #[test]
    fn normals_have_mean_zero_and_deviation_one() {
        let values: Vec<f64> =
            Noise::new(1, "image").normals(100_000).into_iter().map(f64::from).collect();
        let mean = crate::stats::mean(&values).unwrap();
        let deviation = crate::stats::population_std(&values).unwrap();
        assert!(mean.abs() < 0.02 && (deviation - 1.0).abs() < 0.02, "{mean} {deviation}");
    }

    #[test]
    fn uniform_numbers_fill_their_range() {
        let mut noise = Noise::new(1, "coords");
        let values: Vec<f64> = (0..10_000).map(|_| noise.between(-3.0, 5.0)).collect();
        assert!(values.iter().all(|v| (-3.0..5.0).contains(v)));
        assert!(values.iter().any(|v| *v < -2.9) && values.iter().any(|v| *v > 4.9));
    }
}
