//! Errors of writes to a local disk.

use std::io;

use rustix::io::Errno;

use super::Target;
use crate::error::Error;

/// The error of a step after which nothing was written. Never `NotFound`, which means that a requested object does not
/// exist.
pub(super) fn failed(target: &Target, operation: &'static str, source: io::Error) -> Error {
    Error::Io {
        path: target.shown.clone(),
        operation,
        source,
    }
}

/// The error of a step after which the object may or may not exist.
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
