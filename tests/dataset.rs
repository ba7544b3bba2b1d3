/*!
Splits on disk. `disk` builds small ones; each topic has its module.
*/

mod davis;
mod disk;
mod faults;
pub mod film;
mod golden;
mod overlay;
mod sav;
mod select;
mod synth;
mod youtube_vos;
