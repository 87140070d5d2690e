//! `expect`: what a caller relies on at the instant of the commit.

use pilum_table::Precondition;
use pyo3::prelude::*;

use crate::arguments::Count;
use crate::errors::Failure;
use crate::expr::Given;
use crate::runtime::handle;

/// A version that must be the newest, or a predicate that no row may have true.
#[derive(Debug, FromPyObject)]
pub(crate) enum Expect {
    Version(Count),
    NoRows(Given),
}

impl Expect {
    /// The argument, as the engine takes it.
    pub(crate) fn given(expect: Option<Self>) -> Result<Option<Precondition>, Failure> {
        Ok(match expect {
            None => None,
            Some(Self::Version(version)) => Some(Precondition::Version(version.get())),
            Some(Self::NoRows(predicate)) => {
                Some(Precondition::no_rows(predicate.tree()?, &handle()?))
            }
        })
    }
}
