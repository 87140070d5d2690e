//! The boundary to the decoder of the `parquet` crate: its errors get the path of the file, and a panic becomes an error.
//!
//! The decoder checks much of what it reads, but some damaged files make it panic. Each call of it goes through
//! [`contained`]. A decoder that has panicked is dropped with its half-changed state and never called again.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::errors::ParquetError;

use crate::error::{Error, Result};

/// Calls the decoder or the encoder for the file at `path`.
///
/// # Errors
/// What the call returned, with the path; `CommonError::Corrupt` if it panicked.
pub(crate) fn contained<T>(
    path: &str,
    work: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Error::of_decoder(path, &error)),
        Err(panic) => {
            let reason = format!(
                "its bytes make the decoder fail: {}",
                message(panic.as_ref())
            );
            Err(Error::corrupt(path, reason))
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
