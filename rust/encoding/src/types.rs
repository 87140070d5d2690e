//! The type strings of a Lance schema (`logical_type`), for Arrow types in v1 and beyond it (`docs/format.md`, section 3).

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
    validate_decimal_precision_and_scale,
};
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use pilum_common::type_name;

use crate::beyond_v1::check_dictionary_value;
use crate::error::Error;
use crate::layout::{Layout, fixed_layout, is_flat};

const EXTENSION_NAME: &str = "ARROW:extension:name";
const BFLOAT16: &str = "lance.bfloat16";

/// Both names of the JSON extension: Arrow's, and the one that Lance stores.
const JSON: [&str; 2] = ["arrow.json", "lance.json"];

/// Most levels of nesting in one type string. Types of real tables nest a few levels; parsing recurses, so a hostile string
/// must not nest deeper than the stack.
const MAX_NAME_DEPTH: usize = 64;

/// The `encoding` number of a Lance field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageEncoding {
    /// No page of its own, or a page without bytes.
    None = 0,
    /// Raw values or offsets.
    Plain = 1,
    /// Bytes and absolute offsets.
    VarBinary = 2,
    /// Keys into the dictionary of the field.
    Dictionary = 3,
}

/// The encoding that a field of this type declares.
///
/// # Errors
/// `Unsupported` for a type without a page.
pub fn page_encoding(data_type: &DataType) -> Result<PageEncoding, Error> {
    Ok(match Layout::of(data_type)? {
        Layout::Null | Layout::Struct | Layout::Items { .. } => PageEncoding::None,
        Layout::Fixed(_) | Layout::Offsets { .. } => PageEncoding::Plain,
        Layout::Var { .. } => PageEncoding::VarBinary,
        Layout::Keys { .. } => PageEncoding::Dictionary,
    })
}

/// Whether pages of this type have statistics. Pages below a list have none; the caller must check that.
pub fn has_statistics(data_type: &DataType) -> bool {
    has_peer_statistics(data_type)
        || matches!(
            data_type,
            DataType::Timestamp(..)
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Duration(_)
                | DataType::Decimal256(..)
        )
}

/// Whether pylance's own writer keeps statistics of pages of this type. It reads those of other types too.
pub fn has_peer_statistics(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::UInt64
            | DataType::Float32
            | DataType::Float64
            | DataType::Date32
            | DataType::Date64
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::Decimal128(_, _)
    )
}

/// The `logical_type` of a field.
///
/// # Errors
/// `Unsupported` names a type that has none.
pub fn logical_type(field: &Field) -> Result<String, Error> {
    let data_type = field.data_type();
    // `Layout` alone decides which types have a page.
    Layout::of(data_type)?;
    let element = |item: &Field| match item.data_type() {
        DataType::Struct(_) => ".struct",
        _ => "",
    };
    Ok(match data_type {
        DataType::LargeBinary if extension(field).is_some_and(|name| JSON.contains(&name)) => {
            "json".to_owned()
        }
        DataType::List(item) => format!("list{}", element(item)),
        DataType::LargeList(item) => format!("large_list{}", element(item)),
        DataType::ListView(_) => "list_view".to_owned(),
        DataType::LargeListView(_) => "large_list_view".to_owned(),
        DataType::Map(_, false) => "map".to_owned(),
        DataType::Map(_, true) => "map:sorted".to_owned(),
        DataType::Struct(_) => "struct".to_owned(),
        DataType::Dictionary(index, value) => {
            check_dictionary_value(value)?;
            let ordered = field.dict_is_ordered().unwrap_or(false);
            format!(
                "dict:{}:{}:{ordered}",
                scalar_name(value)?,
                scalar_name(index)?
            )
        }
        DataType::FixedSizeList(item, n) if !is_flat(item.data_type()) => {
            format!("fixed_size_list.child:{n}")
        }
        DataType::FixedSizeList(item, n) => format!("fixed_size_list:{}:{n}", item_name(item)?),
        other => scalar_name(other)?,
    })
}

fn extension(field: &Field) -> Option<&str> {
    field.metadata().get(EXTENSION_NAME).map(String::as_str)
}

fn item_name(item: &Field) -> Result<String, Error> {
    if *item.data_type() == DataType::FixedSizeBinary(2) && extension(item) == Some(BFLOAT16) {
        return Ok(BFLOAT16.to_owned());
    }
    logical_type(item)
}

/// Types whose string has no parameters.
const PLAIN: [(&str, DataType); 33] = [
    ("null", DataType::Null),
    ("bool", DataType::Boolean),
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
    ("halffloat", DataType::Float16),
    ("float", DataType::Float32),
    ("double", DataType::Float64),
    ("string", DataType::Utf8),
    ("large_string", DataType::LargeUtf8),
    ("binary", DataType::Binary),
    ("large_binary", DataType::LargeBinary),
    ("date32:day", DataType::Date32),
    ("date64:ms", DataType::Date64),
    ("time32:s", DataType::Time32(TimeUnit::Second)),
    ("time32:ms", DataType::Time32(TimeUnit::Millisecond)),
    ("time64:us", DataType::Time64(TimeUnit::Microsecond)),
    ("time64:ns", DataType::Time64(TimeUnit::Nanosecond)),
    ("duration:s", DataType::Duration(TimeUnit::Second)),
    ("duration:ms", DataType::Duration(TimeUnit::Millisecond)),
    ("duration:us", DataType::Duration(TimeUnit::Microsecond)),
    ("duration:ns", DataType::Duration(TimeUnit::Nanosecond)),
    ("string_view", DataType::Utf8View),
    ("binary_view", DataType::BinaryView),
    (
        "interval:year_month",
        DataType::Interval(IntervalUnit::YearMonth),
    ),
    (
        "interval:day_time",
        DataType::Interval(IntervalUnit::DayTime),
    ),
    (
        "interval:month_day_nano",
        DataType::Interval(IntervalUnit::MonthDayNano),
    ),
    // Of two names for one type the first is written, and both are read.
    ("json", DataType::LargeBinary),
];

fn scalar_name(data_type: &DataType) -> Result<String, Error> {
    Ok(match data_type {
        DataType::Decimal32(p, s) => format!("decimal:32:{p}:{s}"),
        DataType::Decimal64(p, s) => format!("decimal:64:{p}:{s}"),
        DataType::Decimal128(p, s) => format!("decimal:128:{p}:{s}"),
        DataType::Decimal256(p, s) => format!("decimal:256:{p}:{s}"),
        DataType::Timestamp(unit, None) => format!("timestamp:{}:-", unit_name(*unit)),
        // A zone of this name would be read back as no zone.
        DataType::Timestamp(_, Some(zone)) if zone.as_ref() == "-" => {
            return Err(Error::unsupported("timestamp with the time zone \"-\""));
        }
        DataType::Timestamp(unit, Some(zone)) => format!("timestamp:{}:{zone}", unit_name(*unit)),
        DataType::FixedSizeBinary(n) => format!("fixed_size_binary:{n}"),
        other => {
            let plain = PLAIN.iter().find(|(_, plain)| plain == other);
            let (name, _) =
                plain.ok_or_else(|| Error::unsupported(format!("type {}", type_name(other))))?;
            (*name).to_owned()
        }
    })
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// The Arrow type of a `logical_type`; `children` are the fields built from its child fields
/// (a list's item, a map's entries, a struct's members).
///
/// # Errors
/// `Unsupported` for a type that this release does not know, `Corrupt` for a malformed string or children
/// that do not fit it, `Limit` for a string that nests too deep.
pub fn parse_logical_type(logical: &str, children: Vec<FieldRef>) -> Result<DataType, Error> {
    let (name, rest) = logical.split_once(':').unwrap_or((logical, ""));
    let of_item: fn(FieldRef) -> DataType = match (name, rest) {
        ("struct", "") => return Ok(DataType::Struct(children.into())),
        ("list" | "list.struct", "") => DataType::List,
        ("large_list" | "large_list.struct", "") => DataType::LargeList,
        ("list_view", "") => DataType::ListView,
        ("large_list_view", "") => DataType::LargeListView,
        ("map", "") => |entries| DataType::Map(entries, false),
        ("map", "sorted") => |entries| DataType::Map(entries, true),
        ("fixed_size_list.child", n) => {
            let n = parse_size(n).ok_or_else(|| malformed(logical))?;
            let item = only_child(logical, children)?;
            if is_flat(item.data_type()) {
                return Err(malformed(logical));
            }
            return Ok(DataType::FixedSizeList(item, n));
        }
        _ if children.is_empty() => return parse_leaf(logical, 0),
        _ => {
            return Err(Error::corrupt(format!(
                "{} children under type {logical}",
                children.len()
            )));
        }
    };
    let data_type = of_item(only_child(logical, children)?);
    // Refuses a map whose entries are no pair of key and value.
    Layout::of(&data_type)?;
    Ok(data_type)
}

fn only_child(logical: &str, children: Vec<FieldRef>) -> Result<FieldRef, Error> {
    match <[FieldRef; 1]>::try_from(children) {
        Ok([item]) => Ok(item),
        Err(children) => Err(Error::corrupt(format!(
            "a {logical} of {} items",
            children.len()
        ))),
    }
}

fn malformed(logical: &str) -> Error {
    Error::corrupt(format!("malformed logical type \"{}\"", head(logical)))
}

/// The first 100 characters of a text from a file, so that error messages stay short.
fn head(text: &str) -> &str {
    text.char_indices()
        .nth(100)
        .map_or(text, |(end, _)| &text[..end])
}

fn parse_leaf(logical: &str, depth: usize) -> Result<DataType, Error> {
    if depth > MAX_NAME_DEPTH {
        return Err(Error::Limit {
            what: "types nested in one logical type".to_owned(),
            actual: depth as u64,
            limit: MAX_NAME_DEPTH as u64,
        });
    }
    if let Some((_, plain)) = PLAIN.iter().find(|(name, _)| *name == logical) {
        return Ok(plain.clone());
    }
    let malformed = || malformed(logical);
    let (name, rest) = logical.split_once(':').unwrap_or((logical, ""));
    let data_type = match (name, rest) {
        ("duration", _) => return Err(malformed()),
        ("timestamp", rest) => {
            // The zone may itself contain colons.
            let (unit, zone) = rest.split_once(':').ok_or_else(malformed)?;
            let zone = (zone != "-").then(|| Arc::from(zone));
            DataType::Timestamp(parse_unit(unit).ok_or_else(malformed)?, zone)
        }
        ("decimal", rest) => parse_decimal(rest).ok_or_else(malformed)?,
        ("fixed_size_binary", n) => DataType::FixedSizeBinary(parse_size(n).ok_or_else(malformed)?),
        ("fixed_size_list", rest) => {
            let (item, n) = rest.rsplit_once(':').ok_or_else(malformed)?;
            let n = parse_size(n).ok_or_else(malformed)?;
            DataType::FixedSizeList(parse_item(item, depth + 1)?, n)
        }
        ("dict", rest) => {
            let (rest, ordered) = rest.rsplit_once(':').ok_or_else(malformed)?;
            let (value, index) = rest.rsplit_once(':').ok_or_else(malformed)?;
            let (value, index) = (parse_leaf(value, depth + 1)?, parse_leaf(index, depth + 1)?);
            if !index.is_dictionary_key_type() || !matches!(ordered, "true" | "false") {
                return Err(malformed());
            }
            check_dictionary_value(&value)?;
            DataType::Dictionary(Box::new(index), Box::new(value))
        }
        _ => {
            return Err(Error::unsupported(format!(
                "logical type \"{}\"",
                head(logical)
            )));
        }
    };
    if matches!(data_type, DataType::FixedSizeList(_, _)) {
        // Items of other types have a child field and no type string of this form. The size of a row must fit 64 bits.
        fixed_layout(&data_type)?.row_bytes()?;
    }
    Ok(data_type)
}

fn parse_item(item: &str, depth: usize) -> Result<FieldRef, Error> {
    if item == BFLOAT16 {
        let metadata = [(EXTENSION_NAME.to_owned(), BFLOAT16.to_owned())];
        let field = Field::new("item", DataType::FixedSizeBinary(2), true);
        return Ok(Arc::new(field.with_metadata(HashMap::from(metadata))));
    }
    Ok(Arc::new(Field::new("item", parse_leaf(item, depth)?, true)))
}

fn parse_unit(unit: &str) -> Option<TimeUnit> {
    Some(match unit {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => return None,
    })
}

fn parse_size(n: &str) -> Option<i32> {
    n.parse().ok().filter(|n| *n >= 0)
}

fn parse_decimal(rest: &str) -> Option<DataType> {
    let (bits, rest) = rest.split_once(':')?;
    let (precision, scale) = rest.split_once(':')?;
    let (precision, scale) = (precision.parse().ok()?, scale.parse().ok()?);
    fn checked<T: DecimalType>(precision: u8, scale: i8) -> Option<DataType> {
        validate_decimal_precision_and_scale::<T>(precision, scale)
            .ok()
            .map(|()| T::TYPE_CONSTRUCTOR(precision, scale))
    }
    match bits {
        "32" => checked::<Decimal32Type>(precision, scale),
        "64" => checked::<Decimal64Type>(precision, scale),
        "128" => checked::<Decimal128Type>(precision, scale),
        "256" => checked::<Decimal256Type>(precision, scale),
        _ => None,
    }
}
