/*!
Kinds of cases as words on the command line.
*/

use clap::ValueEnum;
use clap::builder::PossibleValue;

use kernels::selftest::{self, TOPICS};

/// A kind of cases.
#[derive(Clone, Copy, Debug)]
pub struct Topic(&'static selftest::Topic);

/// Those of the crate `kernels`.
static ALL: [Topic; TOPICS.len()] = {
    let mut all = [Topic(&TOPICS[0]); TOPICS.len()];
    let mut at = 0;
    while at < TOPICS.len() {
        all[at] = Topic(&TOPICS[at]);
        at += 1;
    }
    all
};

impl Topic {
    pub(super) fn of(self) -> &'static selftest::Topic {
        self.0
    }

    /// The kind with this word; none of another word.
    pub fn named(word: &str) -> Option<Self> {
        ALL.iter().copied().find(|topic| topic.0.word == word)
    }
}

impl ValueEnum for Topic {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.word).help(self.0.help))
    }
}
