/*!
Random numbers from a fixed seed: the same on every machine, and of their own for every tensor, so that one more tensor
changes no other.
*/

/// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016).
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
        let mut noise = Self(hash | 1);
        // The first numbers still show how similar two names are.
        (0..16).for_each(|_| _ = noise.bits());
        noise
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

    /// Nearly normal, mean 0 and deviation 1, within ±6: twelve uniform numbers less six. Only sums, which are exact
    /// alike everywhere; a logarithm may differ in its last bit from one C library to the next.
    pub fn normal(&mut self) -> f32 {
        // Twelve 16-bit numbers out of three draws; half a step more makes the mean exactly 0.
        // Written out: inputs have many millions of them, and each step of an iterator is a call in a build without optimisation.
        let (mut sum, mut draws) = (0, 0);
        while draws < 3 {
            let bits = self.bits();
            sum += (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
            draws += 1;
        }
        ((sum as f64 + 6.0) / 65536.0 - 6.0) as f32
    }

    /// `count` nearly normal numbers.
    pub fn normals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.normal()).collect()
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
