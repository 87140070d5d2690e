//! Decoding the rows of one batch from the bytes that were fetched.

use std::sync::Arc;

use arrow_array::ArrayRef;
use pilum_encoding::{
    Layout, Rows, assemble_dictionary, assemble_items, assemble_list, assemble_struct,
    decode_nulls, decode_page,
};
use pilum_format::Field;

use super::batch::BatchRead;
use crate::error::Result;

impl BatchRead<'_> {
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

    /// The selected rows of one node, with those below it. `num_rows` is the number of slots that its parent expects.
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
}
