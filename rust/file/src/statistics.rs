//! Reading the zone maps of a file: minimum, maximum and null count of each page (`docs/format.md`, section 5). A reader takes
//! missing, null and unexpected statistics as no information.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::DataType;
use bytes::Bytes;
use pilum_encoding::{Page, Rows, Segments, decode_page};
use pilum_format::message_size::field_bytes;
use pilum_format::proto::file as proto;
use pilum_format::{Field, FieldId, Schema, contents, without_fields};
use prost::Message;

use crate::directory::Fetched;
use crate::error::{Error, Result};
use crate::reader::FileReader;

/// The statistics of one column: three arrays with one row per batch.
#[derive(Clone, Debug)]
pub struct ColumnStatistics {
    /// Nulls of the written data, rows of null structs included.
    pub null_count: Int64Array,
    /// No value of the batch is smaller; null = unknown. NaN is not considered.
    pub min: ArrayRef,
    /// No value of the batch is greater; null = unknown. NaN is not considered.
    pub max: ArrayRef,
}

/// Field numbers of `StatisticsMetadata.schema` and of its list of ids, which repeats those of the schema.
const SCHEMA: u64 = 1;
const IDS: u64 = 2;

/// The pages that hold the statistics of some columns.
struct StatisticsTable {
    /// Position of its page table.
    position: u64,
    /// The field whose pair comes first.
    first_id: FieldId,
    last_id: FieldId,
    /// Field ids in the file, each with a struct field of the statistics' own schema.
    columns: Vec<(FieldId, Field)>,
}

fn position_of(message: &[u8]) -> std::result::Result<u64, String> {
    let rest = without_fields(message, &[SCHEMA, IDS]).map_err(|error| error.to_string())?;
    let decoded = proto::StatisticsMetadata::decode(rest.as_slice());
    decoded
        .map(|message| message.page_table_position)
        .map_err(|error| error.to_string())
}

impl FileReader {
    /// Where the page table of statistics lies, if the file has any.
    pub(crate) fn statistics_position(&self) -> Option<u64> {
        self.directory.prefetch_end().ok()?;
        position_of(self.directory.statistics.as_ref()?).ok()
    }

    /// The statistics that the file keeps of some columns, by field id; a column without any is left out.
    ///
    /// # Errors
    /// `Corrupt` when the statistics contradict the format or their checksums.
    pub async fn statistics(&self, ids: &[FieldId]) -> Result<BTreeMap<FieldId, ColumnStatistics>> {
        let directory = &self.directory;
        let mut columns = BTreeMap::new();
        let Some(message) = &directory.statistics else {
            return Ok(columns);
        };
        if self.num_batches() == 0 {
            return Ok(columns);
        }
        directory.prefetch_end()?;
        let table = self.statistics_table(message, ids)?;
        if table.columns.is_empty() {
            return Ok(columns);
        }
        let region = self.statistics_region(&table).await?;
        for (id, field) in &table.columns {
            let leaf = |name: &str| {
                let leaf = field.children.iter().find(|leaf| leaf.name == name);
                leaf.map(|leaf| self.statistics_leaf(&region, &table, leaf))
                    .transpose()
            };
            let (Some(null_count), Some(min), Some(max)) =
                (leaf("null_count")?, leaf("min_value")?, leaf("max_value")?)
            else {
                continue;
            };
            if !matches!(null_count.data_type(), DataType::Int64)
                || min.data_type() != max.data_type()
            {
                continue;
            }
            let null_count = null_count.as_primitive::<Int64Type>().clone();
            columns.insert(
                *id,
                ColumnStatistics {
                    null_count,
                    min,
                    max,
                },
            );
        }
        Ok(columns)
    }

    /// The part of the message about some columns. It has four fields for each column of the file, and most readers want few.
    fn statistics_table(&self, message: &Bytes, ids: &[FieldId]) -> Result<StatisticsTable> {
        let directory = &self.directory;
        let damaged = |error: &dyn Display| directory.corrupt(format!("statistics: {error}"), None);
        let position = position_of(message).map_err(|error| damaged(&error))?;
        let wanted: HashSet<FieldId> = ids.iter().copied().collect();
        let mut found: Vec<proto::Field> = Vec::new();
        let mut kept: HashSet<FieldId> = HashSet::new();
        let (mut first_id, mut last_id, mut num_bytes) = (FieldId::MAX, 0, 0_u64);
        for range in contents(message, SCHEMA) {
            let range = range.map_err(|error| damaged(&error))?;
            let content = message.slice(range);
            let needed = field_bytes(&content).map_err(|error| damaged(&error))?;
            directory.check_memory(needed.saturating_add(num_bytes), "the schema of statistics")?;
            let field = proto::Field::decode(content).map_err(|error| damaged(&error))?;
            first_id = first_id.min(field.id);
            last_id = last_id.max(field.id);
            let is_wanted = match field.parent_id {
                -1 => field.name.parse().is_ok_and(|id| wanted.contains(&id)),
                parent => kept.contains(&parent),
            };
            if is_wanted {
                num_bytes = num_bytes.saturating_add(needed);
                kept.insert(field.id);
                found.push(field);
            }
        }
        let schema = Schema::from_protos(self.path(), &found, &BTreeMap::new())?;
        let columns = schema.fields.into_iter();
        let columns = columns.filter_map(|field| Some((field.name.parse().ok()?, field)));
        Ok(StatisticsTable {
            position,
            first_id,
            last_id,
            columns: columns.collect(),
        })
    }

    /// The bytes of the statistics pages and their page table, which lie one after the other behind the page table of the file.
    async fn statistics_region(&self, table: &StatisticsTable) -> Result<Segments> {
        let directory = &self.directory;
        let extent = directory
            .extension
            .as_ref()
            .and_then(|extension| extension.statistics.as_ref());
        let (start, end) = match extent {
            Some(extent) => (
                extent.position,
                extent.position.saturating_add(extent.length),
            ),
            None => {
                let rows = u64::try_from(table.last_id).map_or(0, |id| id + 1);
                // Without an extent: everything from the page table on, where the statistics pages begin.
                (
                    directory.page_table_position.min(table.position),
                    table.position.saturating_add(16 * rows),
                )
            }
        };
        let bytes: Bytes = directory
            .read_covered(
                extent,
                start..end.min(directory.end),
                "statistics",
                &Fetched::NONE,
            )
            .await?;
        Ok(Segments::new([(start, bytes.into())]))
    }

    fn statistics_leaf(
        &self,
        region: &Segments,
        table: &StatisticsTable,
        leaf: &Field,
    ) -> Result<ArrayRef> {
        use pilum_encoding::PageSource;
        let failed = |error| Error::page(self.path(), &format!("statistics.{}", leaf.name), error);
        let row = u64::try_from(i64::from(leaf.id) - i64::from(table.first_id)).unwrap_or(u64::MAX);
        let start = row.checked_mul(16);
        let start = start.and_then(|skip| skip.checked_add(table.position));
        let end = start.and_then(|start| start.checked_add(16));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(self
                .directory
                .corrupt("statistics page table", table.position));
        };
        let pair = region.slice(start..end).map_err(failed)?;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let page = Page {
            position: word(&pair[..8]),
            length: word(&pair[8..]),
        };
        let rows = self.num_batches() as u64;
        decode_page(&leaf.to_arrow(), &page, rows, &[], &Rows::all(rows), region).map_err(failed)
    }
}
