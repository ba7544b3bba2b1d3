/*!
Fetches result folders from other machines over ssh.

```text
HOST:PATH → script on stdin of `ssh HOST sh` → listing with checksums → what is missing here → tar
stream → files
```

Nothing is written on the other machine: it lists, hashes and packs into the connection. A file gets
its name here when it is complete and its checksum agrees, so the same command continues an
interrupted copy. The other machine is not trusted: only requested files are taken.
*/

mod fetch;
mod listing;
mod manifest;
mod receive;
mod remote;
mod script;
mod ssh;

pub use fetch::{Collected, Options, State, collect};
pub use manifest::{Entry, Manifest};
pub use remote::{BadRemote, Remote};
pub use ssh::Ssh;
