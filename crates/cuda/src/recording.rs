/*!
Recording beside other threads: the driver refuses to wait for a context while any of its streams
records, and the recording is lost.
*/

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Held by each thread that records, and alone by one that waits for the whole device.
static RECORDING: RwLock<()> = RwLock::new(());

/// A thread records as long as the result lives.
pub(super) fn recording() -> RwLockReadGuard<'static, ()> {
    RECORDING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until no thread records; none begins as long as the result lives.
pub(super) fn none_records() -> RwLockWriteGuard<'static, ()> {
    RECORDING.write().unwrap_or_else(PoisonError::into_inner)
}
