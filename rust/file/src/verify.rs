//! Looking at every byte of a file that has a meaning: checksums, counts, offsets, UTF-8, statistics.

use std::collections::BTreeMap;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_ord::ord::make_comparator;
use arrow_schema::{DataType, SortOptions};
use pilum_encoding::{Rows, StatisticsBuilder, crc32c};

use crate::checked::Checksums;
use crate::error::{Error, Result};
use crate::read::FileReader;
use crate::schema::{Field, Schema};
use crate::statistics::ColumnStatistics;
use crate::write::Dictionaries;

/// What verifying one file found.
#[derive(Debug, Default)]
pub struct FileReport {
    /// What is wrong; empty for a sound file.
    pub problems: Vec<Error>,
    /// True if every byte that has a meaning is covered by a checksum.
    pub is_covered: bool,
    /// Rows decoded, of every column.
    pub num_rows: u64,
}

impl FileReader {
    /// Reads everything: the embedded manifest, dictionary values, every page of every column of `schema`, and statistics,
    /// which must bound the values. Damage to one column does not hide that of another.
    ///
    /// `dictionaries`: as for reading.
    pub async fn verify(&self, schema: &Schema, dictionaries: &Dictionaries) -> FileReport {
        let mut report = FileReport {
            is_covered: self.checksum_block().is_some(),
            num_rows: self.num_rows(),
            ..FileReport::default()
        };
        if self.directory.manifest_position != 0 {
            match self.schema().await {
                Ok(schema) => keep(&mut report, self.dictionaries(&schema).await),
                Err(error) => report.problems.push(error),
            }
        }
        let statistics = match self.statistics(&schema.ids()).await {
            Ok(statistics) => statistics,
            Err(error) => {
                report.problems.push(error);
                Default::default()
            }
        };
        for field in &schema.fields {
            keep(&mut report, self.verify_checksum_arrays(field).await);
            for batch in 0..self.num_batches() {
                let rows = self.batch_rows(batch);
                let rows = Rows::all(rows.end - rows.start);
                let read = self
                    .read_batch(std::slice::from_ref(field), batch, &rows, dictionaries)
                    .await;
                match read {
                    Ok(arrays) => {
                        for array in arrays {
                            keep(&mut report, self.verify_array(field, &array, batch));
                            self.verify_bounds(
                                field,
                                (&array, None),
                                batch,
                                &statistics,
                                &mut report,
                            );
                        }
                    }
                    Err(error) => report.problems.push(error),
                }
            }
        }
        report
    }

    /// The checksum arrays have checksums too: a reader of rows has no need of them, for a damaged checksum fails its block.
    async fn verify_checksum_arrays(&self, field: &Field) -> Result<()> {
        let mut columns = BTreeMap::new();
        self.load(field, &mut columns).await?;
        for coverage in columns
            .values()
            .flat_map(|column| &column.pages)
            .flat_map(|page| &page.coverage)
        {
            if let Checksums::Stored {
                range,
                crc32c: expected,
            } = &coverage.checksums
            {
                let ranges = std::slice::from_ref(range);
                let words = self.directory.file.read_ranges(ranges).await?;
                if words.iter().any(|words| crc32c(words) != *expected) {
                    let what = format!(
                        "column `{}`: the checksums of bytes {:?} fail their own checksum",
                        field.name, coverage.range
                    );
                    return Err(self.directory.corrupt(what, range.start));
                }
            }
        }
        Ok(())
    }

    /// The rules of Arrow, in full: offsets, UTF-8, keys.
    fn verify_array(&self, field: &Field, array: &ArrayRef, batch: usize) -> Result<()> {
        array.to_data().validate_full().map_err(|error| {
            let what = format!("column `{}`, page {batch}: {error}", field.name);
            self.directory.corrupt(what, None)
        })
    }

    /// Statistics must bound the values of their page, but for those that a null struct around them hides.
    fn verify_bounds(
        &self,
        field: &Field,
        (array, hidden): (&ArrayRef, Option<&NullBuffer>),
        batch: usize,
        statistics: &BTreeMap<i32, ColumnStatistics>,
        report: &mut FileReport,
    ) {
        if let DataType::Struct(_) = field.data_type {
            let hidden = NullBuffer::union(array.nulls(), hidden);
            let members = arrow_array::cast::AsArray::as_struct(array.as_ref())
                .columns()
                .iter();
            for (child, values) in field.children.iter().zip(members) {
                let values = (values, hidden.as_ref());
                self.verify_bounds(child, values, batch, statistics, report);
            }
            return;
        }
        let Some(column) = statistics.get(&field.id) else {
            return;
        };
        let found = self.verify_page_bounds(field, (array, hidden), batch, column);
        keep(report, found);
    }

    fn verify_page_bounds(
        &self,
        field: &Field,
        (array, hidden): (&ArrayRef, Option<&NullBuffer>),
        batch: usize,
        column: &ColumnStatistics,
    ) -> Result<()> {
        let failed = |error| Error::page(self.path(), &field.name, error);
        let mut builder = StatisticsBuilder::new(&field.data_type).map_err(failed)?;
        builder.push_page(array.as_ref(), hidden).map_err(failed)?;
        let (nulls, min, max) = builder.finish();
        if u64::try_from(nulls.value(0)).is_ok_and(|nulls| nulls == array.len() as u64) {
            return Ok(());
        }
        // Peers count nulls that the page then stores as zeros: what their statistics leave out is no damage.
        let stored_null_count = column.null_count.values().get(batch).copied().unwrap_or(0);
        let lossy = self.checksum_block().is_none() && stored_null_count > 0;
        for (name, stored, real, wrong) in [
            ("minimum", &column.min, &min, std::cmp::Ordering::Greater),
            ("maximum", &column.max, &max, std::cmp::Ordering::Less),
        ] {
            if lossy || batch >= stored.len() || stored.is_null(batch) || real.is_null(0) {
                continue;
            }
            let compare = make_comparator(stored.as_ref(), real.as_ref(), SortOptions::default())
                .map_err(|error| {
                self.directory
                    .corrupt(format!("column `{}`: {error}", field.name), None)
            })?;
            if compare(batch, 0) == wrong {
                let what = format!(
                    "column `{}`, page {batch}: the {name} of the statistics does not bound the values",
                    field.name
                );
                return Err(self.directory.corrupt(what, None));
            }
        }
        Ok(())
    }
}

fn keep<T>(report: &mut FileReport, result: Result<T>) {
    if let Err(error) = result {
        report.problems.push(error);
    }
}
