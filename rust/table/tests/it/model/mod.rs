//! A small model of the commit protocol, explored to the end: every order in which two or three writers and a cleanup
//! can take their steps, with each of them ending at each step. Steps have the names of the fail points that stand
//! before them in the sources.
//!
//! A world is everything that matters: which manifests, files and rows of the register there are, and how far
//! everybody is. What must hold in every world is in the `check` of `versions` and of `register`; a fault planted in one rule is
//! found, which shows that the rules are looked at.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

mod register;
mod versions;

/// A state with all that may happen next.
trait World: Clone + Eq + Hash + Debug {
    /// Adds what may happen next: the step and what it makes of this world.
    fn next(&self, to: &mut Vec<(&'static str, Self)>);

    /// What is wrong here.
    fn check(&self) -> Result<(), String>;
}

/// Looks at every world that can be reached. Gives their number and the steps that were taken, or the first that is
/// wrong.
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
