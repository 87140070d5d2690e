//! Names of Arrow types as pyarrow prints them, for messages: `int64`, `list<item: string>`.

use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};

/// The name of a type as users know it from pyarrow, where Rust would print `Int64` or `Utf8`.
#[must_use]
pub fn type_name(data_type: &DataType) -> String {
    let item = |field: &Field| format!("{}: {}", field.name(), type_name(field.data_type()));
    let name = match data_type {
        DataType::Null => "null",
        DataType::Boolean => "bool",
        DataType::Int8 => "int8",
        DataType::Int16 => "int16",
        DataType::Int32 => "int32",
        DataType::Int64 => "int64",
        DataType::UInt8 => "uint8",
        DataType::UInt16 => "uint16",
        DataType::UInt32 => "uint32",
        DataType::UInt64 => "uint64",
        DataType::Float16 => "halffloat",
        DataType::Float32 => "float",
        DataType::Float64 => "double",
        DataType::Date32 => "date32[day]",
        DataType::Date64 => "date64[ms]",
        DataType::Utf8 => "string",
        DataType::LargeUtf8 => "large_string",
        DataType::Utf8View => "string_view",
        DataType::Binary => "binary",
        DataType::LargeBinary => "large_binary",
        DataType::BinaryView => "binary_view",
        DataType::Interval(IntervalUnit::YearMonth) => "month_interval",
        DataType::Interval(IntervalUnit::DayTime) => "day_time_interval",
        DataType::Interval(IntervalUnit::MonthDayNano) => "month_day_nano_interval",
        DataType::Timestamp(unit, None) => return format!("timestamp[{}]", unit_name(*unit)),
        DataType::Timestamp(unit, Some(zone)) => {
            return format!("timestamp[{}, tz={zone}]", unit_name(*unit));
        }
        DataType::Time32(unit) => return format!("time32[{}]", unit_name(*unit)),
        DataType::Time64(unit) => return format!("time64[{}]", unit_name(*unit)),
        DataType::Duration(unit) => return format!("duration[{}]", unit_name(*unit)),
        DataType::FixedSizeBinary(size) => return format!("fixed_size_binary[{size}]"),
        DataType::Decimal32(precision, scale) => return format!("decimal32({precision}, {scale})"),
        DataType::Decimal64(precision, scale) => return format!("decimal64({precision}, {scale})"),
        DataType::Decimal128(precision, scale) => {
            return format!("decimal128({precision}, {scale})");
        }
        DataType::Decimal256(precision, scale) => {
            return format!("decimal256({precision}, {scale})");
        }
        DataType::List(field) => return format!("list<{}>", item(field)),
        DataType::LargeList(field) => return format!("large_list<{}>", item(field)),
        DataType::ListView(field) => return format!("list_view<{}>", item(field)),
        DataType::LargeListView(field) => return format!("large_list_view<{}>", item(field)),
        DataType::FixedSizeList(field, size) => {
            return format!("fixed_size_list<{}>[{size}]", item(field));
        }
        DataType::Struct(fields) => {
            let fields: Vec<_> = fields.iter().map(|field| item(field)).collect();
            return format!("struct<{}>", fields.join(", "));
        }
        DataType::Map(entries, _) => return map_name(entries),
        DataType::Dictionary(index, value) => {
            return format!(
                "dictionary<values={}, indices={}>",
                type_name(value),
                type_name(index)
            );
        }
        DataType::Union(_, _) => "union",
        DataType::RunEndEncoded(_, values) => {
            return format!("run_end_encoded<{}>", type_name(values.data_type()));
        }
    };
    name.to_owned()
}

fn map_name(entries: &Field) -> String {
    match entries.data_type() {
        DataType::Struct(pair) if pair.len() == 2 => format!(
            "map<{}, {}>",
            type_name(pair[0].data_type()),
            type_name(pair[1].data_type())
        ),
        other => format!("map<{}>", type_name(other)),
    }
}

/// The name of a unit of time, as in the names of types: `us` in `timestamp[us]`.
#[must_use]
pub fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, TimeUnit};

    use super::type_name;

    #[test]
    fn names_are_those_that_pyarrow_prints() {
        let list = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
        let members = vec![
            Field::new("a", list, true),
            Field::new("b", DataType::Utf8, true),
        ];
        assert_eq!(
            type_name(&DataType::Struct(members.into())),
            "struct<a: list<item: int64>, b: string>"
        );
        let zone = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        assert_eq!(type_name(&zone), "timestamp[us, tz=UTC]");
        let keys = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Float64));
        assert_eq!(type_name(&keys), "dictionary<values=double, indices=int32>");
    }
}
