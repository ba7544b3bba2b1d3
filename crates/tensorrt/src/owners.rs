/*!
Objects of TensorRT that other objects need: builder, runtime and engine, each kept alive by every
value that came from it.

Each struct is declared in the order of deletion, as Rust drops fields in that order.
*/

use std::cell::RefCell;
use std::sync::Arc;

use super::allocator::Allocator;
use super::ffi_object::Object;

/// A builder; its networks and configurations share it on one thread.
pub(super) struct BuilderObject {
    pub(super) object: Object,
    /// Deleted after the builder, which calls it.
    pub(super) allocator: RefCell<Option<Allocator>>,
}

/// A runtime; its engines share it.
pub(super) struct RuntimeObject {
    pub(super) object: Object,
    /// Deleted after the runtime, which calls it.
    pub(super) allocator: Option<Allocator>,
}

// SAFETY: TensorRT's objects may be used from any thread as long as uses do not overlap (developer
// guide, "Threading"). Only `Runtime`, which is not Sync, uses this; the last owner drops it.
unsafe impl Send for RuntimeObject {}
// SAFETY: engines that share it only keep it alive.
unsafe impl Sync for RuntimeObject {}

/// An engine; its contexts share it.
pub(super) struct EngineObject {
    pub(super) object: Object,
    pub(super) _runtime: Arc<RuntimeObject>,
}

// SAFETY: an engine belongs to no thread (developer guide, "Threading").
unsafe impl Send for EngineObject {}
// SAFETY: NVIDIA documents the engine's getters and the creation of contexts as thread-safe;
// different threads use different contexts. No method here changes the engine.
unsafe impl Sync for EngineObject {}
