/*!
Numbers of tasks as Slurm writes them: `1-3,7`.
*/

use std::fmt;

/// Tasks of an array.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a>(pub &'a [usize]);

impl fmt::Display for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a + 1 == *b);
        for (at, run) in runs.enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            match run {
                [first, .., last] => write!(f, "{first}-{last}")?,
                [only] => write!(f, "{only}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_written_as_ranges() {
        assert_eq!(Array(&[1, 2, 3, 7]).to_string(), "1-3,7");
        assert_eq!(Array(&[2]).to_string(), "2");
        assert_eq!(Array(&[1, 3, 5, 6]).to_string(), "1,3,5-6");
    }
}
