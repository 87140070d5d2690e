//! `expect`: what a caller relies on at the instant of the commit.

use pilum_table::Expectation;
use pyo3::prelude::*;
use tokio::runtime::Handle;

use crate::arguments::{self, Count};
use crate::errors::Failure;

/// A version that must be the newest, or a predicate that no row may have true.
#[derive(Debug, FromPyObject)]
pub(crate) enum Expect {
    Version(Count),
    NoRows(String),
}

impl Expect {
    pub(crate) fn expectation(self, handle: &Handle) -> Result<Expectation, Failure> {
        Ok(match self {
            Self::Version(version) => Expectation::Version(version.get()),
            Self::NoRows(predicate) => {
                Expectation::no_rows(arguments::expression(&predicate)?, handle)
            }
        })
    }
}
