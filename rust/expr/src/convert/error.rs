//! The error of a refused conversion: column, row, value, both types, and what the caller can do.

use std::fmt;

use arrow_array::Array;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use pilum_common::type_name;

use crate::{error::Brief, kernel::zone::relabel, time_steps::stored_number};

/// Characters of a value that a message shows.
const SHOWN_CHARS: usize = 80;

/// A conversion that would lose or change a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct ConversionError {
    /// Path of the column: names joined by dots, items of lists and entries of maps by the name of their field.
    pub path: String,
    /// The first row that cannot be converted, counted from 0 in the array; `None` if the types alone decide.
    pub row: Option<usize>,
    /// Positions in the lists or maps of that row that lead to the value, outermost first.
    pub items: Vec<usize>,
    /// The value as text, at most 80 characters.
    pub value: Option<String>,
    /// Arrow's name of the type of the value.
    pub from: String,
    /// Arrow's name of the type that was asked for.
    pub to: String,
    /// Why the value cannot be converted.
    pub reason: String,
    /// What the caller can do.
    pub remedy: String,
}

impl fmt::Display for ConversionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column `{}`", self.path)?;
        if let Some(row) = self.row {
            write!(f, ", row {row}")?;
        }
        for item in &self.items {
            write!(f, ", item {item}")?;
        }
        f.write_str(": ")?;
        if let Some(value) = &self.value {
            write!(f, "{value} ")?;
        }
        write!(
            f,
            "({}) cannot become {}: {}; {}",
            self.from, self.to, self.reason, self.remedy
        )
    }
}

/// The way out where a cast would lose part of a value.
pub(crate) const CAST_REMEDY: &str = "change the value, or round or cast the column before";

/// A refusal on its way up: places are completed by the levels above.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Names from the column to the value, innermost first.
    pub(crate) path: Vec<String>,
    pub(crate) row: Option<usize>,
    /// Innermost first.
    pub(crate) items: Vec<usize>,
    pub(crate) value: Option<String>,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

impl Refusal {
    /// The types do not convert, whatever the values.
    pub(crate) fn of_types(from: &DataType, to: &DataType, reason: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            path: Vec::new(),
            row: None,
            items: Vec::new(),
            value: None,
            from: type_name(from),
            to: type_name(to),
            reason: reason.into(),
            remedy: CAST_REMEDY.to_owned(),
        })
    }

    /// The value of one row does not convert.
    pub(crate) fn of_value(
        array: &dyn Array,
        row: usize,
        to: &DataType,
        reason: impl Into<String>,
    ) -> Box<Self> {
        let mut refusal = Self::of_types(array.data_type(), to, reason);
        refusal.row = Some(row);
        refusal.value = Some(show(array, row));
        refusal
    }

    pub(crate) fn remedy(mut self: Box<Self>, remedy: impl Into<String>) -> Box<Self> {
        self.remedy = remedy.into();
        self
    }

    /// The refusal as seen from the column `name` that holds the value.
    pub(crate) fn under(mut self: Box<Self>, name: &str) -> Box<Self> {
        self.path.push(name.to_owned());
        self
    }

    pub(crate) fn into_error(self) -> Box<ConversionError> {
        let Self {
            mut path,
            row,
            mut items,
            value,
            from,
            to,
            reason,
            remedy,
        } = self;
        path.reverse();
        items.reverse();
        Box::new(ConversionError {
            path: path.join("."),
            row,
            items,
            value,
            from,
            to,
            reason,
            remedy,
        })
    }
}

/// One value as text for a message. A count of time that no calendar shows is its stored number with the unit.
pub(crate) fn show(array: &dyn Array, row: usize) -> String {
    if row >= array.len() || array.is_null(row) {
        return "null".to_owned();
    }
    if let DataType::Timestamp(unit, Some(_)) = array.data_type()
        && let Ok(clock) = relabel(&array.slice(row, 1), &DataType::Timestamp(*unit, None))
    {
        // Arrow knows no named zone: an instant is shown in UTC.
        return printed(&clock, 0).map_or_else(|| stored(array, row), |text| text + "Z");
    }
    printed(array, row).unwrap_or_else(|| stored(array, row))
}

/// The value as Arrow prints it; `None` if it cannot.
fn printed(array: &dyn Array, row: usize) -> Option<String> {
    let options = FormatOptions::default().with_null("null");
    let mut brief = Brief::new(SHOWN_CHARS);
    let formatter = ArrayFormatter::try_new(array, &options).ok()?;
    let written = formatter.value(row).write(&mut brief);
    let is_whole = written.is_ok();
    let (is_cut, text) = (brief.is_cut(), brief.into_text());
    match text.as_str() {
        "" if is_whole => Some("''".to_owned()),
        "<invalid>" => None, // a duration beyond the range that Arrow prints
        _ => (is_whole || is_cut).then_some(text),
    }
}

fn stored(array: &dyn Array, row: usize) -> String {
    stored_number(array, row)
        .unwrap_or_else(|| format!("a value of type {}", type_name(array.data_type())))
}
