//! `segtrt merge` and `segtrt collect`: from folders here and elsewhere to one table.

/// `segtrt collect` through a stand-in for ssh.
#[cfg(unix)]
mod collect;
/// Hosts that send without end, or names that command terminals.
#[cfg(unix)]
mod hostile;
/// `segtrt merge`: the predecessor's bytes and messages, and what it could not do.
mod merge;
