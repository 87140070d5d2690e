//! What tests of this crate and of those above it need: the suite that every store passes, a store that does as a
//! script says, and a record of what a disk was told, with what a power cut may leave of it.

mod clock;
mod conformance;
pub mod power;
pub mod record;
mod scripted;

pub(crate) use clock::stands_still;
pub use clock::{StillClock, stand_still};
pub use conformance::conformance;
pub(crate) use scripted::ScriptedFolder;
pub use scripted::{Fate, Late, Obedient, Script, Verb};
