/*!
CPython's `random.shuffle`, bit for bit, so that `--seed` selects the same videos as in the
predecessor.

The generator is MT19937 (M. Matsumoto and T. Nishimura, "Mersenne Twister",
ACM TOMACS 8, 1998) with their `init_by_array`; how CPython seeds it from an
integer and draws below a bound is described in its `random` module
(`Modules/_randommodule.c`, `Lib/random.py`, 3.11).
*/

const LENGTH: usize = 624;
const SHIFT: usize = 397;

/// The Mersenne Twister as `random.Random(seed)` starts it.
#[derive(Clone)]
pub struct Mt19937 {
    state: [u32; LENGTH],
    next: usize,
}

impl Mt19937 {
    /// The generator after `random.seed(seed)`: the key is |seed| in 32-bit words, lowest first.
    pub fn new(seed: i64) -> Self {
        let magnitude = seed.unsigned_abs();
        let words = [magnitude as u32, (magnitude >> 32) as u32];
        Self::from_key(if words[1] == 0 { &words[..1] } else { &words })
    }

    fn from_word(word: u32) -> Self {
        let mut state = [word; LENGTH];
        for i in 1..LENGTH {
            let last = state[i - 1];
            state[i] = (last ^ last >> 30).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self { state, next: LENGTH }
    }

    /// `init_by_array` of the reference implementation.
    fn from_key(key: &[u32]) -> Self {
        let mut this = Self::from_word(19_650_218);
        let state = &mut this.state;
        let (mut i, mut j) = (1, 0);
        for _ in 0..LENGTH.max(key.len()) {
            let mixed = (state[i - 1] ^ state[i - 1] >> 30).wrapping_mul(1_664_525);
            state[i] = (state[i] ^ mixed).wrapping_add(key[j]).wrapping_add(j as u32);
            i = step(i, state);
            j = (j + 1) % key.len();
        }
        for _ in 1..LENGTH {
            let mixed = (state[i - 1] ^ state[i - 1] >> 30).wrapping_mul(1_566_083_941);
            state[i] = (state[i] ^ mixed).wrapping_sub(i as u32);
            i = step(i, state);
        }
        state[0] = 0x8000_0000;
        this
    }

    /// The next 32 random bits (`genrand_uint32`).
    pub fn next_u32(&mut self) -> u32 {
        if self.next == LENGTH {
            self.twist();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= y << 7 & 0x9D2C_5680;
        y ^= y << 15 & 0xEFC6_0000;
        y ^ y >> 18
    }

    /// A number in 0..bound, by CPython's rejection of draws that are too large. `bound` must be 1
    /// to 2³² - 1.
    pub fn below(&mut self, bound: u32) -> u32 {
        debug_assert!(bound > 0);
        let shift = bound.leading_zeros();
        loop {
            let drawn = self.next_u32() >> shift;
            if drawn < bound {
                return drawn;
            }
        }
    }

    fn twist(&mut self) {
        for i in 0..LENGTH {
            let y = self.state[i] & 0x8000_0000 | self.state[(i + 1) % LENGTH] & 0x7FFF_FFFF;
            let odd = if y & 1 == 1 { 0x9908_B0DF } else { 0 };
            self.state[i] = self.state[(i + SHIFT) % LENGTH] ^ y >> 1 ^ odd;
        }
        self.next = 0;
    }
}

/// The next index of `init_by_array`; the last word is carried over when it wraps.
fn step(i: usize, state: &mut [u32; LENGTH]) -> usize {
    if i + 1 < LENGTH {
        return i + 1;
    }
    state[0] = state[LENGTH - 1];
    1
}

/// `random.seed(seed); random.shuffle(items)`.
pub fn shuffle<T>(items: &mut [T], seed: i64) {
    let mut random = Mt19937::new(seed);
    for i in (1..items.len()).rev() {
        let j = random.below(i as u32 + 1);
        items.swap(i, j as usize);
    }
}
