//! Conversions at the doors: a value is kept, or the conversion is refused with its column, row and value.
//!
//! A conversion is planned once from two fields and then applied to arrays. [`rule`] is the table of pairs of types; the
//! rule behind it is one: every value, converted and converted back, is the value that it was.

mod apply;
mod digits;
mod error;
mod extension;
mod number;
mod plan;
mod rule;
mod temporal;
mod text;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{Field, FieldRef};

pub use error::ConversionError;
pub(crate) use error::{CAST_REMEDY, show};
use plan::Step;
pub use plan::{AdaptOptions, Extra, Missing, Mode};
pub(crate) use plan::{Member, left_over, member, step};
pub use rule::{RULE_NOTES, Rule, RuleNote, rule};

pub(crate) use apply::apply;

/// A conversion between two fields, planned once and applied to many arrays.
#[derive(Debug)]
pub struct Conversion {
    step: Step,
}

impl Conversion {
    /// Plans the conversion of arrays of the field `from` to the field `to`.
    ///
    /// # Errors
    /// If the types do not convert whatever the values, or members of structs do not match.
    pub fn new(
        from: &Field,
        to: &Field,
        options: AdaptOptions,
    ) -> Result<Self, Box<ConversionError>> {
        let target: FieldRef = Arc::new(to.clone());
        step(from, &target, options)
            .map(|step| Self { step })
            .map_err(|refusal| refusal.under(to.name()).into_error())
    }

    /// Converts an array of the type of the source field.
    ///
    /// # Errors
    /// The first value that would be lost, with its place; an array of another type than was planned.
    pub fn apply(&self, array: &ArrayRef) -> Result<ArrayRef, Box<ConversionError>> {
        apply(&self.step, array, None)
            .map_err(|refusal| refusal.under(self.step.to.name()).into_error())
    }
}

/// Converts an array of the field `from` to the type of the field `to`.
///
/// Struct members are matched by name; a member that is missing becomes null if it may be, one too many is refused.
///
/// # Errors
/// The first value that would be lost; types that do not convert whatever the values.
pub fn convert(
    array: &ArrayRef,
    from: &Field,
    to: &Field,
    mode: Mode,
) -> Result<ArrayRef, Box<ConversionError>> {
    let options = AdaptOptions {
        cast: mode,
        ..AdaptOptions::default()
    };
    debug_assert_eq!(array.data_type(), from.data_type());
    Conversion::new(from, to, options)?.apply(array)
}
