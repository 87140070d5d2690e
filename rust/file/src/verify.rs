//! Looking at every byte of a file that has a meaning: checksums, counts, offsets, UTF-8, statistics.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_ord::ord::make_comparator;
use arrow_schema::{DataType, SortOptions};
use pilum_encoding::{PageSource, Rows, Segments, StatisticsBuilder, crc32c};
use pilum_format::{Dictionaries, Field, FieldId, Schema};

use crate::checked::{CheckedSource, Checksums, Coverage};
use crate::error::{Error, Result};
use crate::read::{Columns, FileReader};
use crate::statistics::ColumnStatistics;
use crate::trailer::DIRECTORY_ENTRY;

/// Problems of one file that are told.
const MOST_PROBLEMS: usize = 10_000;

/// Columns whose statistics are in memory at one time.
const STATISTICS_AT_ONCE: usize = 1000;

/// What verifying one file found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FileReport {
    /// What is wrong, the first ten thousand; empty for a sound file.
    pub problems: Vec<FileProblem>,
    /// True if every byte that has a meaning is covered by a checksum.
    pub is_covered: bool,
    /// Rows decoded, of every column.
    pub num_rows: u64,
}

/// One thing that is wrong with a file.
#[derive(Debug)]
#[non_exhaustive]
pub struct FileProblem {
    /// What was looked at when it was found.
    pub check: FileCheck,
    /// Place and reason.
    pub error: Error,
}

/// What is looked at in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileCheck {
    /// The embedded schema: readable, and its columns are those that the table thinks are there.
    Schema,
    /// Dictionary values.
    Dictionaries,
    /// Pages, validity and what points at them: checksums, places, counts, offsets.
    Pages,
    /// Decoded values: the rules of Arrow, UTF-8 and dictionary keys among them.
    Values,
    /// Statistics bound the values and count their nulls.
    Statistics,
}

impl FileReport {
    fn keep<T>(&mut self, check: FileCheck, result: Result<T>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        // A hostile file has as many problems as it likes.
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(FileProblem { check, error });
        }
        None
    }
}

impl FileReader {
    /// Reads everything: the embedded manifest, dictionary values, every page of every column of `schema`, and statistics,
    /// which must bound the values. Damage to one column does not hide that of another. Of columns that are not in `schema`
    /// any more the checksums are compared.
    ///
    /// `dictionaries`: as for reading. At most one batch of one column is in memory at a time.
    pub async fn verify(&self, schema: &Schema, dictionaries: &Dictionaries) -> FileReport {
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
            // Those of all columns of a wide table at once could take more memory than a reader may.
            if index % STATISTICS_AT_ONCE == 0 {
                let next = schema.fields[index..].iter().take(STATISTICS_AT_ONCE);
                let ids: Vec<FieldId> = next.flat_map(Field::walk).map(|it| it.id).collect();
                let read = report.keep(FileCheck::Statistics, self.statistics(&ids).await);
                statistics = read.unwrap_or_default();
            }
            // A damaged checksum fails its block, and a damaged directory every page: reading would say it again.
            let arrays = self.verify_checksum_arrays(field).await;
            if report.keep(FileCheck::Pages, arrays).is_none() {
                continue;
            }
            for batch in 0..self.num_batches() {
                let rows = self.batch_rows(batch);
                let num_rows = rows.end - rows.start;
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
                    // What breaks the rules of Arrow is not looked at any further: comparing it might not end well.
                    if report.keep(FileCheck::Values, values).is_some() {
                        let place = Place {
                            statistics: &statistics,
                            batch,
                        };
                        self.verify_bounds(field, &array, None, &place, &mut report);
                    }
                }
            }
        }
        report
    }

    /// Every column of the table that is in the file has the type there that the table gives it. Names may differ: a column
    /// can be renamed without touching its files.
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
                // The type of a node with children depends on their names, and each child is looked at itself.
                Some(stored) if field.children.is_empty() && **stored != field.data_type => {
                    format!(
                        "column `{}` is {} for the table and {stored} in the file",
                        field.name, field.data_type
                    )
                }
                Some(_) => continue,
            };
            let wrong = Err::<(), _>(self.directory.corrupt(what, None));
            report.keep(FileCheck::Schema, wrong);
        }
    }

    /// Compares the checksums of what reading the columns of `schema` leaves out: the tables between pages and footer as a
    /// whole, and pages of columns that the table has dropped or replaced.
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
            let read = self.directory.read_covered(Some(extent), range, what).await;
            report.keep(FileCheck::Pages, read);
        }
        let read: BTreeSet<FieldId> = schema.ids().into_iter().collect();
        let num_entries = extension
            .directory
            .as_ref()
            // One that leaves the file is a problem already.
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

    /// Compares the checksums of a column that nobody reads any more.
    async fn verify_unread(&self, row: u64, id: FieldId) -> Result<()> {
        let name = format!("field {id}");
        if self.directory.column_record(row, &name).await?.is_none() {
            return Ok(());
        }
        let column = self.directory.column(self.first_id(), id, &name).await?;
        for coverage in column.pages.iter().flat_map(|page| &page.coverage) {
            self.verify_checksum_array(coverage, &name).await?;
            self.verify_coverage(coverage, &name).await?;
        }
        Ok(())
    }

    /// The checksum arrays have checksums too: a reader of rows has no need of them, for a damaged checksum fails its block.
    async fn verify_checksum_arrays(&self, field: &Field) -> Result<()> {
        let mut columns = Columns::default();
        self.load(field, &mut columns).await?;
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

    /// Statistics must bound the values of their page, those under a null struct left out.
    fn verify_bounds(
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
                self.verify_bounds(child, values, hidden.as_ref(), place, report);
            }
            return;
        }
        if let Some(column) = place.statistics.get(&field.id) {
            let bounds = self.verify_page_bounds(field, array, hidden, place.batch, column);
            report.keep(FileCheck::Statistics, bounds);
        }
    }

    fn verify_page_bounds(
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
        // Files without checksums are those of peers, who count nulls that the page then stores as zeros: what their
        // statistics leave out is no damage.
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
                    "the {name} of the statistics does not bound the values"
                ));
            }
        }
        Ok(())
    }
}

/// Which statistics belong to a page.
struct Place<'a> {
    statistics: &'a BTreeMap<FieldId, ColumnStatistics>,
    batch: usize,
}
