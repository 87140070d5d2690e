//! Skiff, the row format of YTsaurus jobs, to and from Arrow at the speed of memory; and YSON, its notation for values of any
//! type.
//!
//! A Skiff stream carries neither names nor types: it is read by its schema only.
//!
//! ```text
//!   stream of a job's input:   00 00 | row of table 0     01 00 | row of table 1     00 00 | row of table 0 ...
//!   one row:                   dense and control columns | sparse columns, FF FF | other columns, a YSON map
//! ```
//!
//! - [`Format`]: the schemas of the tables of a stream, from and to the attributes of an operation, from an Arrow schema, from a
//!   schema of a YTsaurus table; [`Format::annotate`] shows the bytes of a stream field by field.
//! - [`Decoder`], [`Reader`]: bytes to record batches, in one pass, in bounded memory.
//! - [`Encoder`]: record batches to bytes.
//! - [`yson`]: nodes read, written, and as kernels over arrays.
//!
//! ```
//! use pilum_skiff::{DecodeOptions, Format, Reader, Strings};
//!
//! let format = r#"{"table_skiff_schemas": [{"wire_type": "tuple", "children": [
//!     {"name": "id", "wire_type": "int64"},
//!     {"name": "name", "wire_type": "variant8", "children": [{"wire_type": "nothing"}, {"wire_type": "string32"}]}
//! ]}]}"#;
//! let format = Format::from_json(format, Strings::Text)?;
//! let bytes: &[u8] = b"\0\0\x2a\0\0\0\0\0\0\0\x01\x03\0\0\0foo\0\0\x07\0\0\0\0\0\0\0\0";
//! for batch in Reader::new(bytes, format, DecodeOptions::default()) {
//!     let (table, batch) = batch?;
//!     assert_eq!((table, batch.num_rows()), (0, 2));
//! }
//! # Ok::<(), pilum_skiff::Error>(())
//! ```
//!
//! Nothing here waits, opens or spawns: input is a slice or [`std::io::Read`], output a `Vec<u8>`.

mod annotate;
mod bytes;
mod decode;
mod encode;
mod error;
mod schema;
pub mod yson;

pub use decode::{DecodeOptions, Decoder, Reader};
pub use encode::{EncodeOptions, Encoder, Tags, write_all};
pub use error::{Error, Result, StreamFault, ValueFault};
pub use schema::{Format, Slot, Strings, TableSchema, WireNode, WireType, YSON_EXTENSION};

/// The name of an Arrow type as Arrow itself writes it.
pub(crate) fn arrow_name(data_type: &arrow_schema::DataType) -> String {
    use arrow_schema::{DataType, TimeUnit};
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    match data_type {
        DataType::Utf8 => "string".to_owned(),
        DataType::LargeUtf8 => "large_string".to_owned(),
        DataType::Utf8View => "string_view".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Float16 => "halffloat".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::LargeBinary => "large_binary".to_owned(),
        DataType::BinaryView => "binary_view".to_owned(),
        DataType::FixedSizeBinary(width) => format!("fixed_size_binary[{width}]"),
        DataType::Date32 => "date32[day]".to_owned(),
        DataType::Date64 => "date64[ms]".to_owned(),
        DataType::Timestamp(of, Some(zone)) => format!("timestamp[{}, tz={zone}]", unit(of)),
        DataType::Timestamp(of, None) => format!("timestamp[{}]", unit(of)),
        DataType::Time32(of) => format!("time32[{}]", unit(of)),
        DataType::Time64(of) => format!("time64[{}]", unit(of)),
        DataType::Duration(of) => format!("duration[{}]", unit(of)),
        DataType::Decimal128(precision, scale) => format!("decimal128({precision}, {scale})"),
        DataType::Decimal256(precision, scale) => format!("decimal256({precision}, {scale})"),
        DataType::List(item) => format!("list<{}>", arrow_name(item.data_type())),
        DataType::LargeList(item) => format!("large_list<{}>", arrow_name(item.data_type())),
        DataType::FixedSizeList(item, length) => {
            format!(
                "fixed_size_list<{}>[{length}]",
                arrow_name(item.data_type())
            )
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                let names: Vec<_> = fields.iter().map(|it| arrow_name(it.data_type())).collect();
                format!("map<{}>", names.join(", "))
            }
            other => format!("map<{}>", arrow_name(other)),
        },
        DataType::Struct(fields) => {
            let field = |it: &arrow_schema::FieldRef| {
                format!("{}: {}", it.name(), arrow_name(it.data_type()))
            };
            let fields: Vec<_> = fields.iter().map(field).collect();
            format!("struct<{}>", fields.join(", "))
        }
        DataType::Union(fields, _) => {
            let names: Vec<_> = fields
                .iter()
                .map(|(_, it)| arrow_name(it.data_type()))
                .collect();
            format!("dense_union<{}>", names.join(", "))
        }
        DataType::Dictionary(key, value) => {
            format!("dictionary<{}, {}>", arrow_name(key), arrow_name(value))
        }
        other => other.to_string().to_lowercase(),
    }
}
