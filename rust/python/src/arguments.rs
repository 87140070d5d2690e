//! Arguments from Python, converted to the types of the engine.

use std::collections::{BTreeMap, HashMap};

use arrow_schema::SchemaRef;
use chrono::{DateTime, TimeDelta, Utc};
use pilum_table::{
    AdaptOptions, Compat, Durability, Expr, Extra, FileLayout, Missing, Mode, Projection,
    StorageOptions, VersionRef, WriteMode,
};
use pyo3::Borrowed;
use pyo3::exceptions::PyOverflowError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyMapping, PyString};

use crate::errors::{Ended, Failure};
use crate::expr::Given;
use crate::ffi::import_schema;

/// Options of a store, or properties of a commit: a dict of texts.
pub(crate) type Pairs = HashMap<String, String>;

/// A number of rows or bytes, an id, a version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count(pub(crate) u64);

impl Count {
    pub(crate) fn get(self) -> u64 {
        self.0
    }

    /// The count as a `usize`. A larger count becomes `usize::MAX`, which is no limit.
    pub(crate) fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<'py> FromPyObject<'_, 'py> for Count {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        given.extract::<u64>().map(Self).map_err(|error| {
            // The type is right, so the error is about the value.
            match error.is_instance_of::<PyOverflowError>(given.py()) {
                true => {
                    Failure::invalid(format!("{} is no number from 0 to 2^64 - 1", *given)).into()
                }
                false => error,
            }
        })
    }
}

pub(crate) fn storage_options(pairs: Option<Pairs>) -> StorageOptions {
    pairs.unwrap_or_default().into_iter().collect()
}

pub(crate) fn properties(pairs: Option<Pairs>) -> BTreeMap<String, String> {
    pairs.unwrap_or_default().into_iter().collect()
}

pub(crate) fn mode(word: &str) -> Result<WriteMode, Failure> {
    match word {
        "create" => Ok(WriteMode::Create),
        "append" => Ok(WriteMode::Append),
        "overwrite" => Ok(WriteMode::Overwrite),
        _ => Err(unknown(
            "mode",
            word,
            "\"create\", \"append\" or \"overwrite\"",
        )),
    }
}

/// The compat that a call asks for; `None` leaves it to the table.
pub(crate) fn compat(word: Option<&str>) -> Result<Option<Compat>, Failure> {
    let known = |word| {
        Compat::from_word(word).ok_or_else(|| unknown("compat", word, "\"lossless\" or \"lance\""))
    };
    word.map(known).transpose()
}

pub(crate) fn durability(word: &str) -> Result<Durability, Failure> {
    match word {
        "full" => Ok(Durability::Full),
        "none" => Ok(Durability::None),
        _ => Err(unknown("durability", word, "\"full\" or \"none\"")),
    }
}

/// The options `cast`, `missing` and `extra` of a write.
pub(crate) fn adapt(cast: &str, missing: &str, extra: &str) -> Result<AdaptOptions, Failure> {
    Ok(AdaptOptions {
        cast: match cast {
            "exact" => Mode::Exact,
            "lossy" => Mode::Lossy,
            _ => return Err(unknown("cast", cast, "\"exact\" or \"lossy\"")),
        },
        missing: match missing {
            "null" => Missing::Null,
            "error" => Missing::Error,
            _ => return Err(unknown("missing", missing, "\"null\" or \"error\"")),
        },
        extra: match extra {
            "error" => Extra::Error,
            "ignore" => Extra::Ignore,
            _ => return Err(unknown("extra", extra, "\"error\" or \"ignore\"")),
        },
        are_stored: false,
    })
}

/// The schema of an object that exports one.
pub(crate) fn schema(given: Option<&Bound<'_, PyAny>>) -> Result<Option<SchemaRef>, Ended> {
    let Some(given) = given else {
        return Ok(None);
    };
    let capsule = given.call_method0(intern!(given.py(), "__arrow_c_schema__"))?;
    Ok(Some(import_schema(&capsule)?.into()))
}

pub(crate) fn layout(word: Option<&str>) -> Result<FileLayout, Failure> {
    match word {
        None => Ok(FileLayout::default()),
        Some("pylance") => Ok(FileLayout::pylance()),
        Some(word) => Err(unknown("layout", word, "\"pylance\" or None")),
    }
}

fn unknown(argument: &str, word: &str, known: &str) -> Failure {
    Failure::invalid(format!("{argument} is {known}, not {word:?}"))
}

/// A version by number or by tag.
pub(crate) fn version(given: &Bound<'_, PyAny>) -> Result<VersionRef, Ended> {
    if given.is_instance_of::<PyInt>() && !given.is_instance_of::<PyBool>() {
        let number = given.extract::<u64>();
        return number.map(VersionRef::Number).map_err(|_| {
            Failure::invalid(format!(
                "there is no version {given}: versions count from 1"
            ))
            .into()
        });
    }
    if let Ok(tag) = given.cast::<PyString>() {
        return Ok(VersionRef::Tag(tag.extract()?));
    }
    let class = given.get_type().fully_qualified_name()?;
    Err(Failure::invalid(format!(
        "a version is a number or the name of a tag, not a {class}"
    ))
    .into())
}

/// The end of a microsecond, counted since 1970 in UTC. Python has no shorter unit, so that the time of a version, which has
/// nanoseconds, is cut for Python: asking for the cut time must find that version.
pub(crate) fn moment(micros: i64) -> Result<DateTime<Utc>, Failure> {
    let end = DateTime::from_timestamp_micros(micros);
    let end = end.and_then(|start| start.checked_add_signed(TimeDelta::nanoseconds(999)));
    end.ok_or_else(|| {
        Failure::invalid(format!("asof: {micros} microseconds since 1970 is no date"))
    })
}

/// Names with an expression each.
pub(crate) fn expressions(pairs: Vec<(String, Given)>) -> Result<Vec<(String, Expr)>, Failure> {
    let pairs = pairs.into_iter();
    pairs
        .map(|(name, given)| Ok((name, given.tree()?)))
        .collect()
}

pub(crate) fn filter(given: Option<Given>) -> Result<Option<Expr>, Failure> {
    given.map(Given::tree).transpose()
}

/// All columns, a sequence of names, or a mapping (or pairs) of names and expressions.
pub(crate) fn projection(columns: Option<&Bound<'_, PyAny>>) -> Result<Projection, Ended> {
    let Some(columns) = columns else {
        return Ok(Projection::All);
    };
    let pairs: Vec<(String, Given)> = if let Ok(mapping) = columns.cast::<PyMapping>() {
        mapping.items()?.extract()?
    } else if let Ok(names) = columns.extract::<Vec<String>>() {
        return Ok(Projection::Names(names));
    } else {
        columns.extract().map_err(|_| {
            Failure::invalid("columns is a list of names, or a dict of names and expressions")
        })?
    };
    Ok(Projection::Expressions(expressions(pairs)?))
}

/// Row positions or ids.
pub(crate) fn row_numbers(what: &str, given: &Bound<'_, PyAny>) -> Result<Vec<u64>, Ended> {
    let Ok(given) = given.cast::<PyList>() else {
        return Err(Failure::invalid(format!("{what}: pass a list of integers")).into());
    };
    let mut numbers = Vec::with_capacity(given.len());
    for (place, number) in given.iter().enumerate() {
        // Integers of numpy have `__index__`. Truth values have it too, and are refused.
        let is_integer = number.is_exact_instance_of::<PyInt>()
            || !number.is_instance_of::<PyBool>() && number.hasattr("__index__")?;
        if !is_integer {
            let number = number.repr()?;
            let message = format!("{what} {number} (element {place}) is no integer");
            return Err(Failure::invalid(message).into());
        }
        match number.extract::<u64>() {
            Ok(number) => numbers.push(number),
            Err(error) if error.is_instance_of::<PyOverflowError>(number.py()) => {
                let message = format!(
                    "{what} {number} (element {place}) is outside of the range of integers from 0 to 2^64 - 1"
                );
                return Err(Failure::invalid(message).into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(numbers)
}
