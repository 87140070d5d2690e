//! Errors of writes to a local disk.

use std::io;

use rustix::io::Errno;

use super::Target;
use crate::error::Error;

/// A write that certainly left nothing. Never `NotFound`: that is about objects that somebody looks for.
pub(super) fn failed(target: &Target, operation: &'static str, source: io::Error) -> Error {
    Error::Io {
        path: target.shown.clone(),
        operation,
        source,
    }
}

/// A write that may or may not be seen.
pub(super) fn unclear(target: Target, source: io::Error) -> Error {
    Error::Unclear {
        path: target.shown,
        source,
    }
}

/// Whether an error is one of these answers of the kernel.
pub(super) fn is_one_of(error: &io::Error, errnos: &[Errno]) -> bool {
    error
        .raw_os_error()
        .is_some_and(|raw| errnos.iter().any(|errno| errno.raw_os_error() == raw))
}
