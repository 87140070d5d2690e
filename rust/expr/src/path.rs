//! Paths to columns, and suggestions for misspelt names.

use std::fmt;

/// The name of a column, or the names that lead to a member of a struct.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnPath(Vec<String>);

impl ColumnPath {
    /// A path from its names, outermost first.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    /// The names, outermost first.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// The name of the top level column.
    pub fn root(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// The names joined by dots, as users write them; ambiguous if a name itself holds a dot.
    pub fn dotted(&self) -> String {
        self.0.join(".")
    }
}

/// Words that cannot be a bare name, because the grammar gives them a meaning.
const RESERVED: [&str; 34] = [
    "ALL", "AND", "ANY", "AS", "BETWEEN", "BY", "CASE", "CAST", "DISTINCT", "ELSE", "END",
    "ESCAPE", "EXISTS", "FALSE", "FROM", "GROUP", "HAVING", "ILIKE", "IN", "IS", "JOIN", "LIKE",
    "LIMIT", "NOT", "NULL", "ON", "OR", "ORDER", "SELECT", "THEN", "TRUE", "UNION", "WHEN",
    "WHERE",
];

/// Whether an unquoted word is a keyword rather than a name.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED
        .iter()
        .any(|reserved| reserved.eq_ignore_ascii_case(word))
}

impl fmt::Display for ColumnPath {
    /// SQL: names are quoted where they must be.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, name) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str(".")?;
            }
            let mut chars = name.chars();
            let bare = chars
                .next()
                .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
                && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
                && !is_reserved(name);
            if bare {
                f.write_str(name)?;
            } else {
                write!(f, "\"{}\"", name.replace('"', "\"\""))?;
            }
        }
        Ok(())
    }
}

/// At most three candidates with a small edit distance to `name`, the closest first; messages suggest them for an unknown name.
pub fn similar<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<String> {
    // The distance costs the product of both lengths, so long names are left out.
    const LONGEST_BYTES: usize = 64;
    if name.len() > LONGEST_BYTES {
        return Vec::new();
    }
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    let allowed = (wanted.len() / 3).max(1);
    let mut found: Vec<(usize, &str)> = candidates
        .filter(|candidate| candidate.len() <= LONGEST_BYTES)
        .filter_map(|candidate| {
            let other: Vec<char> = candidate.to_lowercase().chars().collect();
            let distance = edit_distance(&wanted, &other);
            (distance <= allowed).then_some((distance, candidate))
        })
        .collect();
    found.sort();
    found
        .into_iter()
        .take(3)
        .map(|(_, candidate)| candidate.to_owned())
        .collect()
}

/// Insertions, deletions, replacements and exchanges of neighbours that turn one name into the other.
fn edit_distance(left: &[char], right: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    let mut last = None;
    for (i, l) in left.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, r) in right.iter().enumerate() {
            let at =
                |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX - 1);
            let mut best = (at(&row, j) + usize::from(l != r))
                .min(at(&row, j + 1) + 1)
                .min(at(&next, j) + 1);
            let exchanged = j > 0 && last == Some(r) && right.get(j - 1) == Some(l);
            if exchanged {
                best = best.min(at(&before, j - 1) + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
        last = Some(l);
    }
    row.last().copied().unwrap_or(left.len())
}
