//! Names of Arrow types in messages.

use arrow_schema::{DataType, FieldRef, TimeUnit};

/// The name of an Arrow type as Arrow itself writes it.
pub(crate) fn arrow_name(data_type: &DataType) -> String {
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
            let field = |it: &FieldRef| format!("{}: {}", it.name(), arrow_name(it.data_type()));
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
        DataType::RunEndEncoded(ends, values) => format!(
            "run_end_encoded<{}, {}>",
            arrow_name(ends.data_type()),
            arrow_name(values.data_type())
        ),
        DataType::Dictionary(key, value) => {
            format!("dictionary<{}, {}>", arrow_name(key), arrow_name(value))
        }
        other => other.to_string().to_lowercase(),
    }
}
