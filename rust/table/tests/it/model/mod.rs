//! A small model of the commit protocol, explored completely: every order in which two or three writers and a cleanup can
//! take their steps, and every step at which one of them can die. A step has the name of the fail point that stands before it
//! in the sources.
//!
//! A world is one state of the model: which manifests, files and rows of the register exist, and which step each process has
//! reached. `check` in `versions` and in `register` says what must hold in every world. Tests plant a fault in each rule of
//! the protocol and show that `check` finds it.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

mod register;
mod versions;

/// A state of the model, with the transitions from it and the rules for it.
trait World: Clone + Eq + Hash + Debug {
    /// Adds the worlds that follow, each with the step that leads to it.
    fn next(&self, to: &mut Vec<(&'static str, Self)>);

    /// # Errors
    /// The rule that this world breaks.
    fn check(&self) -> Result<(), String>;
}

/// Checks every world that can be reached. Returns their number and the steps that were taken.
///
/// # Errors
/// The first world that breaks a rule.
fn explore<W: World>(first: W) -> Result<(usize, HashSet<&'static str>), String> {
    let (mut seen, mut steps) = (HashSet::from([first.clone()]), HashSet::new());
    let (mut open, mut next) = (vec![first], Vec::new());
    while let Some(world) = open.pop() {
        world
            .check()
            .map_err(|wrong| format!("{wrong}: {world:?}"))?;
        world.next(&mut next);
        for (step, world) in next.drain(..) {
            steps.insert(step);
            if seen.insert(world.clone()) {
                open.push(world);
            }
        }
    }
    Ok((seen.len(), steps))
}

/// A set of small numbers.
type Set = u8;

const fn one(number: usize) -> Set {
    1 << number
}

/// The largest of them; 0 without any.
const fn last_of(set: Set) -> usize {
    7_usize.saturating_sub(set.leading_zeros() as usize)
}
