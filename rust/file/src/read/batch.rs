//! The read of some rows of one batch: what planning and decoding share.

use std::borrow::Cow;

use pilum_encoding::decode_list_offsets;
use pilum_encoding::{Error as PageError, Layout, ListOffsets, PageSource, Rows, Segments};
use pilum_format::{Dictionaries, Field};

use crate::checked::CheckedSource;
use crate::columns::PageEntry;
use crate::error::{Error, Result};
use crate::reader::{Columns, FileReader};

/// The read of some rows of one batch.
pub(super) struct BatchRead<'a> {
    pub(super) reader: &'a FileReader,
    columns: &'a Columns,
    pub(super) batch: usize,
    /// The bytes fetched so far.
    pub(super) segments: Cow<'a, Segments>,
    pub(super) dictionaries: &'a Dictionaries,
}

impl<'a> BatchRead<'a> {
    /// A read without any bytes yet.
    ///
    /// # Errors
    /// `Corrupt` for columns whose pages overlap or leave the file.
    pub(super) fn new(
        reader: &'a FileReader,
        columns: &'a Columns,
        batch: usize,
        fields: &[Field],
        dictionaries: &'a Dictionaries,
    ) -> Result<Self> {
        let read = Self {
            reader,
            columns,
            batch,
            segments: Cow::default(),
            dictionaries,
        };
        read.check_pages(fields)?;
        Ok(read)
    }

    /// The page of a node in this batch.
    pub(super) fn entry(&self, field: &Field) -> Result<&PageEntry> {
        self.columns
            .get(field.id)
            .and_then(|column| column.pages.get(self.batch))
            .ok_or_else(|| {
                self.reader.directory.corrupt(
                    format!("column `{}` has no page {}", field.name, self.batch),
                    None,
                )
            })
    }

    /// The fetched bytes of a page, verified block by block as they are asked for.
    pub(super) fn source<'s>(&'s self, entry: &'s PageEntry) -> CheckedSource<'s> {
        CheckedSource::new(&self.segments, entry.coverage.iter())
    }

    /// An error of the page layer with file and column. The caller has checked that the rows are in the batch, so a page that
    /// does not have them contradicts the directory.
    pub(super) fn failed(&self, path: &str, error: PageError) -> Error {
        let error = match error {
            PageError::InvalidInput { message } => PageError::Corrupt {
                what: message,
                position: None,
            },
            other => other,
        };
        Error::page(self.reader.path(), path, error)
    }

    /// Pages never share bytes, so together they are no larger than the file. Without this check a small file could name one
    /// page as that of thousands of columns, and each would take memory of its own.
    fn check_pages(&self, fields: &[Field]) -> Result<()> {
        let mut total = 0_u64;
        for field in fields.iter().flat_map(Field::walk) {
            let length = self.entry(field)?.page.length;
            let layout =
                Layout::of(&field.data_type).map_err(|error| self.failed(&field.name, error))?;
            total = total.saturating_add(match layout {
                Layout::Fixed(fixed) => match fixed.item_bytes {
                    Some(bytes) => length.saturating_mul(bytes.saturating_mul(fixed.items)),
                    None => length.saturating_mul(fixed.items) / 8,
                },
                Layout::Keys { width } => length.saturating_mul(width),
                Layout::Var { .. } | Layout::Offsets { large: true } => length.saturating_mul(8),
                Layout::Offsets { large: false } => length.saturating_mul(4),
                Layout::Null | Layout::Struct | Layout::Items { .. } => 0,
            });
        }
        if total > self.reader.num_bytes() {
            let names: Vec<_> = fields.iter().take(3).map(|f| f.name.as_str()).collect();
            let what = format!(
                "columns `{}`: pages of {total} bytes overlap or leave the file",
                names.join("`, `")
            );
            return Err(self.reader.directory.corrupt(what, None));
        }
        Ok(())
    }

    /// Values in the child page of a list.
    pub(super) fn child_length(&self, field: &Field) -> Result<u64> {
        let Some(child) = field.children.first() else {
            return Ok(0);
        };
        Ok(self.page_rows(child, self.entry(child)?))
    }

    /// Rows of a node's page, by the page table.
    pub(super) fn page_rows(&self, field: &Field, entry: &PageEntry) -> u64 {
        match Layout::of(&field.data_type) {
            Ok(Layout::Offsets { .. }) => entry.page.length.saturating_sub(1),
            // The pair of a struct with members is (0, 0): its first member has as many rows.
            Ok(Layout::Struct) => match field.children.first() {
                Some(child) => self
                    .entry(child)
                    .map_or(0, |entry| self.page_rows(child, entry)),
                None => entry.page.length,
            },
            _ => entry.page.length,
        }
    }

    /// The offsets of some lists; the inner error is that of their page.
    pub(super) fn list_offsets(
        &self,
        field: &Field,
        entry: &PageEntry,
        rows: &Rows,
        source: &dyn PageSource,
    ) -> Result<std::result::Result<ListOffsets, PageError>> {
        let child_length = self.child_length(field)?;
        let (field, page_rows) = (field.to_arrow(), self.page_rows(field, entry));
        let (page, validity) = (&entry.page, &entry.validity);
        Ok(decode_list_offsets(
            &field,
            page,
            page_rows,
            child_length,
            validity,
            rows,
            source,
        ))
    }
}
