//! Damage to bytes, from a seed.

/// Numbers without end from a seed: the same on every machine (SplitMix64).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Less than `bound`; 0 where that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % (bound.max(1) as u64)) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// A stretch of `length` bytes, most often short.
    fn stretch(&mut self, length: usize) -> std::ops::Range<usize> {
        let begin = self.below(length + 1);
        let most = [4, 64, 1024, length][self.below(4)];
        begin..length.min(begin + self.below(most + 1))
    }
}

/// What text may hold and its reader may not expect.
const WORDS: [&str; 33] = [
    "-1",
    "0",
    "1",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "1e999",
    "-0.0",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "null",
    "true",
    "\"\"",
    "''",
    "[]",
    "{}",
    "\"",
    ",",
    "\n",
    "\r\n",
    "\0",
    "..",
    "../../x",
    "/",
    "\u{1b}]0;x\u{7}",
    "\u{202e}",
    "=1+1",
    "%s%n",
    "é",
];
/// What opens a level.
const NESTS: [&str; 7] = ["[", "{\"a\":", "[[", "{a=", "a.", "(", "\""];
/// Numbers that fields of files hold and their readers may not expect.
const NUMBERS: [u64; 10] = [
    0,
    1,
    0x7F,
    0xFF,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    0x1_0000_0000,
    0x7FFF_FFFF_FFFF_FFFF,
    u64::MAX,
];

/// The bytes with one to three changes; never the same bytes.
pub fn change(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for _ in 0..=random.below(3) {
        once(&mut changed, random);
    }
    if changed == bytes {
        changed.push(b'x');
    }
    changed
}

fn once(bytes: &mut Vec<u8>, random: &mut Random) {
    let length = bytes.len();
    let at = random.below(length + 1);
    match random.below(13) {
        0 | 1 => {
            for _ in 0..=random.below(8) {
                let at = random.below(length);
                let bit = 1 << random.below(8);
                bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= bit);
            }
        }
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(random.stretch(length))),
        4 => {
            let stretch = bytes[random.stretch(length)].repeat([1, 1, 2, 50][random.below(4)]);
            insert(bytes, at, &stretch);
        }
        5 => {
            let word = random.one(&WORDS);
            insert(bytes, at, word.as_bytes());
        }
        6 | 7 => replace_number(bytes, random),
        8 => {
            let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)];
            let mut field = number[..width].to_vec();
            if random.below(2) == 1 {
                field.reverse();
            }
            let end = length.min(at + width);
            bytes.splice(at..end, field);
        }
        9 => {
            let nest = random.one(&NESTS).repeat([20, 1000, 100_000][random.below(3)]);
            insert(bytes, at, nest.as_bytes());
        }
        10 => {
            let long = random
                .one(&["A", " ", "9", "é", "\n", "\\"])
                .repeat([300, 5000, 200_000][random.below(3)]);
            insert(bytes, at, long.as_bytes());
        }
        11 => lines(bytes, random),
        _ => {
            let stretch = random.stretch(length);
            let fill = [0, 0xFF, b' ', b'0'][random.below(4)];
            bytes[stretch].fill(fill);
        }
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, more: &[u8]) {
    bytes.splice(at..at, more.iter().copied());
}

/// Puts a word in the place of a number, or of a word.
fn replace_number(bytes: &mut Vec<u8>, random: &mut Random) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let from = random.below(bytes.len());
    let Some(begin) = bytes[from..].iter().position(is_part).map(|at| from + at) else { return };
    let end =
        bytes[begin..].iter().position(|byte| !is_part(byte)).map_or(bytes.len(), |at| begin + at);
    let word = random.one(&WORDS).as_bytes().to_vec();
    bytes.splice(begin..end, word);
}

/// Takes a line away, doubles one, or swaps two.
fn lines(bytes: &mut Vec<u8>, random: &mut Random) {
    let mut lines: Vec<Vec<u8>> =
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let (one, other) = (random.below(lines.len()), random.below(lines.len()));
    if lines.is_empty() {
        return;
    }
    match random.below(3) {
        0 => drop(lines.remove(one)),
        1 => lines.insert(other, lines[one].clone()),
        _ => lines.swap(one, other),
    }
    *bytes = lines.concat();
}
