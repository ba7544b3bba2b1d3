/*!
`track`: one clip of the user's, prompts from the command line, and files to look at.

[`job`] says what is wanted, [`worker`] loads the model and tracks in a process of its own,
[`prompts`] checks the prompts against the clip, [`output`] writes masks, lines and overlay frame by
frame. The tracker is the bench's.
*/

pub mod job;
mod output;
mod prompts;
mod truth;
pub mod worker;
