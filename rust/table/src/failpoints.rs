//! The fail points of the layers above the store: see [`pilum_store::failpoint`].

use pilum_store::{Store, failpoint};

use crate::error::Result;

/// Passes the place `name` while working on the table in `store`.
pub(crate) fn pass(store: &Store, name: &'static str) -> Result<()> {
    failpoint::hit(name, store.uri()).map_err(|source| {
        pilum_store::Error::Io {
            path: store.uri().to_owned(),
            operation: "go on",
            source,
        }
        .into()
    })
}
