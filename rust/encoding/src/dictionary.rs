//! The values of a dictionary: one page per file and column, outside of the batches.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field};

use crate::beyond_v1::check_dictionary_value;
use crate::decode::decode_page;
use crate::encode::{EncodedPage, encode_page};
use crate::error::Error;
use crate::plan::{Page, plan_bytes, plan_fixed};
use crate::rows::Rows;
use crate::source::PageSource;
use crate::validity::Validity;

/// Encodes dictionary values: v1's strings, binaries and integers, and also views and values of any
/// fixed width. Strings and binaries store a null as a value of length 0. `validity` and `lossy` of the
/// page say what that loses: a null integer, an empty string.
///
/// # Errors
/// `Unsupported` for values of any other type.
pub fn encode_dictionary_values(values: &dyn Array, position: u64) -> Result<EncodedPage, Error> {
    check_dictionary_value(values.data_type())?;
    encode_page(values, true, None, position)
}

/// Round one of planning, for all values of a dictionary.
///
/// # Errors
/// As [`plan_fixed`].
pub fn plan_dictionary_values(
    value_type: &DataType,
    page: &Page,
    out: &mut Vec<Range<u64>>,
) -> Result<(), Error> {
    check_dictionary_value(value_type)?;
    plan_fixed(value_type, page, &Rows::all(page.length), out)
}

/// Round two of planning, for all values of a dictionary of strings or binaries.
///
/// # Errors
/// As [`plan_bytes`].
pub fn plan_dictionary_bytes(
    value_type: &DataType,
    page: &Page,
    source: &dyn PageSource,
    out: &mut Vec<Range<u64>>,
) -> Result<(), Error> {
    check_dictionary_value(value_type)?;
    plan_bytes(value_type, page, &Rows::all(page.length), source, out)
}

/// Decodes all values of a dictionary. `empty_is_null`: where `validity` does not decide, whether zero
/// length means null (v1's rule) or the empty value.
///
/// # Errors
/// As [`decode_page`].
pub fn decode_dictionary_values(
    value_type: &DataType,
    page: &Page,
    validity: &[Validity],
    empty_is_null: bool,
    source: &dyn PageSource,
) -> Result<ArrayRef, Error> {
    check_dictionary_value(value_type)?;
    let field = Field::new("values", value_type.clone(), true);
    let all_valid = [Validity::AllValid];
    let validity = match validity {
        [] | [Validity::V1] if !empty_is_null => &all_valid,
        given => given,
    };
    decode_page(
        &field,
        page,
        page.length,
        validity,
        &Rows::all(page.length),
        source,
    )
}
