//! Everything that is in a file, as JSON: schema, row groups, column chunks, pages, statistics, indexes, metadata.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_cast::display::array_value_to_string;
use parquet::basic::{LogicalType, Repetition};
use parquet::file::metadata::{ColumnChunkMetaData, LevelHistogram, RowGroupMetaData};
use parquet::file::statistics::Statistics as Stored;
use parquet::schema::types::{ColumnDescriptor, Type};
use pilum_expr::ColumnPath;
use serde_json::{Map, Value, json};

use crate::checksum::crc32;
use crate::columns::leaf_at;
use crate::error::Result;
use crate::file::ParquetFile;
use crate::pages::{Page, pages};
use crate::statistics::Statistics;
use crate::thrift::PageKind;

/// Longer values of statistics and metadata are cut.
const SHOWN_CHARS: usize = 200;

/// Describes a file. With `with_pages` the header of every page is read, and every checksum verified.
///
/// # Errors
/// `CommonError::Corrupt` for an index or a page header that cannot be read. A page whose checksum is wrong
/// is no error: the description says it.
pub async fn inspect(file: &Arc<ParquetFile>, with_pages: bool) -> Result<Value> {
    let metadata = file.indexed().await?.metadata();
    let footer = metadata.file_metadata();
    let schema = footer.schema_descr();
    let mut groups = Vec::new();
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let mut chunks = Vec::new();
        for (leaf, chunk) in group.columns().iter().enumerate() {
            let mut described = describe_chunk(file, index, leaf, chunk)?;
            if let Some(pages) = metadata
                .page_index()
                .and_then(|it| it.num_data_pages(index, leaf))
            {
                described.insert("indexed_pages".to_owned(), json!(pages));
            }
            if with_pages {
                let (start, len) = chunk.byte_range();
                let found = pages(file.source().as_ref(), start..start + len).await?;
                let mut pages = Vec::with_capacity(found.len());
                for page in &found {
                    pages.push(describe_page(file, page).await?);
                }
                described.insert("pages".to_owned(), Value::Array(pages));
            }
            chunks.push(Value::Object(described));
        }
        groups.push(json!({
            "index": index,
            "num_rows": group.num_rows(),
            "uncompressed_bytes": group.total_byte_size(),
            "compressed_bytes": group.compressed_size(),
            "file_offset": group.file_offset(),
            "sorted_by": sorted_by(group),
            "columns": chunks,
        }));
    }
    let pairs = footer.key_value_metadata().into_iter().flatten();
    let pairs =
        pairs.map(|pair| json!({"key": pair.key, "value": pair.value.as_deref().map(shown)}));
    let columns = schema.columns().iter().map(|leaf| describe_leaf(leaf));
    Ok(json!({
        "path": file.path(),
        "num_bytes": file.size(),
        "format_version": footer.version(),
        "created_by": footer.created_by(),
        "num_rows": footer.num_rows(),
        "num_row_groups": metadata.num_row_groups(),
        "key_value_metadata": pairs.collect::<Vec<_>>(),
        "schema": describe_type(schema.root_schema(), 0, 0),
        "arrow_schema": file.schema().fields().iter().map(|field| json!({
            "name": field.name(),
            "data_type": field.data_type().to_string(),
            "nullable": field.is_nullable(),
        })).collect::<Vec<_>>(),
        "columns": columns.collect::<Vec<_>>(),
        "row_groups": groups,
    }))
}

fn sorted_by(group: &RowGroupMetaData) -> Vec<Value> {
    let columns = group.sorting_columns().into_iter().flatten();
    let described = columns.map(|it| {
        json!({"column": it.column_idx, "descending": it.descending, "nulls_first": it.nulls_first})
    });
    described.collect()
}

/// One node of the schema with the levels that values below it have.
///
/// A node that may be missing adds one definition level, a repeated one adds one repetition level too.
fn describe_type(node: &Type, definition: i16, repetition: i16) -> Value {
    let info = node.get_basic_info();
    let kind = info.has_repetition().then(|| info.repetition());
    let (definition, repetition) = match kind {
        Some(Repetition::OPTIONAL) => (definition + 1, repetition),
        Some(Repetition::REPEATED) => (definition + 1, repetition + 1),
        _ => (definition, repetition),
    };
    let mut described = Map::new();
    described.insert("name".to_owned(), json!(node.name()));
    if let Some(kind) = kind {
        described.insert(
            "repetition".to_owned(),
            json!(kind.to_string().to_lowercase()),
        );
    }
    described.insert("definition_level".to_owned(), json!(definition));
    described.insert("repetition_level".to_owned(), json!(repetition));
    if let Some(logical) = info.logical_type_ref() {
        described.insert("logical_type".to_owned(), json!(logical_name(logical)));
    }
    match node {
        Type::PrimitiveType { physical_type, .. } => {
            described.insert("physical_type".to_owned(), json!(physical_type.to_string()));
        }
        Type::GroupType { fields, .. } => {
            let members = fields
                .iter()
                .map(|it| describe_type(it, definition, repetition));
            described.insert("fields".to_owned(), members.collect());
        }
    }
    Value::Object(described)
}

fn logical_name(logical: &LogicalType) -> String {
    format!("{logical:?}")
}

fn describe_leaf(leaf: &ColumnDescriptor) -> Value {
    json!({
        "path": leaf.path().string(),
        "physical_type": leaf.physical_type().to_string(),
        "logical_type": leaf.logical_type_ref().map(logical_name),
        "max_definition_level": leaf.max_def_level(),
        "max_repetition_level": leaf.max_rep_level(),
    })
}

fn describe_chunk(
    file: &ParquetFile,
    group: usize,
    leaf: usize,
    chunk: &ColumnChunkMetaData,
) -> Result<Map<String, Value>> {
    let encodings: Vec<String> = chunk.encodings().map(|it| it.to_string()).collect();
    let described = json!({
        "path": chunk.column_path().string(),
        "physical_type": chunk.column_type().to_string(),
        "compression": format!("{:?}", chunk.compression_codec()),
        "encodings": encodings,
        "num_values": chunk.num_values(),
        "compressed_bytes": chunk.compressed_size(),
        "uncompressed_bytes": chunk.uncompressed_size(),
        "dictionary_page_offset": chunk.dictionary_page_offset(),
        "data_page_offset": chunk.data_page_offset(),
        "statistics": match chunk.statistics() {
            Some(stored) => describe_statistics(file, group, leaf, stored)?,
            None => Value::Null,
        },
        "bloom_filter": chunk.bloom_filter_offset().map(|offset| json!({
            "offset": offset,
            "bytes": chunk.bloom_filter_length(),
        })),
        "column_index": chunk.column_index_offset().map(|offset| json!({
            "offset": offset,
            "bytes": chunk.column_index_length(),
        })),
        "offset_index": chunk.offset_index_offset().map(|offset| json!({
            "offset": offset,
            "bytes": chunk.offset_index_length(),
        })),
        "text_bytes": chunk.unencoded_byte_array_data_bytes(),
        "definition_levels": chunk.definition_level_histogram().map(LevelHistogram::values),
        "repetition_levels": chunk.repetition_level_histogram().map(LevelHistogram::values),
    });
    match described {
        Value::Object(described) => Ok(described),
        _ => Ok(Map::new()),
    }
}

fn describe_statistics(
    file: &ParquetFile,
    group: usize,
    leaf: usize,
    stored: &Stored,
) -> Result<Value> {
    let schema = file.metadata().file_metadata().schema_descr();
    let path = ColumnPath::new(schema.column(leaf).path().parts().iter().cloned());
    let usable: Option<Statistics> = match leaf_at(schema, &path) {
        Some(_) => file.row_group_statistics(&path)?,
        None => None,
    };
    let of = |bounds: &ArrayRef| {
        (bounds.len() > group && bounds.is_valid(group))
            .then(|| array_value_to_string(bounds, group).ok())
            .flatten()
    };
    let min = usable.as_ref().and_then(|it| of(&it.min));
    let max = usable.as_ref().and_then(|it| of(&it.max));
    let raw = |bytes: Option<&[u8]>| bytes.map(|bytes| shown(&physical(stored, bytes)));
    Ok(json!({
        "min": min.as_deref().map(shown).or_else(|| raw(stored.min_bytes_opt())),
        "max": max.as_deref().map(shown).or_else(|| raw(stored.max_bytes_opt())),
        "min_is_exact": stored.min_is_exact(),
        "max_is_exact": stored.max_is_exact(),
        "null_count": stored.null_count_opt(),
        "nan_count": stored.nan_count_opt(),
        "distinct_count": stored.distinct_count_opt(),
        "is_deprecated": stored.is_min_max_deprecated(),
        "is_used_for_filters": min.is_some() || max.is_some(),
    }))
}

/// A bound as its physical type has it.
fn physical(stored: &Stored, bytes: &[u8]) -> String {
    let four = <[u8; 4]>::try_from(bytes);
    let eight = <[u8; 8]>::try_from(bytes);
    match (stored, four, eight) {
        (Stored::Int32(_), Ok(bytes), _) => i32::from_le_bytes(bytes).to_string(),
        (Stored::Int64(_), _, Ok(bytes)) => i64::from_le_bytes(bytes).to_string(),
        (Stored::Float(_), Ok(bytes), _) => f32::from_le_bytes(bytes).to_string(),
        (Stored::Double(_), _, Ok(bytes)) => f64::from_le_bytes(bytes).to_string(),
        (Stored::Boolean(_), ..) => (bytes.first() == Some(&1)).to_string(),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        },
    }
}

async fn describe_page(file: &ParquetFile, page: &Page) -> Result<Value> {
    let header = &page.header;
    let checksum = match header.crc {
        None => "none",
        Some(expected) => {
            let start = page.offset + header.len as u64;
            let body = start..start + u64::from(header.compressed);
            let bytes = file
                .source()
                .read_ranges(std::slice::from_ref(&body))
                .await?;
            match bytes.first().is_some_and(|bytes| crc32(bytes) == expected) {
                true => "right",
                false => "wrong",
            }
        }
    };
    Ok(json!({
        "kind": match header.kind {
            PageKind::Data => "data",
            PageKind::DataV2 => "data v2",
            PageKind::Dictionary => "dictionary",
            PageKind::Index => "index",
        },
        "offset": page.offset,
        "header_bytes": header.len,
        "compressed_bytes": header.compressed,
        "uncompressed_bytes": header.uncompressed,
        "num_values": header.num_values,
        "num_rows": header.num_rows,
        "encoding": encoding_name(header.encoding),
        "checksum": checksum,
    }))
}

fn encoding_name(number: i32) -> &'static str {
    match number {
        0 => "PLAIN",
        2 => "PLAIN_DICTIONARY",
        3 => "RLE",
        4 => "BIT_PACKED",
        5 => "DELTA_BINARY_PACKED",
        6 => "DELTA_LENGTH_BYTE_ARRAY",
        7 => "DELTA_BYTE_ARRAY",
        8 => "RLE_DICTIONARY",
        9 => "BYTE_STREAM_SPLIT",
        _ => "unknown",
    }
}

fn shown(text: &str) -> String {
    let mut cut: String = text.chars().take(SHOWN_CHARS).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}
