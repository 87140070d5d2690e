//! Numbers distinct texts: all texts lie in one buffer and are found by hash. Keys and URLs of a set live in two of these.

use std::hash::BuildHasher;

use ahash::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use pilum_common::Error as CommonError;

use crate::error::Error;

/// Distinct texts, numbered in the order in which they came.
///
/// A text costs its bytes and 10 to 15 bytes more.
#[derive(Debug, Clone)]
pub(crate) struct Interner {
    texts: Texts,
    numbers: HashTable<u32>,
    // Keyed by random numbers: nobody can prepare texts that collide.
    hasher: RandomState,
}

/// Texts one after the other.
#[derive(Debug, Clone, Default)]
struct Texts {
    text: String,
    ends: Vec<u32>,
}

impl Texts {
    fn get(&self, number: usize) -> &str {
        let start = match number.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or_default(),
            None => 0,
        };
        let end = self.ends.get(number).copied().unwrap_or(start);
        self.text
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }
}

impl Default for Interner {
    fn default() -> Self {
        Self {
            texts: Texts::default(),
            numbers: HashTable::new(),
            hasher: keyed(),
        }
    }
}

/// A hasher keyed by random numbers of the standard library's.
fn keyed() -> RandomState {
    let random = std::collections::hash_map::RandomState::new();
    let [a, b, c, d] = [0_u8, 1, 2, 3].map(|it| random.hash_one(it));
    RandomState::with_seeds(a, b, c, d)
}

impl Interner {
    pub(crate) fn len(&self) -> usize {
        self.texts.ends.len()
    }

    pub(crate) fn get(&self, number: usize) -> &str {
        self.texts.get(number)
    }

    /// The number of a text that is there.
    pub(crate) fn find(&self, text: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(text);
        let is_same = |number: &u32| self.texts.get(*number as usize) == text;
        self.numbers.find(hash, is_same).map(|it| *it as usize)
    }

    /// Makes room for twice as many texts.
    ///
    /// The table would grow by itself, and walk through its slots for that: the hash of each is that of a text somewhere else in
    /// memory. Here the texts are walked through in their order.
    #[cold]
    fn grow(&mut self) {
        let Self {
            texts,
            numbers,
            hasher,
        } = self;
        let hash = |number: &u32| hasher.hash_one(texts.get(*number as usize));
        let mut grown = HashTable::with_capacity((2 * texts.ends.len()).max(64));
        for number in (0..=u32::MAX).take(texts.ends.len()) {
            grown.insert_unique(hash(&number), number, hash);
        }
        *numbers = grown;
    }

    /// The number of the text, and whether it is new.
    pub(crate) fn insert(&mut self, text: &str) -> Result<(usize, bool), Error> {
        if self.numbers.len() == self.numbers.capacity() {
            self.grow();
        }
        let Self {
            texts,
            numbers,
            hasher,
        } = self;
        let is_same = |number: &u32| texts.get(*number as usize) == text;
        let hash = |number: &u32| hasher.hash_one(texts.get(*number as usize));
        let free = match numbers.entry(hasher.hash_one(text), is_same, hash) {
            Entry::Occupied(found) => return Ok((*found.get() as usize, false)),
            Entry::Vacant(free) => free,
        };
        let full = || {
            let what = "text of all keys or URLs of a reference set";
            Error::from(CommonError::limit(what, "more than 4 GiB", "4 GiB"))
        };
        let number = texts.ends.len();
        let end = u32::try_from(texts.text.len() + text.len()).map_err(|_| full())?;
        free.insert(u32::try_from(number).map_err(|_| full())?);
        texts.text.push_str(text);
        texts.ends.push(end);
        Ok((number, true))
    }

    /// Gives back memory that was kept for more texts.
    pub(crate) fn shrink(&mut self) {
        self.texts.text.shrink_to_fit();
        self.texts.ends.shrink_to_fit();
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.texts.text.capacity() + 4 * self.texts.ends.capacity() + self.numbers.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_their_numbers_while_the_table_grows() {
        let mut texts = Interner::default();
        let text = |number: usize| format!("temperature/{}.{}", number / 7, number % 7);
        for number in 0..10_000 {
            assert_eq!(texts.insert(&text(number)).unwrap(), (number, true));
            assert_eq!(
                texts.insert(&text(number / 2)).unwrap(),
                (number / 2, false)
            );
        }
        for number in 0..10_000 {
            assert_eq!(texts.find(&text(number)), Some(number));
            assert_eq!(texts.get(number), text(number));
        }
        assert_eq!((texts.len(), texts.find("temperature")), (10_000, None));
        // No more than half of the slots are in vain.
        assert!(texts.numbers.capacity() <= 4 * texts.len());
    }
}
