//! The bytes behind keys: inline values are decoded, ranges of one file are read together, files in parallel.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;

use bytes::Bytes;
use futures::stream;
use futures::{FutureExt, StreamExt};
use pilum_common::Error as CommonError;
use pilum_store::{StorageOptions, Store};

use crate::document::malformed_value;
use crate::error::{Error, Peer, Result, Unreachable};
use crate::target::{AllowList, Refusal, Resolver, Target, shown};
use crate::value::{Reference, decoded};

/// Files that are read at the same time.
const CONCURRENT: usize = 16;
/// Stores that stay open.
const MOST_STORES: usize = 256;

/// One value to read.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The key, for messages.
    pub key: String,
    /// Its value.
    pub value: Reference<'static>,
    /// The first byte and the byte after the last one, within the value, as in a slice of Python; `None` for its ends.
    pub start: Option<i64>,
    /// See `start`.
    pub end: Option<i64>,
}

/// Reads what references refer to.
#[derive(Debug)]
pub struct Fetcher {
    resolver: Resolver,
    /// What a null URL stands for.
    target: Option<String>,
    options: StorageOptions,
    stores: Mutex<HashMap<String, Store>>,
}

impl Fetcher {
    /// A reader for the set at `location`; `options` are those of the stores of the targets.
    #[must_use]
    pub fn new(
        location: Option<&str>,
        allow: AllowList,
        target: Option<String>,
        options: StorageOptions,
    ) -> Self {
        Self {
            resolver: Resolver::new(location, allow),
            target,
            options,
            stores: Mutex::default(),
        }
    }

    /// The bytes of some values, in their order.
    ///
    /// A range that reaches beyond the end of its file gives the bytes that are there.
    ///
    /// # Errors
    /// Each value has its own result: one that cannot be read does not affect the others.
    pub async fn fetch(&self, wanted: &[Wanted]) -> Vec<Result<Bytes>> {
        let mut results: Vec<Option<Result<Bytes>>> = Vec::new();
        results.resize_with(wanted.len(), || None);
        let mut files: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, it) in wanted.iter().enumerate() {
            match self.url(it) {
                Ok(Some(url)) => files.entry(url).or_default().push(at),
                Ok(None) => set(&mut results, at, inline(it)),
                Err(error) => set(&mut results, at, Err(error)),
            }
        }
        let mut reads = Vec::with_capacity(files.len());
        for (url, places) in files {
            reads.push(self.read_file(url, places, wanted).boxed());
        }
        let mut reads = stream::iter(reads).buffer_unordered(CONCURRENT);
        while let Some(read) = reads.next().await {
            for (at, result) in read {
                set(&mut results, at, result);
            }
        }
        let none = || Err(CommonError::bug("a value of a reference set was not read").into());
        results
            .into_iter()
            .map(|it| it.unwrap_or_else(none))
            .collect()
    }

    /// The size of the file that a value is the whole of, in bytes.
    ///
    /// # Errors
    /// [`Error::NotReachable`].
    pub async fn file_size(&self, key: &str, url: Option<&str>) -> Result<u64> {
        let url = match url.or(self.target.as_deref()) {
            Some(url) => url,
            None => return Err(no_target(key)),
        };
        let unreachable = |refusal: Refusal| not_reachable(key, url, refusal);
        let target = self.resolver.resolve(url).map_err(unreachable)?;
        let store = self
            .store(&target)
            .map_err(|error| unreachable(of_store(&error)))?;
        let stat = store
            .stat(&target.path)
            .await
            .map_err(|error| unreachable(of_store(&error)))?;
        Ok(stat.size)
    }

    /// The URL that a value is read from; `None` for an inline value.
    fn url<'a>(&'a self, wanted: &'a Wanted) -> Result<Option<&'a str>> {
        let (url, range) = match &wanted.value {
            Reference::Inline(_) => return Ok(None),
            Reference::Malformed { json } => {
                let malformed = malformed_value(json);
                let Some(url) = &malformed.url else {
                    return Err(malformed.at(&wanted.key));
                };
                let refusal = Refusal {
                    cause: Unreachable::Malformed(malformed.fault.peer),
                    reason: format!("{}: {}", malformed.member, malformed.fault.reason),
                };
                return Err(not_reachable(&wanted.key, url, refusal));
            }
            Reference::File { url } => (url, None),
            Reference::Range { url, offset, size } => (url, Some((*offset, *size))),
        };
        let url = match url.as_deref().or(self.target.as_deref()) {
            Some(url) => url,
            None => return Err(no_target(&wanted.key)),
        };
        if let Some((offset, size)) = range
            && (offset < 0 || size < 0)
        {
            let refusal = Refusal {
                cause: Unreachable::Malformed(Peer::Value),
                reason: format!("offset {offset} and length {size} must not be negative"),
            };
            return Err(not_reachable(&wanted.key, url, refusal));
        }
        Ok(Some(url))
    }

    /// Reads all values of one file with one call, which merges neighbouring ranges.
    async fn read_file(
        &self,
        url: &str,
        places: Vec<usize>,
        wanted: &[Wanted],
    ) -> Vec<(usize, Result<Bytes>)> {
        let read = async {
            let target = self.resolver.resolve(url)?;
            let store = self.store(&target).map_err(|error| of_store(&error))?;
            let file = store
                .open_file(&target.path, None)
                .await
                .map_err(|error| of_store(&error))?;
            let size = file.size();
            let ranges: Vec<Range<u64>> = places
                .iter()
                .map(|at| wanted.get(*at).map_or(0..0, |it| range_of(it, size)))
                .collect();
            file.read_ranges(&ranges)
                .await
                .map_err(|error| of_store(&error))
        };
        match read.await {
            Ok(parts) => places.into_iter().zip(parts.into_iter().map(Ok)).collect(),
            Err(refusal) => {
                let of = |at: usize| {
                    let key = wanted.get(at).map_or("", |it| it.key.as_str());
                    (at, Err(not_reachable(key, url, refusal.clone())))
                };
                places.into_iter().map(of).collect()
            }
        }
    }

    fn store(&self, target: &Target) -> Result<Store, pilum_store::Error> {
        // A lock that another thread held at a fork is never released in the child: then the store is opened again.
        if let Ok(stores) = self.stores.try_lock()
            && let Some(store) = stores.get(&target.root)
        {
            return Ok(store.clone());
        }
        let store = Store::open(&target.root, &self.options)?;
        if let Ok(mut stores) = self.stores.try_lock() {
            if stores.len() >= MOST_STORES {
                stores.clear();
            }
            stores.insert(target.root.clone(), store.clone());
        }
        Ok(store)
    }
}

fn set(results: &mut [Option<Result<Bytes>>], at: usize, result: Result<Bytes>) {
    if let Some(slot) = results.get_mut(at) {
        *slot = Some(result);
    }
}

fn inline(wanted: &Wanted) -> Result<Bytes> {
    let Reference::Inline(stored) = &wanted.value else {
        return Ok(Bytes::new());
    };
    let bytes = decoded(stored).map_err(|fault| fault.at(&wanted.key, "value"))?;
    let range = sliced(bytes.len() as u64, wanted.start, wanted.end);
    let range = usize::try_from(range.start).unwrap_or(0)..usize::try_from(range.end).unwrap_or(0);
    Ok(Bytes::copy_from_slice(bytes.get(range).unwrap_or_default()))
}

/// The bytes of the file that a value stands for. Slices are cut to the value, so that no neighbour's byte is given.
fn range_of(wanted: &Wanted, file_size: u64) -> Range<u64> {
    let (offset, size) = match &wanted.value {
        Reference::Range { offset, size, .. } => (
            u64::try_from(*offset).unwrap_or_default(),
            u64::try_from(*size).unwrap_or_default(),
        ),
        _ => (0, file_size),
    };
    let part = sliced(size, wanted.start, wanted.end);
    let start = offset.saturating_add(part.start).min(file_size);
    let end = offset.saturating_add(part.end).min(file_size);
    start..end.max(start)
}

/// `start:end` of a value of `size` bytes, as Python slices.
pub(crate) fn sliced(size: u64, start: Option<i64>, end: Option<i64>) -> Range<u64> {
    let place = |bound: i64| match u64::try_from(bound) {
        Ok(bound) => bound.min(size),
        Err(_) => size.saturating_sub(bound.unsigned_abs()),
    };
    let (start, end) = (start.map_or(0, place), end.map_or(size, place));
    start..end.max(start)
}

fn no_target(key: &str) -> Error {
    crate::error::Fault::type_of("the URL is null; pass target= with the URL that it stands for")
        .at(key, "URL")
}

fn not_reachable(key: &str, url: &str, refusal: Refusal) -> Error {
    Error::NotReachable {
        key: key.to_owned(),
        target: shown(url),
        cause: refusal.cause,
        reason: refusal.reason,
    }
}

fn of_store(error: &pilum_store::Error) -> Refusal {
    Refusal {
        cause: match error {
            pilum_store::Error::NotFound { .. } => Unreachable::Missing,
            pilum_store::Error::InvalidInput { .. } | pilum_store::Error::OutsideRoot { .. } => {
                Unreachable::Malformed(Peer::Value)
            }
            _ => Unreachable::Store,
        },
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_stay_within_the_value() {
        for (start, end, wanted) in [
            (None, None, 0..20),
            (None, Some(-5), 0..15),
            (Some(-3), None, 17..20),
            (Some(5), Some(100), 5..20),
            (Some(-100), Some(2), 0..2),
            (Some(9), Some(3), 9..9),
            (Some(i64::MIN), Some(i64::MAX), 0..20),
        ] {
            assert_eq!(sliced(20, start, end), wanted);
        }
    }
}
