//! Matches the members of a struct and the alternatives of a union by name.

use std::collections::HashMap;

/// For every wanted member the place of the given one of this name, or none where no given member has it.
///
/// Members of one name are told apart by their order alone: with them, both lists of names must be equal.
///
/// # Errors
///
/// A given member that is not wanted, or a name that stands for two members, in words.
pub(crate) fn places(wanted: &[String], given: &[String]) -> Result<Vec<Option<usize>>, String> {
    if wanted == given {
        return Ok((0..given.len()).map(Some).collect());
    }
    let mut numbers = HashMap::with_capacity(given.len());
    let mut left = HashMap::with_capacity(wanted.len());
    for (number, name) in wanted.iter().enumerate() {
        left.insert(name.as_str(), number);
    }
    let has_every = given.iter().all(|name| left.contains_key(name.as_str()));
    for (number, name) in given.iter().enumerate() {
        numbers.insert(name.as_str(), number);
    }
    if !has_every || left.len() < wanted.len() || numbers.len() < given.len() {
        return Err(format!(
            "its members are {}, and those of the format {}; they are matched by name: rename them",
            list(given),
            list(wanted)
        ));
    }
    let place = |name: &String| numbers.get(name.as_str()).copied();
    Ok(wanted.iter().map(place).collect())
}

/// The first names in words.
fn list(names: &[String]) -> String {
    let shown: Vec<_> = names
        .iter()
        .take(8)
        .map(|name| format!("`{name}`"))
        .collect();
    match names.len() {
        0 => "none".to_owned(),
        count if count > 8 => format!("{} and {} more", shown.join(", "), count - 8),
        _ => shown.join(", "),
    }
}
