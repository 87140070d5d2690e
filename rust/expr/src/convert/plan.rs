//! Plans a conversion from two fields: what has to be done with the values of each part.

use std::sync::Arc;

use arrow_cast::can_cast_types;
use arrow_schema::{DataType, Field, FieldRef, Fields};

use super::{
    error::Refusal,
    extension::{ExtensionCheck, extension},
    number::is_number,
    rule::{Rule, leaf_rule},
    text::{is_binary, is_text},
};
use crate::{kernel::cast::cast_obstacle, lists::item_of};

/// Whether a conversion may lose part of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Every value is kept, or the conversion is refused.
    #[default]
    Exact,
    /// As `CAST`: values are rounded, cut to the unit, parsed or formatted; a value out of range is still refused.
    Lossy,
}

/// What to do about a column or struct member that the target has and the source lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Missing {
    /// Nulls, if it may hold them.
    #[default]
    Null,
    /// Refuse.
    Error,
}

/// What to do about a column or struct member that the source has and the target lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Extra {
    /// Refuse.
    #[default]
    Error,
    /// Leave it out.
    Ignore,
}

/// How strictly values and members must fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdaptOptions {
    /// Members that the source lacks.
    pub missing: Missing,
    /// Members that the target lacks.
    pub extra: Extra,
    /// Whether values may be changed.
    pub cast: Mode,
    /// The values come from a table: rules of extension types were checked when they were written.
    pub are_stored: bool,
}

/// The conversion of one field.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) to: FieldRef,
    /// A null in a place that matters is refused.
    pub(crate) not_null: bool,
    pub(crate) check: Option<ExtensionCheck>,
    pub(crate) plan: Plan,
}

/// What happens to the values.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Nothing: the types are equal.
    Keep,
    /// Arrow's cast, which cannot fail for these types.
    Widen,
    Number,
    Instant,
    Interval,
    Text,
    /// By the rules of `CAST`.
    Lossy,
    FromNull,
    ToNull,
    /// The values of a dictionary are converted, and its keys stay.
    Recode(Box<Step>),
    /// Dictionary or run-end encoding is resolved, then the values are converted.
    Decode(Box<Step>),
    /// The values are converted, then encoded as a dictionary.
    Encode(Box<Step>),
    /// Any list, or a map, to a list.
    List(Box<Step>),
    /// A map, or a list of entries, to a map; keys are checked for their order.
    Map(Box<Step>, bool),
    Struct(Vec<Member>),
}

/// One member of the target struct.
#[derive(Debug)]
pub(crate) struct Member {
    /// Position in the source; `None` for a member that becomes null.
    pub(crate) source: Option<usize>,
    pub(crate) step: Step,
}

/// Plans the conversion of one field to another.
///
/// # Errors
/// If the types do not convert whatever the values.
pub(crate) fn step(
    from: &Field,
    to: &FieldRef,
    options: AdaptOptions,
) -> Result<Step, Box<Refusal>> {
    let check = extension(from, to, options.are_stored)?;
    Ok(Step {
        to: Arc::clone(to),
        not_null: !to.is_nullable(),
        check,
        plan: plan(from.data_type(), to.data_type(), options)?,
    })
}

/// As [`step`], of values that have no field of their own.
fn values_step(
    from: &DataType,
    to: &DataType,
    options: AdaptOptions,
) -> Result<Box<Step>, Box<Refusal>> {
    let to = Arc::new(Field::new("values", to.clone(), true));
    Ok(Box::new(Step {
        not_null: false,
        check: None,
        plan: plan(from, to.data_type(), options)?,
        to,
    }))
}

fn plan(from: &DataType, to: &DataType, options: AdaptOptions) -> Result<Plan, Box<Refusal>> {
    use DataType::{Dictionary, Map, Null, RunEndEncoded, Struct, Union};
    match (from, to) {
        (from, to) if from == to => Ok(Plan::Keep),
        (Union(..), _) | (_, Union(..)) => Err(never(from, to)),
        (_, RunEndEncoded(..)) => Err(never(from, to)),
        (Null, _) => Ok(Plan::FromNull),
        (_, Null) => Ok(Plan::ToNull),
        (Dictionary(keys, values), Dictionary(others, to)) if keys == others => {
            values_step(values, to, options).map(Plan::Recode)
        }
        (Dictionary(_, values), to) => values_step(values, to, options).map(Plan::Decode),
        (RunEndEncoded(_, values), to) => {
            values_step(values.data_type(), to, options).map(Plan::Decode)
        }
        (from, Dictionary(_, values)) => {
            if !can_cast_types(values, to) {
                return Err(never(from, to));
            }
            values_step(from, values, options).map(Plan::Encode)
        }
        (Struct(from), Struct(to)) => members(from, to, options).map(Plan::Struct),
        (from, Map(entries, sorted)) => {
            let item = item_of(from).ok_or_else(|| never(from, to))?;
            let was_sorted = matches!(from, Map(_, true));
            let mut step = entries_step(item, entries, from, to, options)?;
            step.not_null = true;
            Ok(Plan::Map(Box::new(step), *sorted && !was_sorted))
        }
        (Map(entries, _), to) => {
            let item = item_of(to).ok_or_else(|| never(from, to))?;
            entries_step(entries, item, from, to, options).map(|step| Plan::List(Box::new(step)))
        }
        (from, to) => match (item_of(from), item_of(to)) {
            (Some(from), Some(to)) => step(from, to, options)
                .map(|step| Plan::List(Box::new(step)))
                .map_err(|refusal| refusal.under(to.name())),
            (None, None) => leaf(from, to, options.cast),
            _ => Err(never(from, to)),
        },
    }
}

fn leaf(from: &DataType, to: &DataType, mode: Mode) -> Result<Plan, Box<Refusal>> {
    let rule = leaf_rule(from, to);
    if mode == Mode::Lossy && rule != Rule::Exact {
        return match cast_obstacle(from, to) {
            None => Ok(Plan::Lossy),
            Some(_) => Err(Refusal::of_types(from, to, "CAST has no such conversion")
                .remedy("compute the column with an expression")),
        };
    }
    let widens = |t: &DataType| t.is_integer() || t.is_floating();
    match rule {
        Rule::Never => Err(never(from, to)),
        Rule::Exact if widens(from) && widens(to) => Ok(Plan::Widen),
        _ if is_number(from) => Ok(Plan::Number),
        _ if is_text(from) || is_binary(from) => Ok(Plan::Text),
        _ if matches!(from, DataType::Interval(_)) => Ok(Plan::Interval),
        _ => Ok(Plan::Instant),
    }
}

fn never(from: &DataType, to: &DataType) -> Box<Refusal> {
    let remedy = "cast the column before";
    Refusal::of_types(from, to, "values of these types do not mean the same").remedy(remedy)
}

/// Matches members by name.
///
/// # Errors
/// For a member that is missing, left over, repeated, or does not convert.
pub(crate) fn members(
    from: &Fields,
    to: &Fields,
    options: AdaptOptions,
) -> Result<Vec<Member>, Box<Refusal>> {
    let mut found = Vec::with_capacity(to.len());
    for field in to {
        found.push(member(from, field, options)?);
    }
    for (position, field) in from.iter().enumerate() {
        if let Some(refusal) = left_over(from, to, position, options.extra) {
            return Err(refusal.under(field.name()));
        }
    }
    Ok(found)
}

/// The member of the source with the name of `field`.
pub(crate) fn member(
    from: &Fields,
    field: &FieldRef,
    options: AdaptOptions,
) -> Result<Member, Box<Refusal>> {
    if let Some((position, source)) = from.find(field.name()) {
        return Ok(Member {
            source: Some(position),
            step: step(source, field, options).map_err(|refusal| refusal.under(field.name()))?,
        });
    }
    if options.missing == Missing::Error || !field.is_nullable() {
        let reason = if field.is_nullable() {
            "it is missing"
        } else {
            "it is missing and may not be null"
        };
        return Err(
            Refusal::of_types(&DataType::Null, field.data_type(), reason)
                .remedy("add it to the data")
                .under(field.name()),
        );
    }
    Ok(Member {
        source: None,
        step: Step {
            to: Arc::clone(field),
            not_null: false,
            check: None,
            plan: Plan::FromNull,
        },
    })
}

/// Why the member at this position of the source cannot be left out; `None` if it is used or dropped.
pub(crate) fn left_over(
    from: &Fields,
    to: &Fields,
    position: usize,
    extra: Extra,
) -> Option<Box<Refusal>> {
    let field = from.get(position)?;
    let refuse = |reason: &str, remedy: &str| {
        Some(Refusal::of_types(field.data_type(), &DataType::Null, reason).remedy(remedy))
    };
    let first = from.find(field.name()).map(|(first, _)| first);
    if first != Some(position) {
        return refuse("its name occurs twice", "rename or drop one of them");
    }
    if to.find(field.name()).is_none() && extra == Extra::Error {
        return refuse("the target has no such column", "drop it, or rename it");
    }
    None
}

/// Keys and values of maps, and of lists of entries: by position in maps, by their names in structs.
fn entries_step(
    from: &Field,
    to: &FieldRef,
    from_type: &DataType,
    to_type: &DataType,
    options: AdaptOptions,
) -> Result<Step, Box<Refusal>> {
    let refuse = || never(from_type, to_type);
    let (DataType::Struct(sources), DataType::Struct(targets)) = (from.data_type(), to.data_type())
    else {
        return Err(refuse());
    };
    let order = |entries: &Fields, data_type: &DataType| -> Option<[usize; 2]> {
        if entries.len() != 2 {
            return None;
        }
        if matches!(data_type, DataType::Map(..)) {
            return Some([0, 1]);
        }
        let key = entries.find("key").or_else(|| entries.find("keys"))?.0;
        let value = entries.find("value").or_else(|| entries.find("values"))?.0;
        Some([key, value])
    };
    let (source, target) = match (order(sources, from_type), order(targets, to_type)) {
        (Some(source), Some(target)) => (source, target),
        _ => return Err(refuse()),
    };
    let mut found = Vec::with_capacity(2);
    for (position, field) in targets.iter().enumerate() {
        let role = usize::from(target[0] != position);
        let (from_position, is_key) = (source[role], role == 0);
        let Some(from) = sources.get(from_position) else {
            return Err(refuse());
        };
        let mut step = step(from, field, options)
            .map_err(|refusal| refusal.under(field.name()).under(to.name()))?;
        step.not_null |= is_key && matches!(to_type, DataType::Map(..));
        found.push(Member {
            source: Some(from_position),
            step,
        });
    }
    Ok(Step {
        to: Arc::clone(to),
        not_null: !to.is_nullable(),
        check: None,
        plan: Plan::Struct(found),
    })
}
