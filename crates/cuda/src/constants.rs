/*!
Device memory that is filled once and only read from then on, such as weights: pipelines of one
process can share it, which also leaves more of the GPU's cache to them.
*/

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A hash of the contents.
pub type ContentHash = [u8; 32];

/// The blocks that somebody holds, by the hash of their contents.
#[derive(Clone, Debug, Default)]
pub(super) struct Constants(Arc<Mutex<BTreeMap<ContentHash, Weak<dyn Any + Send + Sync>>>>);

impl Constants {
    /// The block with these contents, else the one that `make` makes and fills. Others wait
    /// meanwhile, so that none is made twice.
    ///
    /// # Errors
    /// Those of `make`.
    pub(super) fn get<T: Send + Sync + 'static, E>(
        &self,
        contents: ContentHash,
        make: impl FnOnce() -> Result<Arc<T>, E>,
    ) -> Result<Arc<T>, E> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = held.get(&contents).and_then(Weak::upgrade);
        if let Some(block) = found.and_then(|block| block.downcast().ok()) {
            return Ok(block);
        }
        let made = make()?;
        let weak: Weak<T> = Arc::downgrade(&made);
        held.insert(contents, weak);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_made_again() {
        let all = Constants::default();
        let get = |contents: u8, value: u32| -> Result<Arc<u32>, &str> {
            all.get(
                [contents; 32],
                || if value == 0 { Err("no memory") } else { Ok(Arc::new(value)) },
            )
        };
        let first = get(1, 7).unwrap();
        assert!(Arc::ptr_eq(&first, &get(1, 8).unwrap()));
        assert_eq!(*get(2, 9).unwrap(), 9);
        drop(first);
        assert_eq!(get(1, 0), Err("no memory"));
        assert_eq!(*get(1, 8).unwrap(), 8);
    }
}
