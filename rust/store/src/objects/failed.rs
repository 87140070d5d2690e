//! Errors of object stores.

use std::io;

use super::bucket::Bucket;
#[cfg(feature = "cloud")]
use super::{connect, proof};
use crate::error::{Error, chain};

impl Bucket {
    /// The error of a request after which nothing was written.
    pub(super) fn failed(
        &self,
        shown: &str,
        operation: &'static str,
        error: object_store::Error,
    ) -> Error {
        use object_store::Error as Foreign;
        let path = shown.to_owned();
        match error {
            Foreign::NotFound { .. } => Error::NotFound { path },
            Foreign::AlreadyExists { .. } | Foreign::Precondition { .. } => {
                Error::AlreadyExists { path }
            }
            Foreign::NotSupported { .. } | Foreign::NotImplemented { .. } => Error::Unsupported {
                feature: format!("to {operation} in this store"),
                path,
            },
            error => {
                let kind = match error {
                    Foreign::PermissionDenied { .. } | Foreign::Unauthenticated { .. } => {
                        io::ErrorKind::PermissionDenied
                    }
                    _ => io::ErrorKind::Other,
                };
                Error::Io {
                    path,
                    operation,
                    source: self.foreign(kind, &error),
                }
            }
        }
    }

    /// The error of a write. Nothing was written only if the store refused the request; after any other failure the object
    /// may exist.
    pub(super) fn write_failed(&self, shown: &str, error: object_store::Error) -> Error {
        #[cfg(feature = "cloud")]
        match connect::refusal(&error) {
            Some(connect::Refusal::NotImplemented) => return proof::no_creation(shown),
            Some(connect::Refusal::Redirected { .. }) => {
                return self.failed(shown, "write the object", error);
            }
            None => {}
        }
        match error {
            object_store::Error::Generic { .. } | object_store::Error::NotModified { .. } => {
                let source = self.foreign(io::ErrorKind::Other, &error);
                Error::Unclear {
                    path: shown.to_owned(),
                    source,
                }
            }
            error => self.failed(shown, "write the object", error),
        }
    }

    /// The message of an error of another library with those of its causes, from which secrets are removed.
    fn foreign(&self, kind: io::ErrorKind, error: &dyn std::error::Error) -> io::Error {
        io::Error::new(kind, self.options.redact(&chain(error)))
    }
}
