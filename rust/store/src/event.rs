//! Events for `tracing`: what a store is asked for, and how it ends. `docs/design.md`, section "Observability", lists them.
//!
//! Without a subscriber an event costs one load of an atomic: no field is computed, and no clock is read. Fields hold
//! addresses and messages as errors show them, from which secrets are removed.

use std::fmt;
use std::ops::Range;
use std::time::Instant;

use tracing::{Level, enabled, event};

use crate::error::{Error, Result};

/// Opening a store.
pub(crate) const STORE: &str = "pilum::store";
/// Requests for bytes, sizes and deletions.
pub(crate) const REQUEST: &str = "pilum::store::request";
/// Attempts of requests over HTTP.
#[cfg(feature = "cloud")]
pub(crate) const HTTP: &str = "pilum::store::http";
/// Listings of folders.
const LIST: &str = "pilum::store::list";
/// Objects that become visible to others.
const PUBLISH: &str = "pilum::store::publish";
/// Requests to a register of versions.
pub(crate) const REGISTER: &str = "pilum::store::register";
/// Steps that failed after the caller had its answer.
pub(crate) const CLEANUP: &str = "pilum::store::cleanup";

/// How a request ended, in one word.
fn outcome<T>(result: &Result<T>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(Error::NotFound { .. }) => "not_found",
        Err(Error::AlreadyExists { .. }) => "already_exists",
        Err(Error::Unclear { .. }) => "unclear",
        Err(_) => "failed",
    }
}

/// The address of an object as events show it: that of its store, and its path there.
struct Address<'a>(&'a str, &'a str);

impl fmt::Display for Address<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            "" => f.write_str(self.0),
            path => write!(f, "{}/{path}", self.0.trim_end_matches('/')),
        }
    }
}

/// When a request began, if a subscriber wants its event.
macro_rules! begun {
    ($target:expr, $level:expr) => {
        enabled!(target: $target, $level).then(Instant::now)
    };
}

/// The event of a request that ended.
macro_rules! ended {
    ($target:expr, $level:expr, $begun:expr, $result:expr, $message:literal, $($field:tt)*) => {
        if let Some(begun) = $begun {
            let result = $result;
            event!(
                target: $target,
                $level,
                $($field)*
                outcome = outcome(result),
                error = result.as_ref().err().map(tracing::field::display),
                elapsed_us = elapsed_us(begun),
                $message
            );
        }
    };
}

/// A request for the object `path` of the store at `uri`; `bytes` counts those of the answer.
pub(crate) async fn request<T>(
    operation: &'static str,
    (uri, path): (&str, &str),
    request: impl Future<Output = Result<T>>,
    bytes: impl FnOnce(&T) -> Option<u64>,
) -> Result<T> {
    let begun = begun!(REQUEST, Level::TRACE);
    let result = request.await;
    ended!(REQUEST, Level::TRACE, begun, &result, "request",
        operation, path = %Address(uri, path), bytes = result.as_ref().ok().and_then(bytes),);
    result
}

/// A read of some ranges of the open object at `path`.
pub(crate) fn ranges<T>(
    path: &str,
    ranges: &[Range<u64>],
    read: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let begun = begun!(REQUEST, Level::TRACE);
    let result = read();
    let bytes = || {
        ranges
            .iter()
            .map(|it| it.end.saturating_sub(it.start))
            .sum::<u64>()
    };
    ended!(
        REQUEST,
        Level::TRACE,
        begun,
        &result,
        "request",
        operation = "read_ranges",
        path,
        ranges = ranges.len(),
        bytes = bytes(),
    );
    result
}

/// One request for bytes of the open remote object at `path`.
#[cfg(feature = "cloud")]
pub(crate) async fn fetch<T>(
    path: &str,
    range: Range<u64>,
    request: impl Future<Output = Result<T>>,
) -> Result<T> {
    let begun = begun!(REQUEST, Level::TRACE);
    let result = request.await;
    ended!(
        REQUEST,
        Level::TRACE,
        begun,
        &result,
        "request",
        operation = "fetch",
        path,
        offset = range.start,
        bytes = range.end.saturating_sub(range.start),
    );
    result
}

/// A listing of the folder `path` of the store at `uri`; `names` counts what was found.
pub(crate) async fn list<T>(
    operation: &'static str,
    (uri, path): (&str, &str),
    request: impl Future<Output = Result<T>>,
    names: impl FnOnce(&T) -> usize,
) -> Result<T> {
    let begun = begun!(LIST, Level::DEBUG);
    let result = request.await;
    ended!(LIST, Level::DEBUG, begun, &result, "list",
        operation, path = %Address(uri, path), names = result.as_ref().ok().map(names),);
    result
}

/// A step that gives the object `path` of the store at `uri` its name.
pub(crate) async fn publish<T>(
    operation: &'static str,
    (uri, path): (&str, &str),
    bytes: u64,
    request: impl Future<Output = Result<T>>,
) -> Result<T> {
    let begun = publish_begun();
    let result = request.await;
    published(operation, (uri, path), bytes, begun, &result);
    result
}

/// When a step that gives an object its name began, for [`published`].
pub(crate) fn publish_begun() -> Option<Instant> {
    begun!(PUBLISH, Level::DEBUG)
}

/// As [`publish`], after the step. An empty path means that `uri` is the address of the object.
pub(crate) fn published<T>(
    operation: &'static str,
    (uri, path): (&str, &str),
    bytes: u64,
    begun: Option<Instant>,
    result: &Result<T>,
) {
    ended!(PUBLISH, Level::DEBUG, begun, result, "publish",
        operation, path = %Address(uri, path), bytes,);
}

/// A request about `version` to the register at `uri`.
pub(crate) async fn register<T>(
    operation: &'static str,
    uri: &str,
    version: Option<u64>,
    request: impl Future<Output = Result<T>>,
) -> Result<T> {
    let begun = begun!(REGISTER, Level::DEBUG);
    let result = request.await;
    ended!(
        REGISTER,
        Level::DEBUG,
        begun,
        &result,
        "register",
        operation,
        uri,
        version,
    );
    result
}

/// Microseconds since a request began.
pub(crate) fn elapsed_us(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[test]
    fn without_a_subscriber_no_field_is_computed() {
        let answer = request("read", ("uri", "path"), ready(Ok(7)), |_| unreachable!());
        assert_eq!(futures::executor::block_on(answer).unwrap(), 7);
        let answer = list("list", ("uri", "path"), ready(Ok(7)), |_| unreachable!());
        assert_eq!(futures::executor::block_on(answer).unwrap(), 7);
    }

    #[test]
    fn addresses_are_those_of_errors() {
        assert_eq!(Address("/t", "a/b").to_string(), "/t/a/b");
        assert_eq!(Address("/", "a").to_string(), "/a");
        assert_eq!(Address("s3://b/t", "").to_string(), "s3://b/t");
    }
}
