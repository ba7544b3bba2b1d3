//! One integration binary; each topic is a module.
