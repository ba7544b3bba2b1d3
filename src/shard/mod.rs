/*!
One part of a run's clips, so that several GPUs or machines share them, and the parts' results as
one run again.

```text
selected clips ─→ partition ─→ Shard 1/N … N/N ─→ a bench each, in a folder each ─→ merge ─→ one run folder
```

[`partition`] is the same in every process, so nothing has to be handed around; [`devices`] runs a
shard on each GPU of this host; [`merge`] puts journals together, so that every table is what one
bench would have written.
*/

pub mod devices;
mod head;
mod merge;
mod partition;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use head::joined as joined_environment;
pub use merge::{Merged, merge};
pub use partition::partition;

/// More parts than this are a slip of the keyboard.
const MOST: usize = 10_000;

/// One of the parts, `2/5` on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which, from 1.
    pub part: usize,
    /// Of how many.
    pub of: usize,
}

impl Shard {
    /// All parts of a run.
    pub fn all(of: usize) -> impl Iterator<Item = Self> {
        (1..=of).map(move |part| Self { part, of })
    }

    /// The name of its folder.
    pub fn folder(self) -> String {
        format!("{}-of-{}", self.part, self.of)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "write I/N, such as 2/5 for the second of five parts";
        let (part, of) = text.split_once('/').ok_or_else(|| wanted.to_owned())?;
        let number = |text: &str| text.parse::<usize>().map_err(|_| wanted.to_owned());
        let shard = Self { part: number(part)?, of: number(of)? };
        match shard {
            Self { of, .. } if of > MOST => Err(format!("{of} parts are too many; at most {MOST}")),
            Self { part: 0, .. } => Err("parts are counted from 1".to_owned()),
            Self { part, of } if part > of => {
                Err(format!("there is no part {part} of {of}; {wanted}"))
            }
            shard => Ok(shard),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_one_of_those_that_there_are() {
        let shard: Shard = "2/5".parse().unwrap();
        assert_eq!(
            (shard, shard.to_string(), shard.folder()),
            (Shard { part: 2, of: 5 }, "2/5".into(), "2-of-5".into())
        );
        for (text, why) in [
            ("0/4", "counted from 1"),
            ("5/4", "no part 5 of 4"),
            ("0/0", "counted from 1"),
            ("4", "write I/N"),
            ("a/b", "write I/N"),
            ("-1/4", "write I/N"),
            ("1/4/2", "write I/N"),
            ("1/99999", "too many"),
        ] {
            let error = text.parse::<Shard>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert_eq!(Shard::all(2).map(Shard::folder).collect::<Vec<_>>(), ["1-of-2", "2-of-2"]);
    }
}
