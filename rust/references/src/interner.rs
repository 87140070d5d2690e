//! Texts with numbers: all texts in one buffer, found by hash. Keys and URLs of a set live in two of these.

use std::hash::{BuildHasher, RandomState};

use crate::error::Error;

/// Distinct texts, numbered in the order in which they came.
///
/// A text costs its bytes and 8 to 16 bytes more.
#[derive(Debug, Clone)]
pub(crate) struct Interner {
    text: String,
    ends: Vec<u32>,
    /// Numbers plus one by hash, with linear probing; 0 is free. At most half is used.
    table: Vec<u32>,
    // Keyed by random numbers: nobody can prepare texts that collide.
    hasher: RandomState,
}

impl Default for Interner {
    fn default() -> Self {
        Self {
            text: String::new(),
            ends: Vec::new(),
            table: Vec::new(),
            hasher: RandomState::new(),
        }
    }
}

impl Interner {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, number: usize) -> &str {
        let start = match number.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or_default(),
            None => 0,
        };
        let end = self.ends.get(number).copied().unwrap_or(start);
        self.text
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }

    /// The number of a text that is there.
    pub(crate) fn find(&self, text: &str) -> Option<usize> {
        if self.table.is_empty() {
            return None;
        }
        self.slot(text).ok()
    }

    /// The number of the text, or the free slot where it belongs.
    fn slot(&self, text: &str) -> Result<usize, usize> {
        let mask = self.table.len() - 1;
        let mut at = place(self.hasher.hash_one(text), mask);
        loop {
            match self.table.get(at).copied().unwrap_or_default() {
                0 => return Err(at),
                number if self.get(number as usize - 1) == text => return Ok(number as usize - 1),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// The number of the text, and whether it is new.
    pub(crate) fn insert(&mut self, text: &str) -> Result<(usize, bool), Error> {
        if self.table.len() < (self.ends.len() + 1) * 2 {
            self.grow();
        }
        match self.slot(text) {
            Ok(number) => Ok((number, false)),
            Err(slot) => {
                let number = self.ends.len();
                self.text.push_str(text);
                let full = || Error::Limit {
                    what: "the keys or URLs of a reference set".to_owned(),
                    reason: "they take more than 4 GiB; split the set".to_owned(),
                };
                let end = u32::try_from(self.text.len()).map_err(|_| full())?;
                self.ends.push(end);
                if let Some(slot) = self.table.get_mut(slot) {
                    *slot = u32::try_from(number + 1).map_err(|_| full())?;
                }
                Ok((number, true))
            }
        }
    }

    fn grow(&mut self) {
        let size = (self.table.len() * 2).max(16);
        let mask = size - 1;
        let mut table = vec![0_u32; size];
        for number in 0..self.ends.len() {
            let mut at = place(self.hasher.hash_one(self.get(number)), mask);
            while table.get(at).is_some_and(|it| *it != 0) {
                at = (at + 1) & mask;
            }
            if let Some(slot) = table.get_mut(at) {
                *slot = u32::try_from(number + 1).unwrap_or(u32::MAX);
            }
        }
        self.table = table;
    }

    /// Gives back memory that was kept for more texts.
    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.text.capacity() + 4 * (self.ends.capacity() + self.table.capacity())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the mask keeps the low bits only"
)]
fn place(hash: u64, mask: usize) -> usize {
    hash as usize & mask
}
