//! Verifying a whole file: checksums, counts, offsets, UTF-8, statistics.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_ord::ord::make_comparator;
use arrow_schema::{DataType, SortOptions};
use pilum_common::type_name;
use pilum_encoding::{PageSource, Rows, Segments, StatisticsBuilder, crc32c};
use pilum_format::{Dictionaries, Field, FieldId, Schema};

use crate::checked::{CheckedSource, Checksums, Coverage};
use crate::directory::Fetched;
use crate::error::{Error, Result};
use crate::footer::DIRECTORY_ENTRY;
use crate::reader::FileReader;
use crate::statistics::ColumnStatistics;

/// Most problems of one file that are reported.
const MAX_PROBLEMS: usize = 10_000;

/// Columns whose statistics are in memory at one time.
const STATISTICS_AT_ONCE: usize = 1000;

/// The result of verifying one file.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FileReport {
    /// The first ten thousand problems; empty for a sound file.
    pub problems: Vec<FileProblem>,
    /// Whether checksums cover every byte that has a meaning.
    pub is_covered: bool,
    /// Rows of the file; each column was decoded.
    pub num_rows: u64,
}

/// One problem of a file.
#[derive(Debug)]
#[non_exhaustive]
pub struct FileProblem {
    /// The check that found it.
    pub check: FileCheck,
    /// Place and reason.
    pub error: Error,
}

/// A kind of check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileCheck {
    /// The embedded schema is readable and has the columns that the table expects.
    Schema,
    /// Dictionary values are readable.
    Dictionaries,
    /// Pages, validity bitmaps and the tables that point at them: checksums, positions, counts, offsets.
    Pages,
    /// Decoded values follow the rules of Arrow, for example UTF-8 and the range of dictionary keys.
    Values,
    /// Statistics count the nulls, and no value lies outside of minimum and maximum.
    Statistics,
}

/// A check of values against what their type allows, beside the rules of Arrow. It gets a column, the array of one of its
/// pages and the number of the first row of the page in the file; it returns what is wrong, each with its row.
pub type ValueCheck<'a> = dyn Fn(&Field, &ArrayRef, u64) -> Vec<String> + Send + Sync + 'a;

impl FileReport {
    /// The value of a check that succeeded; the error of one that failed goes into the report.
    fn keep<T>(&mut self, check: FileCheck, result: Result<T>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        // The number of problems of a hostile file has no limit of its own.
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(FileProblem { check, error });
        }
        None
    }
}

impl FileReader {
    /// Reads the whole file: the embedded manifest, dictionary values, every page of every column of `schema`, and statistics.
    /// Damage to one column does not hide damage to another. Of columns that are no longer in `schema`, the checksums are
    /// compared.
    ///
    /// `dictionaries`: as for reading. At most one batch of one column is in memory at one time.
    pub async fn verify(&self, schema: &Schema, dictionaries: &Dictionaries) -> FileReport {
        let nothing = |_: &Field, _: &ArrayRef, _: u64| Vec::new();
        self.verify_with(schema, dictionaries, &nothing).await
    }

    /// As [`FileReader::verify`], with a further check of the values of every page.
    pub async fn verify_with(
        &self,
        schema: &Schema,
        dictionaries: &Dictionaries,
        check: &ValueCheck<'_>,
    ) -> FileReport {
        let mut report = FileReport {
            is_covered: self.checksum_block().is_some(),
            num_rows: self.num_rows(),
            ..FileReport::default()
        };
        if self.directory.manifest_position != 0
            && let Some(embedded) = report.keep(FileCheck::Schema, self.schema().await)
        {
            self.verify_schema(schema, &embedded, &mut report);
            let values = self.dictionaries(&embedded).await;
            report.keep(FileCheck::Dictionaries, values);
        }
        self.verify_covered(schema, &mut report).await;
        let mut statistics = BTreeMap::new();
        for (index, field) in schema.fields.iter().enumerate() {
            // The statistics of all columns of a wide table together could take more memory than a reader may.
            if index % STATISTICS_AT_ONCE == 0 {
                let next = schema.fields[index..].iter().take(STATISTICS_AT_ONCE);
                let ids: Vec<FieldId> = next.flat_map(Field::walk).map(|it| it.id).collect();
                let read = report.keep(FileCheck::Statistics, self.statistics(&ids).await);
                statistics = read.unwrap_or_default();
            }
            // A damaged checksum makes its block fail, and a damaged directory every page: reading would report it again.
            let arrays = self.verify_checksum_arrays(field).await;
            if report.keep(FileCheck::Pages, arrays).is_none() {
                continue;
            }
            for batch in 0..self.num_batches() {
                let rows = self.batch_rows(batch);
                let (first_row, num_rows) = (rows.start, rows.end - rows.start);
                let read = self
                    .read_batch(
                        std::slice::from_ref(field),
                        batch,
                        &Rows::all(num_rows),
                        dictionaries,
                    )
                    .await;
                for array in report.keep(FileCheck::Pages, read).unwrap_or_default() {
                    let counted = self.verify_count(field, &array, batch, num_rows);
                    report.keep(FileCheck::Pages, counted);
                    let values = self.verify_array(field, &array, batch);
                    // Values that break the rules of Arrow are not compared with statistics: kernels rely on these rules.
                    if report.keep(FileCheck::Values, values).is_some() {
                        for wrong in check(field, &array, first_row) {
                            let wrong = Error::InvalidInput { message: wrong };
                            report.keep(FileCheck::Values, Err::<(), _>(wrong));
                        }
                        let place = Place {
                            statistics: &statistics,
                            batch,
                        };
                        self.verify_statistics(field, &array, None, &place, &mut report);
                    }
                }
            }
        }
        report
    }

    /// Every column of the table has the same type in the file. Names may differ, because a column can be renamed without
    /// touching its files.
    fn verify_schema(&self, schema: &Schema, embedded: &Schema, report: &mut FileReport) {
        let types: BTreeMap<FieldId, &DataType> = embedded
            .walk()
            .map(|field| (field.id, &field.data_type))
            .collect();
        for field in schema.walk() {
            let what = match types.get(&field.id) {
                None => format!(
                    "column `{}`, field {}, is not in the embedded schema",
                    field.name, field.id
                ),
                // The type of a node with children contains their names; each child is checked by itself.
                Some(stored) if field.children.is_empty() && **stored != field.data_type => {
                    format!(
                        "column `{}` is {} for the table and {} in the file",
                        field.name,
                        type_name(&field.data_type),
                        type_name(stored)
                    )
                }
                Some(_) => continue,
            };
            let wrong = Err::<(), _>(self.directory.corrupt(what, None));
            report.keep(FileCheck::Schema, wrong);
        }
    }

    /// Compares the checksums of bytes that reading the columns of `schema` does not touch: all of the tables between pages and
    /// footer, and pages of columns that the table has dropped or replaced.
    async fn verify_covered(&self, schema: &Schema, report: &mut FileReport) {
        let Some(extension) = &self.directory.extension else {
            return;
        };
        for (extent, what) in [
            (&extension.page_table, "page table"),
            (&extension.statistics, "statistics"),
            (&extension.dictionaries, "dictionary values"),
            (&extension.directory, "column directory"),
        ] {
            let Some(extent) = extent else { continue };
            let range = extent.position..extent.position.saturating_add(extent.length);
            let read = self
                .directory
                .read_covered(Some(extent), range, what, &Fetched::NONE)
                .await;
            report.keep(FileCheck::Pages, read);
        }
        let read: BTreeSet<FieldId> = schema.ids().into_iter().collect();
        let num_entries = extension
            .directory
            .as_ref()
            // A directory that leaves the file was reported above.
            .filter(|it| it.position.saturating_add(it.length) <= self.directory.end)
            .map_or(0, |directory| directory.length / DIRECTORY_ENTRY as u64);
        for row in 0..num_entries {
            let Some(id) = i32::try_from(row)
                .ok()
                .and_then(|row| self.first_id().checked_add(row))
            else {
                break;
            };
            if !read.contains(&id) {
                let dropped = self.verify_unread(row, id).await;
                report.keep(FileCheck::Pages, dropped);
            }
        }
    }

    /// Compares the checksums of a column that is no longer in the table.
    async fn verify_unread(&self, row: u64, id: FieldId) -> Result<()> {
        let name = format!("field {id}");
        let (directory, none) = (&self.directory, Fetched::NONE);
        directory.prefetch_end()?;
        if directory.column_record(row, &name, &none).await?.is_none() {
            return Ok(());
        }
        let column = directory.column(self.first_id(), id, &name, &none).await?;
        for coverage in column.pages.iter().flat_map(|page| &page.coverage) {
            self.verify_checksum_array(coverage, &name).await?;
            self.verify_coverage(coverage, &name).await?;
        }
        Ok(())
    }

    /// Compares the checksums of the checksum arrays, which reading does not: a damaged checksum makes its block fail.
    async fn verify_checksum_arrays(&self, field: &Field) -> Result<()> {
        let columns = self.load(std::slice::from_ref(field)).await?;
        for coverage in columns
            .iter()
            .flat_map(|column| &column.pages)
            .flat_map(|page| &page.coverage)
        {
            self.verify_checksum_array(coverage, &field.name).await?;
        }
        Ok(())
    }

    async fn verify_checksum_array(&self, coverage: &Coverage, name: &str) -> Result<()> {
        let Checksums::Stored {
            range,
            crc32c: expected,
        } = &coverage.checksums
        else {
            return Ok(());
        };
        let ranges = std::slice::from_ref(range);
        let words = self.directory.file.read_ranges(ranges).await?;
        if words.iter().any(|words| crc32c(words) != *expected) {
            let what = format!(
                "column `{name}`: the checksums of bytes {:?} fail their own checksum",
                coverage.range
            );
            return Err(self.directory.corrupt(what, range.start));
        }
        Ok(())
    }

    async fn verify_coverage(&self, coverage: &Coverage, name: &str) -> Result<()> {
        let mut ranges = vec![coverage.range.clone()];
        if let Checksums::Stored { range, .. } = &coverage.checksums {
            ranges.push(range.clone());
        }
        ranges.sort_by_key(|range| range.start);
        let bytes = self.directory.file.read_ranges(&ranges).await?;
        let starts = ranges.iter().map(|range| range.start);
        let segments = Segments::new(starts.zip(bytes.into_iter().map(Into::into)));
        let source = CheckedSource::new(&segments, std::iter::once(coverage));
        source
            .slice(coverage.range.clone())
            .map(|_| ())
            .map_err(|error| Error::page(self.path(), name, error))
    }

    /// A page holds as many rows as the directory of the file says.
    fn verify_count(
        &self,
        field: &Field,
        array: &ArrayRef,
        batch: usize,
        num_rows: u64,
    ) -> Result<()> {
        if array.len() as u64 == num_rows {
            return Ok(());
        }
        let what = format!(
            "column `{}`, page {batch}: {} values for {num_rows} rows",
            field.name,
            array.len()
        );
        Err(self.directory.corrupt(what, None))
    }

    /// The rules of Arrow, in full: offsets, UTF-8, keys.
    fn verify_array(&self, field: &Field, array: &ArrayRef, batch: usize) -> Result<()> {
        array.to_data().validate_full().map_err(|error| {
            let what = format!("column `{}`, page {batch}: {error}", field.name);
            self.directory.corrupt(what, None)
        })
    }

    /// Statistics must fit the values of their page. Values under a null struct are not considered.
    fn verify_statistics(
        &self,
        field: &Field,
        array: &ArrayRef,
        hidden: Option<&NullBuffer>,
        place: &Place<'_>,
        report: &mut FileReport,
    ) {
        if let DataType::Struct(_) = field.data_type {
            let hidden = NullBuffer::union(array.nulls(), hidden);
            for (child, values) in field.children.iter().zip(array.as_struct().columns()) {
                self.verify_statistics(child, values, hidden.as_ref(), place, report);
            }
            return;
        }
        if let Some(column) = place.statistics.get(&field.id) {
            let verified = self.verify_page_statistics(field, array, hidden, place.batch, column);
            report.keep(FileCheck::Statistics, verified);
        }
    }

    fn verify_page_statistics(
        &self,
        field: &Field,
        array: &ArrayRef,
        hidden: Option<&NullBuffer>,
        batch: usize,
        column: &ColumnStatistics,
    ) -> Result<()> {
        let failed = |error| Error::page(self.path(), &field.name, error);
        let wrong = |what: String| {
            let what = format!("column `{}`, page {batch}: {what}", field.name);
            Err(self.directory.corrupt(what, None))
        };
        let mut builder = StatisticsBuilder::new(&field.data_type).map_err(failed)?;
        builder.push_page(array.as_ref(), hidden).map_err(failed)?;
        let (null_count, min, max) = builder.finish();
        let null_count = null_count.values().first().copied().unwrap_or(0);
        let stored_null_count = column.null_count.values().get(batch).copied();
        // Files without checksums may come from other writers, which count nulls that the page then stores as zeros: a
        // difference to their statistics is no damage.
        if self.checksum_block().is_some() {
            if let Some(stored) = stored_null_count.filter(|stored| *stored != null_count) {
                return wrong(format!(
                    "the statistics count {stored} nulls, the page holds {null_count}"
                ));
            }
        } else if stored_null_count.is_some_and(|stored| stored > 0) {
            return Ok(());
        }
        if usize::try_from(null_count).is_ok_and(|nulls| nulls == array.len()) {
            return Ok(());
        }
        for (name, stored, real, beyond) in [
            ("minimum", &column.min, &min, std::cmp::Ordering::Greater),
            ("maximum", &column.max, &max, std::cmp::Ordering::Less),
        ] {
            if batch >= stored.len() || stored.is_null(batch) || real.is_null(0) {
                continue;
            }
            let compare = make_comparator(stored.as_ref(), real.as_ref(), SortOptions::default())
                .map_err(|error| {
                self.directory
                    .corrupt(format!("column `{}`: {error}", field.name), None)
            })?;
            if compare(batch, 0) == beyond {
                return wrong(format!(
                    "a value lies outside of the {name} of the statistics"
                ));
            }
        }
        Ok(())
    }
}

/// The statistics of the file, and the batch that is verified.
struct Place<'a> {
    statistics: &'a BTreeMap<FieldId, ColumnStatistics>,
    batch: usize,
}
