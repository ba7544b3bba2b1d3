/*!
Fetches result folders from other machines over ssh.

```text
HOST:PATH → script on stdin of `ssh HOST sh` → listing with checksums → what is missing here → tar stream → files
```

Nothing is written on the other machine: it lists, hashes and packs into the connection. A file
appears here under its name only when all of it has come and its checksum agrees, so a copy that was
broken off is gone on with by running the same command again. What the other machine sends is not
trusted: only files that were asked for are taken.
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
