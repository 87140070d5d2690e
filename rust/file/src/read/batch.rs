//! The rows of one batch, decoded from the bytes at hand.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::ArrayRef;
use pilum_encoding::{
    Error as PageError, Layout, ListOffsets, Rows, Segments, assemble_dictionary, assemble_items,
    assemble_list, assemble_struct, decode_list_offsets, decode_nulls, decode_page,
};
use pilum_format::{Dictionaries, Field};

use super::{Columns, FileReader};
use crate::checked::CheckedSource;
use crate::directory::PageEntry;
use crate::error::{Error, Result};

/// The read of some rows of one batch.
pub(super) struct BatchRead<'a> {
    pub(super) reader: &'a FileReader,
    pub(super) columns: &'a Columns,
    pub(super) batch: usize,
    pub(super) segments: Cow<'a, Segments>,
    pub(super) dictionaries: &'a Dictionaries,
}

impl<'a> BatchRead<'a> {
    /// A read that has no bytes yet, of columns whose pages may be taken for what they say.
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

    pub(super) fn source<'s>(&'s self, entry: &'s PageEntry) -> CheckedSource<'s> {
        CheckedSource::new(&self.segments, entry.coverage.iter())
    }

    /// The rows that are asked for are in the batch: a page that does not have them contradicts the directory.
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

    /// Pages never share bytes, so together they are no larger than the file. Without this a small file could name one page
    /// as that of thousands of columns, and each would take memory of its own.
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
    fn child_length(&self, field: &Field) -> Result<u64> {
        let Some(child) = field.children.first() else {
            return Ok(0);
        };
        Ok(self.page_rows(child, self.entry(child)?))
    }

    /// Rows of a node's page, by the page table.
    pub(super) fn page_rows(&self, field: &Field, entry: &PageEntry) -> u64 {
        match Layout::of(&field.data_type) {
            Ok(Layout::Offsets { .. }) => entry.page.length.saturating_sub(1),
            // The pair of a struct with members is (0, 0): they tell.
            Ok(Layout::Struct) => match field.children.first() {
                Some(child) => self
                    .entry(child)
                    .map_or(0, |entry| self.page_rows(child, entry)),
                None => entry.page.length,
            },
            _ => entry.page.length,
        }
    }

    fn item<'f>(&self, field: &'f Field, path: &str) -> Result<&'f Field> {
        field.children.first().ok_or_else(|| {
            self.reader
                .directory
                .corrupt(format!("list `{path}` has no item"), None)
        })
    }

    /// One array for each of some fields.
    pub(super) fn decode_all(&self, fields: &[Field], rows: &Rows) -> Result<Vec<ArrayRef>> {
        let of_batch = self.reader.batch_rows(self.batch);
        let num_rows = of_batch.end - of_batch.start;
        let decode = |field: &Field| self.decode(field, &field.name, rows, num_rows);
        fields.iter().map(decode).collect()
    }

    fn decode(&self, field: &Field, path: &str, rows: &Rows, num_rows: u64) -> Result<ArrayRef> {
        let entry = self.entry(field)?;
        let page_rows = self.page_rows(field, entry);
        if page_rows != num_rows {
            let what = format!(
                "column `{path}`: a page of {page_rows} rows where the batch has {num_rows}"
            );
            return Err(self.reader.directory.corrupt(what, entry.page.position));
        }
        let source = self.source(entry);
        let failed = |error| self.failed(path, error);
        let values = |source| {
            let (page, validity) = (&entry.page, &entry.validity);
            decode_page(&field.to_arrow(), page, page_rows, validity, rows, source)
        };
        let selected = usize::try_from(rows.len()).unwrap_or(usize::MAX);
        match Layout::of(&field.data_type).map_err(failed)? {
            Layout::Struct => {
                let children = field
                    .children
                    .iter()
                    .map(|child| {
                        self.decode(child, &format!("{path}.{}", child.name), rows, num_rows)
                    })
                    .collect::<Result<Vec<_>>>()?;
                let nulls =
                    decode_nulls(&field.to_arrow(), num_rows, &entry.validity, rows, &source)
                        .map_err(failed)?;
                assemble_struct(&field.data_type, children, nulls, selected).map_err(failed)
            }
            Layout::Items { size } => {
                let child = self.item(field, path)?;
                let num_items = num_rows.checked_mul(size).ok_or_else(|| {
                    let what = format!("column `{path}`: {num_rows} lists of {size} items");
                    self.reader.directory.corrupt(what, None)
                })?;
                let item_rows = rows.times(size).map_err(failed)?;
                let path = format!("{path}.{}", child.name);
                let items = self.decode(child, &path, &item_rows, num_items)?;
                let nulls =
                    decode_nulls(&field.to_arrow(), num_rows, &entry.validity, rows, &source)
                        .map_err(failed)?;
                assemble_items(&field.data_type, items, nulls, selected).map_err(failed)
            }
            Layout::Offsets { .. } => {
                let offsets = self.list_offsets(field, entry, rows, &source)?;
                let offsets = offsets.map_err(failed)?;
                let child = self.item(field, path)?;
                let path = format!("{path}.{}", child.name);
                let values =
                    self.decode(child, &path, &offsets.child_rows, self.child_length(field)?)?;
                assemble_list(&field.data_type, offsets, values).map_err(failed)
            }
            Layout::Keys { .. } => {
                let keys = values(&source).map_err(failed)?;
                let values = self.dictionaries.get(&field.id).ok_or_else(|| {
                    self.reader
                        .directory
                        .corrupt(format!("column `{path}`: no dictionary values"), None)
                })?;
                assemble_dictionary(&keys, Arc::clone(values), &field.data_type).map_err(failed)
            }
            _ => values(&source).map_err(failed),
        }
    }

    /// The offsets of some lists; the inner error is that of their page.
    pub(super) fn list_offsets(
        &self,
        field: &Field,
        entry: &PageEntry,
        rows: &Rows,
        source: &CheckedSource<'_>,
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
