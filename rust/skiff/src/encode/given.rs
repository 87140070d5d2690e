//! The columns of a batch by name, and why they do not match a table schema.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::FieldRef;

use crate::error::Error;

/// Why the columns of a batch do not match a table schema.
#[derive(Debug)]
pub(crate) enum MatchError {
    Missing(String),
    Unexpected(String),
    /// A control column that the table schema does not have.
    Control(String),
    /// A name that several columns of the batch have.
    Duplicate(String),
    Other(Error),
}

impl From<Error> for MatchError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// The columns of a batch by name, and which of them have a slot.
pub(super) struct Given<'a> {
    batch: &'a RecordBatch,
    places: HashMap<&'a str, usize>,
    is_used: Vec<bool>,
}

impl<'a> Given<'a> {
    pub(super) fn try_new(batch: &'a RecordBatch) -> Result<Self, MatchError> {
        let mut places = HashMap::with_capacity(batch.num_columns());
        for (place, field) in batch.schema_ref().fields().iter().enumerate() {
            if places.insert(field.name().as_str(), place).is_some() {
                return Err(MatchError::Duplicate(field.name().clone()));
            }
        }
        Ok(Self {
            batch,
            places,
            is_used: vec![false; batch.num_columns()],
        })
    }

    pub(super) fn take(&mut self, name: &str) -> Option<(FieldRef, ArrayRef)> {
        let place = *self.places.get(name)?;
        if let Some(is_used) = self.is_used.get_mut(place) {
            *is_used = true;
        }
        let field = self.batch.schema_ref().fields().get(place)?;
        Some((
            Arc::clone(field),
            Arc::clone(self.batch.columns().get(place)?),
        ))
    }

    pub(super) fn unused(&self) -> impl Iterator<Item = (&FieldRef, &ArrayRef)> {
        let columns = self
            .batch
            .schema_ref()
            .fields()
            .iter()
            .zip(self.batch.columns());
        let unused = columns.zip(&self.is_used).filter(|(_, is_used)| !**is_used);
        unused.map(|(column, _)| column)
    }
}
