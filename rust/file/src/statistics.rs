//! Page statistics, read back (spec section 6). Readers treat whatever is missing, null or odd as no information.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::DataType;
use bytes::Bytes;
use pilum_encoding::{Page, Rows, Segments, decode_page};

use crate::error::{Error, Result};
use crate::read::FileReader;
use crate::schema::{Field, FieldId, Schema};

/// The statistics of one column: three arrays with one row per batch.
#[derive(Clone, Debug)]
pub struct ColumnStatistics {
    /// Nulls of the written data, rows of null structs included.
    pub null_count: Int64Array,
    /// No value is smaller; null = unknown. NaN is left out.
    pub min: ArrayRef,
    /// No value is greater; null = unknown. NaN is left out.
    pub max: ArrayRef,
}

impl FileReader {
    /// The statistics that the file keeps of some columns, by field id; a column without any is left out.
    ///
    /// # Errors
    /// `Corrupt` when the statistics contradict the format or their checksums.
    pub async fn statistics(&self, ids: &[FieldId]) -> Result<BTreeMap<FieldId, ColumnStatistics>> {
        let directory = &self.directory;
        let mut columns = BTreeMap::new();
        let Some(statistics) = &directory.statistics else {
            return Ok(columns);
        };
        let schema = Schema::from_protos(self.path(), &statistics.schema, &BTreeMap::new())?;
        let wanted: Vec<(FieldId, &Field)> = schema
            .fields
            .iter()
            .filter_map(|field| Some((field.name.parse().ok()?, field)))
            .filter(|(id, _)| ids.contains(id))
            .collect();
        if wanted.is_empty() || self.num_batches() == 0 {
            return Ok(columns);
        }
        let region = self
            .statistics_region(statistics.page_table_position, &schema)
            .await?;
        let first_id = schema.ids().into_iter().min().unwrap_or(0);
        for (id, field) in wanted {
            let leaf = |name: &str| {
                let leaf = field.children.iter().find(|leaf| leaf.name == name);
                leaf.map(|leaf| {
                    self.statistics_leaf(&region, statistics.page_table_position, first_id, leaf)
                })
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
                id,
                ColumnStatistics {
                    null_count,
                    min,
                    max,
                },
            );
        }
        Ok(columns)
    }

    /// The bytes that statistics lie in. They come one after the other behind the page table, so one range holds them all.
    async fn statistics_region(&self, table: u64, schema: &Schema) -> Result<Segments> {
        let directory = &self.directory;
        let extent = directory
            .extension
            .as_ref()
            .and_then(|extension| extension.statistics.as_ref());
        if let Some(whole) = directory.file.mapped()
            && extent.is_none()
        {
            return Ok(Segments::new([(0, whole.clone().into())]));
        }
        let (start, end) = match extent {
            Some(extent) => (
                extent.position,
                extent.position.saturating_add(extent.length),
            ),
            None => {
                let rows = u64::try_from(schema.max_id()).map_or(0, |id| id + 1);
                // Without an extent: everything from the page table on, where the statistics pages begin.
                (
                    directory.page_table_position.min(table),
                    table.saturating_add(16 * rows),
                )
            }
        };
        let bytes: Bytes = directory
            .read_covered(extent, start..end.min(directory.end), "statistics")
            .await?;
        Ok(Segments::new([(start, bytes.into())]))
    }

    fn statistics_leaf(
        &self,
        region: &Segments,
        table: u64,
        first_id: FieldId,
        leaf: &Field,
    ) -> Result<ArrayRef> {
        use pilum_encoding::PageSource;
        let failed = |error| Error::page(self.path(), &format!("statistics.{}", leaf.name), error);
        let row = u64::try_from(i64::from(leaf.id) - i64::from(first_id)).unwrap_or(u64::MAX);
        let start = row.checked_mul(16).and_then(|skip| skip.checked_add(table));
        let end = start.and_then(|start| start.checked_add(16));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(self.directory.corrupt("statistics page table", table));
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
