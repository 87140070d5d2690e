//! Fields as streams are decoded to them: plain layouts, no empty parameters, nulls where there can be some.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, UnionMode};

const PARAMETERS_KEY: &str = "ARROW:extension:metadata";

/// The field without the empty parameters of extension types, which some libraries add: a type is the same type without them.
pub(crate) fn without_empty_metadata(field: &Field) -> Field {
    let mut metadata = field.metadata().clone();
    if matches!(
        metadata.get(PARAMETERS_KEY).map(String::as_str),
        Some("" | "{}")
    ) {
        metadata.remove(PARAMETERS_KEY);
    }
    let field = field.clone().with_metadata(metadata);
    let data_type = map_children(field.data_type(), &without_empty_metadata);
    field.with_data_type(data_type)
}

/// The type with other fields in it; a type without fields is the same.
fn map_children(data_type: &DataType, map: &dyn Fn(&Field) -> Field) -> DataType {
    let inner = |field: &FieldRef| Arc::new(map(field));
    match data_type {
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(inner(item), *length),
        DataType::Map(entries, is_sorted) => DataType::Map(inner(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::Union(fields, mode) => {
            let fields = fields.iter().map(|(id, field)| (id, inner(field)));
            DataType::Union(fields.collect(), *mode)
        }
        other => other.clone(),
    }
}

/// True when a value of this field can be null. A union has no nulls of its own; those of its alternatives count as its own.
pub(crate) fn can_be_null(field: &Field) -> bool {
    match field.data_type() {
        DataType::Null => true,
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| can_be_null(field)),
        _ => field.is_nullable(),
    }
}

/// The field with layouts that streams are decoded to: dictionaries become their values, views plain strings, lists of a fixed
/// size lists, and unions dense ones whose ids are numbers from 0, nullable where an alternative is. All of them are encoded.
pub(crate) fn decodable(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Dictionary(_, value) => {
            return decodable(&field.clone().with_data_type(value.as_ref().clone()));
        }
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::FixedSizeList(item, _) => DataType::List(Arc::new(decodable(item))),
        DataType::Union(fields, _) => {
            let fields = fields.iter().map(|(_, field)| Arc::new(decodable(field)));
            let fields = (0..=i8::MAX).zip(fields).collect();
            let union = field
                .clone()
                .with_data_type(DataType::Union(fields, UnionMode::Dense));
            let is_nullable = union.is_nullable() || can_be_null(&union);
            return union.with_nullable(is_nullable);
        }
        other => map_children(other, &decodable),
    };
    field.clone().with_data_type(data_type)
}
