//! Carries out a planned conversion on arrays.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray,
    OffsetSizeTrait, RunArray, StructArray, UInt64Array,
    cast::AsArray,
    new_null_array,
    types::{Int16Type, Int32Type, Int64Type, RunEndIndexType},
};
use arrow_buffer::NullBuffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ord::ord::make_comparator;
use arrow_schema::{ArrowError, DataType, FieldRef, SortOptions};
use arrow_select::{nullif::nullif, take::take};

use super::{
    error::Refusal,
    extension::first_broken,
    number,
    plan::{Member, Plan, Step},
    rule::{Rule, leaf_rule},
    temporal, text,
};
use crate::{kernel::cast, lists::Lists};

type Outcome = Result<ArrayRef, Box<Refusal>>;

/// Converts an array; only rows that are valid in `mask` matter.
///
/// # Errors
/// The first row whose value would be lost.
pub(crate) fn apply(step: &Step, array: &ArrayRef, mask: Option<&NullBuffer>) -> Outcome {
    if mask.is_none_or(|mask| mask.null_count() == 0)
        && let Some(declared) = declare(step, array)
    {
        return Ok(declared);
    }
    let nulls = array.logical_nulls();
    let null_row = if step.not_null {
        first_null(nulls.as_ref(), mask)
    } else {
        None
    };
    let refused_null = null_row.map(|row| {
        Refusal::of_value(array, row, step.to.data_type(), "it may not hold nulls")
            .remedy("fill in the nulls, or make the column nullable")
    });
    let valid = NullBuffer::union(nulls.as_ref(), mask).filter(|nulls| nulls.null_count() > 0);
    let converted = first_refusal(values(step, array, valid.as_ref()), refused_null)?;
    if let Some(check) = step.check
        && let Some(row) = first_broken(check, &converted, valid.as_ref())
    {
        let refusal = Refusal::of_value(array, row, step.to.data_type(), "it is not valid JSON");
        return Err(refusal.remedy("correct the value, or write the column as plain text"));
    }
    Ok(converted)
}

/// The outcome, unless there is a refusal of an earlier row.
fn first_refusal(outcome: Outcome, other: Option<Box<Refusal>>) -> Outcome {
    match (outcome, other) {
        (outcome, None) => outcome,
        (Err(refusal), Some(other)) if refusal.row <= other.row => Err(refusal),
        (_, Some(other)) => Err(other),
    }
}

fn first_null(nulls: Option<&NullBuffer>, mask: Option<&NullBuffer>) -> Option<usize> {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0)?;
    (0..nulls.len()).find(|row| nulls.is_null(*row) && mask.is_none_or(|mask| mask.is_valid(*row)))
}

/// The same buffers under other declarations, where values need no look; `None` where rows must be read.
fn declare(step: &Step, array: &ArrayRef) -> Option<ArrayRef> {
    if step.check.is_some() || step.not_null && array.logical_null_count() > 0 {
        return None;
    }
    match (&step.plan, step.to.data_type()) {
        (Plan::Keep, _) => Some(Arc::clone(array)),
        (Plan::Struct(members), DataType::Struct(fields)) => {
            let source = array.as_struct_opt()?;
            let columns = members
                .iter()
                .map(|member| declare(&member.step, source.columns().get(member.source?)?))
                .collect::<Option<Vec<_>>>()?;
            let nulls = source.nulls().cloned();
            let built =
                StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len());
            Some(Arc::new(built.ok()?))
        }
        (Plan::List(item), DataType::List(field)) => declare_list::<i32>(item, field, array),
        (Plan::List(item), DataType::LargeList(field)) => declare_list::<i64>(item, field, array),
        (Plan::List(item), DataType::ListView(field)) => declare_view::<i32>(item, field, array),
        (Plan::List(item), DataType::LargeListView(field)) => {
            declare_view::<i64>(item, field, array)
        }
        (Plan::List(item), DataType::FixedSizeList(field, size)) => {
            let lists = array.as_fixed_size_list_opt()?;
            if lists.value_length() != *size {
                return None;
            }
            let values = declare(item, lists.values())?;
            let (field, nulls) = (Arc::clone(field), lists.nulls().cloned());
            let built =
                FixedSizeListArray::try_new_with_length(field, *size, values, nulls, array.len());
            Some(Arc::new(built.ok()?))
        }
        (Plan::Map(entries, false), DataType::Map(field, sorted)) => {
            let maps = array.as_map_opt()?;
            let source: ArrayRef = Arc::new(maps.entries().clone());
            let entries = declare(entries, &source)?;
            let built = MapArray::try_new(
                Arc::clone(field),
                maps.offsets().clone(),
                entries.as_struct_opt()?.clone(),
                maps.nulls().cloned(),
                *sorted,
            );
            Some(Arc::new(built.ok()?))
        }
        _ => None,
    }
}

fn declare_list<O: OffsetSizeTrait>(
    item: &Step,
    field: &FieldRef,
    array: &ArrayRef,
) -> Option<ArrayRef> {
    let lists = array.as_list_opt::<O>()?;
    let values = declare(item, lists.values())?;
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    let built = GenericListArray::<O>::try_new(Arc::clone(field), offsets, values, nulls);
    Some(Arc::new(built.ok()?))
}

fn declare_view<O: OffsetSizeTrait>(
    item: &Step,
    field: &FieldRef,
    array: &ArrayRef,
) -> Option<ArrayRef> {
    let lists = array.as_list_view_opt::<O>()?;
    let values = declare(item, lists.values())?;
    let built = GenericListViewArray::<O>::try_new(
        Arc::clone(field),
        lists.offsets().clone(),
        lists.sizes().clone(),
        values,
        lists.nulls().cloned(),
    );
    Some(Arc::new(built.ok()?))
}

fn values(step: &Step, array: &ArrayRef, valid: Option<&NullBuffer>) -> Outcome {
    let (from, to) = (array.data_type(), step.to.data_type());
    let refuse = |row: usize, reason: String| Refusal::of_value(array, row, to, reason);
    match &step.plan {
        Plan::Keep => Ok(Arc::clone(array)),
        Plan::Widen => strict_cast(array, to),
        Plan::Number => {
            number::numbers(array, to, valid).map_err(|row| refuse(row, number::reason(from, to)))
        }
        Plan::Instant => temporal::instants(array, to, valid)
            .map_err(|row| refuse(row, temporal::reason(to).to_owned())),
        Plan::Interval => temporal::intervals(array, to, valid)
            .map_err(|row| refuse(row, temporal::reason(to).to_owned())),
        Plan::Text => texts(array, to, valid).map_err(|row| refuse(row, text::reason(to))),
        Plan::Lossy => lossy(array, to, valid),
        Plan::FromNull => Ok(new_null_array(to, array.len())),
        Plan::ToNull => match (0..array.len()).find(|row| valid.is_none_or(|v| v.is_valid(*row))) {
            Some(row) => Err(refuse(row, "it is not null".to_owned())),
            None => Ok(new_null_array(to, array.len())),
        },
        Plan::Recode(inner) => recode(inner, array, to, valid),
        Plan::Decode(inner) => decode(inner, array, valid),
        Plan::Encode(inner) => encode(&apply(inner, array, valid)?, to),
        Plan::List(item) => {
            let lists = read_lists(array, to, valid)?;
            let wrong_size = match to {
                DataType::FixedSizeList(_, size) => {
                    let row = lists.first_of_other_size(usize::try_from(*size).unwrap_or(0));
                    row.map(|row| {
                        let reason = format!("it has {} items, not {size}", lists.size(row));
                        refuse(row, reason).remedy("give every list the same size")
                    })
                }
                _ => None,
            };
            let items = first_refusal(items(item, &lists), wrong_size)?;
            lists
                .build(items, to)
                .map_err(|error| too_many(from, to, &error))
        }
        Plan::Map(entries, check_order) => maps(entries, *check_order, array, to, valid),
        Plan::Struct(members) => structs(members, array, to, valid),
    }
}

/// Text and bytes; by Arrow's cast, which shares buffers, where no value needs a look.
fn texts(array: &ArrayRef, to: &DataType, valid: Option<&NullBuffer>) -> Result<ArrayRef, usize> {
    if leaf_rule(array.data_type(), to) == Rule::Exact
        && let Ok(cast) = strict_cast(array, to)
    {
        return Ok(cast);
    }
    text::texts(array, to, valid)
}

/// A cast that cannot lose a value.
fn strict_cast(array: &ArrayRef, to: &DataType) -> Outcome {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, to, &options)
        .map_err(|error| Refusal::of_types(array.data_type(), to, error.to_string()))
}

/// As `CAST`; the row of a value that does not convert is searched only when there is one.
fn lossy(array: &ArrayRef, to: &DataType, valid: Option<&NullBuffer>) -> Outcome {
    let masked = match valid {
        Some(valid) if *array.data_type() != DataType::Null => {
            let dropped = arrow_array::BooleanArray::new(!valid.inner(), None);
            nullif(array, &dropped)
                .map_err(|error| Refusal::of_types(array.data_type(), to, error.to_string()))?
        }
        _ => Arc::clone(array),
    };
    cast::convert(&masked, to, "the conversion").map_err(|error| {
        let row = (0..masked.len())
            .find(|row| cast::convert(&masked.slice(*row, 1), to, "the conversion").is_err());
        let refusal = match row {
            Some(row) => Refusal::of_value(array, row, to, error.to_string()),
            None => Refusal::of_types(array.data_type(), to, error.to_string()),
        };
        refusal.remedy("correct the value")
    })
}

/// A dictionary with converted values under the same keys.
fn recode(inner: &Step, array: &ArrayRef, to: &DataType, valid: Option<&NullBuffer>) -> Outcome {
    if let Some(dictionary) = array.as_any_dictionary_opt()
        && let Ok(values) = apply(inner, dictionary.values(), None)
    {
        return Ok(dictionary.with_values(values));
    }
    // A value that no row refers to may be the one that does not convert.
    encode(&decode(inner, array, valid)?, to)
}

/// Values of a dictionary or of runs, converted once per distinct value where that succeeds.
fn decode(inner: &Step, array: &ArrayRef, valid: Option<&NullBuffer>) -> Outcome {
    let to = inner.to.data_type();
    let failed = |error: ArrowError| Refusal::of_types(array.data_type(), to, error.to_string());
    let (distinct, positions): (ArrayRef, ArrayRef) =
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            (
                Arc::clone(dictionary.values()),
                arrow_array::make_array(dictionary.keys().to_data()),
            )
        } else {
            runs::<Int16Type>(array)
                .or_else(|| runs::<Int32Type>(array))
                .or_else(|| runs::<Int64Type>(array))
                .ok_or_else(|| failed(ArrowError::InvalidArgumentError("unknown keys".into())))?
        };
    if distinct.is_empty() {
        return Ok(new_null_array(to, array.len()));
    }
    // A value that no row refers to need not convert, so a failure here is not yet a refusal.
    if distinct.len() <= array.len()
        && let Ok(converted) = apply(inner, &distinct, None)
    {
        return take(&converted, &positions, None).map_err(failed);
    }
    let flat = take(&distinct, &positions, None).map_err(failed)?;
    apply(inner, &flat, valid)
}

/// Values of runs, and for each row the position of its value.
fn runs<R: RunEndIndexType>(array: &ArrayRef) -> Option<(ArrayRef, ArrayRef)> {
    let runs = array.as_any().downcast_ref::<RunArray<R>>()?;
    let positions = (0..runs.len()).map(|row| runs.get_physical_index(row) as u64);
    let positions: ArrayRef = Arc::new(UInt64Array::from_iter_values(positions));
    Some((Arc::clone(runs.values()), positions))
}

fn encode(values: &ArrayRef, to: &DataType) -> Outcome {
    let encoded = strict_cast(values, to);
    let full = |_| {
        Refusal::of_types(
            values.data_type(),
            to,
            "the keys cannot count all distinct values",
        )
        .remedy("use a wider key type")
    };
    let encoded = encoded.map_err(full)?;
    if encoded.data_type() == to {
        Ok(encoded)
    } else {
        Err(Refusal::of_types(
            values.data_type(),
            to,
            "values of this type have no dictionary",
        ))
    }
}

fn read_lists(
    array: &ArrayRef,
    to: &DataType,
    valid: Option<&NullBuffer>,
) -> Result<Lists, Box<Refusal>> {
    Lists::read(array, valid.cloned())
        .map_err(|error| Refusal::of_types(array.data_type(), to, error.to_string()))
}

/// Converts the items of lists; a refusal is told by its row and its position in the list.
fn items(step: &Step, lists: &Lists) -> Outcome {
    apply(step, &lists.items, None).map_err(|mut refusal| {
        if let Some(item) = refusal.row {
            let (row, position) = lists.place_of(item);
            refusal.row = Some(row);
            refusal.items.push(position);
        }
        refusal.under(step.to.name())
    })
}

fn too_many(from: &DataType, to: &DataType, error: &ArrowError) -> Box<Refusal> {
    Refusal::of_types(from, to, error.to_string())
        .remedy("write fewer rows at once, or use the large type")
}

fn maps(
    entries: &Step,
    check_order: bool,
    array: &ArrayRef,
    to: &DataType,
    valid: Option<&NullBuffer>,
) -> Outcome {
    let failed = |error: ArrowError| too_many(array.data_type(), to, &error);
    let DataType::Map(field, sorted) = to else {
        return Err(Refusal::of_types(array.data_type(), to, "it is no map"));
    };
    let lists = read_lists(array, to, valid)?;
    let entries = items(entries, &lists)?;
    let entries = entries.as_struct_opt().ok_or_else(|| {
        Refusal::of_types(array.data_type(), to, "the entries of a map are structs")
    })?;
    if check_order && let Some(row) = first_unsorted(&lists, entries).map_err(failed)? {
        let refusal = Refusal::of_value(array, row, to, "its keys are not in ascending order");
        return Err(refusal.remedy("sort the keys, or store a map without sorted keys"));
    }
    let built = MapArray::try_new(
        Arc::clone(field),
        lists.offsets::<i32>().map_err(failed)?,
        entries.clone(),
        lists.valid.clone(),
        *sorted,
    );
    Ok(Arc::new(built.map_err(failed)?))
}

/// The first row whose keys do not ascend.
fn first_unsorted(lists: &Lists, entries: &StructArray) -> Result<Option<usize>, ArrowError> {
    let Some(keys) = entries.columns().first() else {
        return Ok(None);
    };
    let compare = make_comparator(keys, keys, SortOptions::default())?;
    let descends = |row: usize| {
        let (start, size) = (lists.starts.get(row).copied().unwrap_or(0), lists.size(row));
        (start + 1..start + size).any(|item| compare(item - 1, item).is_gt())
    };
    Ok((0..lists.starts.len().saturating_sub(1)).find(|row| descends(*row)))
}

fn structs(
    members: &[Member],
    array: &ArrayRef,
    to: &DataType,
    valid: Option<&NullBuffer>,
) -> Outcome {
    let failed = |reason: String| Refusal::of_types(array.data_type(), to, reason);
    let (source, fields) = match (array.as_struct_opt(), to) {
        (Some(source), DataType::Struct(fields)) => (source, fields),
        _ => return Err(failed("it is no struct".to_owned())),
    };
    let mut columns = Vec::with_capacity(members.len());
    let mut refused: Option<Box<Refusal>> = None;
    for member in members {
        let name = member.step.to.name();
        let Some(position) = member.source else {
            columns.push(new_null_array(member.step.to.data_type(), array.len()));
            continue;
        };
        let column = source
            .columns()
            .get(position)
            .ok_or_else(|| failed(format!("member {name} is missing")))?;
        match apply(&member.step, column, valid) {
            Ok(column) => columns.push(column),
            Err(refusal) if refused.as_ref().is_none_or(|first| refusal.row < first.row) => {
                refused = Some(refusal.under(name));
            }
            Err(_) => {}
        }
    }
    if let Some(refusal) = refused {
        return Err(refusal);
    }
    let built =
        StructArray::try_new_with_length(fields.clone(), columns, valid.cloned(), array.len());
    Ok(Arc::new(built.map_err(|error| failed(error.to_string()))?))
}
