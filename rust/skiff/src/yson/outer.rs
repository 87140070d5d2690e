//! The outermost map of a node: `$other_columns` keeps one value per column in it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::limits::Limits;
use super::read::{Reader, Visitor, validate, visit};
use crate::error::Result;

/// Checks that bytes are exactly one node, and returns the first key of the outermost map that is one of `names`.
///
/// # Errors
///
/// As [`validate`].
pub(crate) fn declared_key(
    bytes: &[u8],
    limits: Limits,
    names: Option<&HashSet<Vec<u8>>>,
) -> Result<Option<Vec<u8>>> {
    let Some(names) = names.filter(|_| bytes.len() > 2) else {
        return validate(bytes, limits).map(|()| None);
    };
    let mut keys = OuterKeys {
        names,
        depth: 0,
        found: None,
    };
    visit(bytes, limits, &mut keys)?;
    Ok(keys.found)
}

/// Looks for names among the keys of the outermost map.
struct OuterKeys<'a> {
    names: &'a HashSet<Vec<u8>>,
    depth: usize,
    found: Option<Vec<u8>>,
}

impl Visitor for OuterKeys<'_> {
    fn begin_list(&mut self) {
        self.depth += 1;
    }
    fn end_list(&mut self) {
        self.depth -= 1;
    }
    fn begin_map(&mut self) {
        self.depth += 1;
    }
    fn end_map(&mut self) {
        self.depth -= 1;
    }
    fn begin_attributes(&mut self) {
        self.depth += 1;
    }
    fn end_attributes(&mut self) {
        self.depth -= 1;
    }
    fn key(&mut self, key: &[u8]) {
        if self.depth == 1 && self.found.is_none() && self.names.contains(key) {
            self.found = Some(key.to_vec());
        }
    }
}

/// A map whose entries can be taken out one by one; the bytes of the others stay as they are.
pub(crate) struct OuterMap<'a> {
    bytes: &'a [u8],
    /// For every entry, in document order: its bytes, and whether it was taken out.
    entries: Vec<(Range<usize>, bool)>,
    /// Bytes of the values of the wanted keys, and the number of their entry.
    values: Vec<Option<(usize, Range<usize>)>>,
}

impl<'a> OuterMap<'a> {
    /// Reads a map without attributes and takes the entries of the wanted keys out of it, which are numbered by `wanted`.
    ///
    /// # Errors
    ///
    /// As [`validate`].
    pub(crate) fn try_new(
        bytes: &'a [u8],
        limits: Limits,
        wanted: &HashMap<Vec<u8>, usize>,
    ) -> Result<Self> {
        let mut map = Self {
            bytes,
            entries: Vec::new(),
            values: vec![None; wanted.len()],
        };
        for (number, entry) in Reader::new(bytes, limits)
            .entries()?
            .into_iter()
            .enumerate()
        {
            let place = wanted.get(entry.key.as_ref() as &[u8]);
            // Of equal keys the last one counts: it replaces the value of an earlier one.
            if let Some(slot) = place.and_then(|place| map.values.get_mut(*place)) {
                *slot = Some((number, entry.value));
            }
            map.entries.push((entry.pair, place.is_some()));
        }
        Ok(map)
    }

    /// The bytes of the value of a wanted key.
    pub(crate) fn value(&self, number: usize) -> Option<&'a [u8]> {
        let (_, range) = self.values.get(number)?.as_ref()?;
        self.bytes.get(range.clone())
    }

    /// Puts the entry of a wanted key back.
    pub(crate) fn put_back(&mut self, number: usize) {
        if let Some(Some((entry, _))) = self.values.get(number)
            && let Some((_, is_taken)) = self.entries.get_mut(*entry)
        {
            *is_taken = false;
        }
    }

    /// Appends the map without the entries that were taken out, and with more of them, each of which ends with `;`.
    pub(crate) fn write(&self, more: &[u8], out: &mut Vec<u8>) {
        if more.is_empty() && self.entries.iter().all(|(_, is_taken)| !is_taken) {
            out.extend_from_slice(self.bytes);
            return;
        }
        out.push(b'{');
        for (pair, _) in self.entries.iter().filter(|(_, is_taken)| !is_taken) {
            out.extend_from_slice(self.bytes.get(pair.clone()).unwrap_or_default());
            out.push(b';');
        }
        out.extend_from_slice(more);
        out.push(b'}');
    }
}
