//! A reference set in memory, as columns: a million references take about 60 MB.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use pilum_common::Error as CommonError;

use crate::error::Result;
use crate::interner::Interner;
use crate::value::Reference;

// Codes beyond those of URLs.
const INLINE: u32 = u32::MAX;
const MALFORMED: u32 = u32::MAX - 1;
const TARGET: u32 = u32::MAX - 2;
const REMOVED: u32 = u32::MAX - 3;
const MOST_URLS: usize = (u32::MAX - 4) as usize;

/// The size that stands for a whole file.
const WHOLE: i64 = i64::MIN;

/// Keys with their values, in memory.
///
/// Keys keep the order in which they came. They are unique: a later value replaces an earlier one at its place.
#[derive(Debug, Clone, Default)]
pub struct ReferenceSet {
    keys: Interner,
    urls: Interner,
    /// Per key: the number of its URL, or one of the codes above.
    codes: Vec<u32>,
    /// The first byte of a range; of an inline value its place in `inline`.
    offsets: Vec<i64>,
    /// The bytes of a range or an inline value; [`WHOLE`] for a whole file.
    sizes: Vec<i64>,
    inline: Vec<u8>,
    num_removed: usize,
    sorted: OnceLock<Vec<u32>>,
}

impl ReferenceSet {
    /// A set without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.codes.len() - self.num_removed
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of memory that the set takes.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        let columns =
            4 * self.codes.capacity() + 8 * (self.offsets.capacity() + self.sizes.capacity());
        let sorted = self.sorted.get().map_or(0, |it| 4 * it.capacity());
        self.keys.byte_len() + self.urls.byte_len() + columns + self.inline.capacity() + sorted
    }

    /// The number of a key, by which [`entry`](Self::entry) finds its value.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<usize> {
        let number = self.keys.find(key)?;
        (self.codes.get(number) != Some(&REMOVED)).then_some(number)
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Reference<'_>> {
        self.find(key).and_then(|number| self.value(number))
    }

    /// The key of this number with its value; `None` for a key that was removed.
    #[must_use]
    pub fn entry(&self, number: usize) -> Option<(&str, Reference<'_>)> {
        Some((self.keys.get(number), self.value(number)?))
    }

    fn value(&self, number: usize) -> Option<Reference<'_>> {
        let code = *self.codes.get(number)?;
        let (offset, size) = (*self.offsets.get(number)?, *self.sizes.get(number)?);
        let url = match code {
            REMOVED => return None,
            INLINE => return Some(Reference::Inline(Cow::Borrowed(self.held(offset, size)))),
            MALFORMED => {
                let json = String::from_utf8_lossy(self.held(offset, size));
                return Some(Reference::Malformed { json });
            }
            TARGET => None,
            code => Some(Cow::Borrowed(self.urls.get(code as usize))),
        };
        Some(if size == WHOLE {
            Reference::File { url }
        } else {
            Reference::Range { url, offset, size }
        })
    }

    fn held(&self, offset: i64, size: i64) -> &[u8] {
        let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
        range
            .and_then(|(offset, size)| self.inline.get(offset..offset + size))
            .unwrap_or_default()
    }

    /// All keys with their values, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Reference<'_>)> {
        (0..self.codes.len()).filter_map(|number| self.entry(number))
    }

    /// The number of the URL of an entry, if it has one: entries of one file share it.
    #[must_use]
    pub fn url_number(&self, number: usize) -> Option<usize> {
        let code = *self.codes.get(number)?;
        ((code as usize) < self.urls.len()).then_some(code as usize)
    }

    /// The distinct URLs, in the order in which they came. Replaced values may leave some that no key uses.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        (0..self.urls.len()).map(|number| self.urls.get(number))
    }

    /// The numbers of all entries, those of removed keys too.
    #[must_use]
    pub fn numbers(&self) -> Range<usize> {
        0..self.codes.len()
    }

    /// The numbers of the keys in the order of their bytes. Made when it is first asked for: 4 bytes per key.
    fn sorted(&self) -> &[u32] {
        self.sorted.get_or_init(|| {
            let last = u32::try_from(self.codes.len()).unwrap_or(u32::MAX);
            let mut numbers: Vec<u32> = (0..last)
                .filter(|it| self.codes.get(*it as usize) != Some(&REMOVED))
                .collect();
            let key = |it: &u32| self.keys.get(*it as usize);
            if !numbers.is_sorted_by_key(key) {
                numbers.sort_unstable_by(|a, b| key(a).cmp(key(b)));
            }
            numbers
        })
    }

    /// The numbers of the keys that begin with `prefix`, sorted by key.
    #[must_use]
    pub fn prefixed(&self, prefix: &str) -> &[u32] {
        let sorted = self.sorted();
        let key = |it: &u32| self.keys.get(*it as usize);
        let start = sorted.partition_point(|it| key(it) < prefix);
        let tail = sorted.get(start..).unwrap_or_default();
        let count = tail.partition_point(|it| key(it).starts_with(prefix));
        tail.get(..count).unwrap_or_default()
    }

    /// What lies directly below a folder (`""` for the root), in the order in which the keys came.
    #[must_use]
    pub fn children(&self, folder: &str) -> Vec<Child> {
        let prefix = if folder.is_empty() {
            String::new()
        } else {
            format!("{folder}/")
        };
        let mut children: Vec<(u32, Child)> = Vec::new();
        let mut rest = self.prefixed(&prefix);
        while let Some(first) = rest.first() {
            let key = self.keys.get(*first as usize);
            let tail = key.get(prefix.len()..).unwrap_or_default();
            let Some((name, _)) = tail.split_once('/') else {
                if !tail.is_empty() {
                    children.push((*first, Child::Key(*first as usize)));
                }
                rest = rest.get(1..).unwrap_or_default();
                continue;
            };
            let below = format!("{prefix}{name}/");
            let count = rest.partition_point(|it| self.keys.get(*it as usize).starts_with(&below));
            let (inside, after) = rest.split_at(count.max(1));
            let begun = inside.iter().copied().min().unwrap_or_default();
            children.push((begun, Child::Folder(format!("{prefix}{name}"))));
            rest = after;
        }
        children.sort_unstable_by_key(|(begun, _)| *begun);
        children.into_iter().map(|(_, child)| child).collect()
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// `Limit` when keys, URLs or inline values take more than their columns can count.
    pub fn insert(&mut self, key: &str, value: &Reference<'_>) -> Result<()> {
        let (code, offset, size) = match value {
            Reference::Inline(bytes) => self.hold(INLINE, bytes),
            Reference::Malformed { json } => self.hold(MALFORMED, json.as_bytes()),
            Reference::File { url } => (self.url_code(url.as_deref())?, 0, WHOLE),
            Reference::Range { url, offset, size } => {
                // The size that stands for a whole file cannot be one of a range.
                (
                    self.url_code(url.as_deref())?,
                    *offset,
                    (*size).max(WHOLE + 1),
                )
            }
        };
        self.put(key, code, offset, size)
    }

    /// Sets a range of the URL that [`add_url`](Self::add_url) numbered.
    pub(crate) fn insert_range(
        &mut self,
        key: &str,
        url: u32,
        range: Option<(i64, i64)>,
    ) -> Result<()> {
        let (offset, size) = range.unwrap_or((0, WHOLE));
        self.put(key, url, offset, size)
    }

    /// The number of a URL.
    pub(crate) fn add_url(&mut self, url: &str) -> Result<u32> {
        self.url_code(Some(url))
    }

    fn put(&mut self, key: &str, code: u32, offset: i64, size: i64) -> Result<()> {
        let (number, is_new) = self.keys.insert(key)?;
        if is_new {
            self.codes.push(code);
            self.offsets.push(offset);
            self.sizes.push(size);
            self.sorted.take();
            return Ok(());
        }
        if let (Some(old_code), Some(old_offset), Some(old_size)) = (
            self.codes.get_mut(number),
            self.offsets.get_mut(number),
            self.sizes.get_mut(number),
        ) {
            if *old_code == REMOVED {
                self.num_removed -= 1;
                self.sorted.take();
            }
            (*old_code, *old_offset, *old_size) = (code, offset, size);
        }
        Ok(())
    }

    fn hold(&mut self, code: u32, bytes: &[u8]) -> (u32, i64, i64) {
        let offset = i64::try_from(self.inline.len()).unwrap_or(i64::MAX);
        self.inline.extend_from_slice(bytes);
        (code, offset, i64::try_from(bytes.len()).unwrap_or(i64::MAX))
    }

    fn url_code(&mut self, url: Option<&str>) -> Result<u32> {
        let Some(url) = url else {
            return Ok(TARGET);
        };
        let (number, _) = self.urls.insert(url)?;
        let code = u32::try_from(number).ok().filter(|_| number < MOST_URLS);
        code.ok_or_else(|| {
            let needed = format!("more than {MOST_URLS} URLs");
            CommonError::limit("a reference set", needed, format!("{MOST_URLS} URLs")).into()
        })
    }

    /// Removes a key; false when there is none.
    pub fn remove(&mut self, key: &str) -> bool {
        let Some(number) = self.find(key) else {
            return false;
        };
        if let Some(code) = self.codes.get_mut(number) {
            *code = REMOVED;
            self.num_removed += 1;
            self.sorted.take();
        }
        true
    }

    /// Replaces every URL by what `change` returns for it; each distinct one is asked for once.
    pub(crate) fn map_urls(
        &mut self,
        mut change: impl FnMut(&str) -> Result<Option<String>>,
    ) -> Result<()> {
        let mut urls = Interner::default();
        let mut codes = Vec::with_capacity(self.urls.len());
        for number in 0..self.urls.len() {
            let url = self.urls.get(number);
            let changed = change(url)?;
            let (number, _) = urls.insert(changed.as_deref().unwrap_or(url))?;
            codes.push(u32::try_from(number).unwrap_or(TARGET));
        }
        for code in &mut self.codes {
            if let Some(changed) = codes.get(*code as usize) {
                *code = *changed;
            }
        }
        self.urls = urls;
        Ok(())
    }

    /// The first key that uses a URL: for messages.
    pub(crate) fn key_of_url(&self, url: &str) -> Option<&str> {
        let number = u32::try_from(self.urls.find(url)?).ok()?;
        let at = self.codes.iter().position(|it| *it == number)?;
        Some(self.keys.get(at))
    }

    /// The keys whose values are malformed.
    pub(crate) fn malformed(&self) -> impl Iterator<Item = usize> {
        let codes = self.codes.iter().enumerate();
        codes
            .filter(|(_, code)| **code == MALFORMED)
            .map(|(at, _)| at)
    }

    /// The keys whose values are held inline, with the stored bytes.
    pub(crate) fn inline(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let codes = self.codes.iter().enumerate();
        let inline = codes.filter(|(_, code)| **code == INLINE);
        inline.filter_map(|(at, _)| {
            let (offset, size) = (*self.offsets.get(at)?, *self.sizes.get(at)?);
            Some((self.keys.get(at), self.held(offset, size)))
        })
    }

    /// Whether any value is malformed.
    pub(crate) fn has_target(&self) -> Option<&str> {
        let at = self.codes.iter().position(|it| *it == TARGET)?;
        Some(self.keys.get(at))
    }

    /// Gives back memory that was kept for more keys.
    pub(crate) fn shrink(&mut self) {
        self.keys.shrink();
        self.urls.shrink();
        self.codes.shrink_to_fit();
        self.offsets.shrink_to_fit();
        self.sizes.shrink_to_fit();
        self.inline.shrink_to_fit();
    }
}

/// What lies directly below a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Child {
    /// A key, by its number.
    Key(usize),
    /// A folder, by its path.
    Folder(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inline(text: &str) -> Reference<'_> {
        Reference::Inline(Cow::Borrowed(text.as_bytes()))
    }

    #[test]
    fn a_later_value_replaces_an_earlier_one_at_its_place() {
        let mut set = ReferenceSet::new();
        set.insert("b", &inline("1")).unwrap();
        set.insert("a", &inline("2")).unwrap();
        set.insert("b", &inline("3")).unwrap();
        let all: Vec<_> = set.iter().collect();
        assert_eq!(all, [("b", inline("3")), ("a", inline("2"))]);
        assert!(set.remove("b") && !set.remove("b"));
        assert_eq!((set.len(), set.get("b")), (1, None));
        set.insert("b", &inline("4")).unwrap();
        assert_eq!(set.len(), 2);
        let sorted: Vec<_> = set
            .prefixed("")
            .iter()
            .map(|it| set.entry(*it as usize).unwrap().0)
            .collect();
        assert_eq!(sorted, ["a", "b"]);
    }

    #[test]
    fn folders_are_implied_by_keys() {
        let mut set = ReferenceSet::new();
        for key in ["a/0", "a/b/0", "a.b", "a", "ab/c"] {
            set.insert(key, &inline("")).unwrap();
        }
        let folder = |name: &str| Child::Folder(name.to_owned());
        let key = |name: &str| Child::Key(set.find(name).unwrap());
        assert_eq!(
            set.children(""),
            [folder("a"), key("a.b"), key("a"), folder("ab")]
        );
        assert_eq!(set.children("a"), [key("a/0"), folder("a/b")]);
        assert_eq!(set.children("no"), []);
    }

    #[test]
    fn a_million_references_take_less_than_100_mib() {
        let mut set = ReferenceSet::new();
        for it in 0..100_000_i64 {
            let url = format!("s3://bucket/folder/file{}.nc", it / 1000);
            let value = Reference::Range {
                url: Some(Cow::Owned(url)),
                offset: it * 1000,
                size: 1000,
            };
            set.insert(&format!("temperature/{}.{}.0", it / 100, it % 100), &value)
                .unwrap();
        }
        set.shrink();
        assert!(set.byte_len() < 10 << 20, "{}", set.byte_len());
    }
}
