//! Describing one file for people: its sections, columns and pages, and where they lie.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use pilum_common::type_name;
use pilum_encoding::Layout;
use pilum_format::Field;
use pilum_format::proto::pilum;
use serde::Serialize;

use crate::columns::PageEntry;
use crate::directory::Fetched;
use crate::error::Result;
use crate::footer::FOOTER_VERSION;
use crate::reader::FileReader;
use crate::statistics::ColumnStatistics;

/// A file: its sections and its columns. The names of the fields are the keys of the command line's JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileDescription {
    /// Path of the file.
    pub path: String,
    /// Size of the file.
    pub num_bytes: u64,
    /// Version of the file format: major and minor.
    pub file_version: (u16, u16),
    /// Library and version of the writer; absent when the file does not say.
    pub writer: Option<(String, String)>,
    /// Rows of the file.
    pub num_rows: u64,
    /// First row of each batch, and the number of rows as one more entry.
    pub batch_offsets: Vec<u64>,
    /// The sections after the pages, by ascending position.
    pub sections: Vec<Section>,
    /// The extension block; absent in files of other libraries.
    pub extension: Option<ExtensionDescription>,
    /// Every node of the schema, depth first.
    pub columns: Vec<ColumnDescription>,
}

/// A section of the file after its pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Section {
    /// Its name, for example "page table".
    pub name: &'static str,
    /// Its first byte.
    pub position: u64,
    /// Its bytes, where the file says how many.
    pub length: Option<u64>,
}

/// The extension block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExtensionDescription {
    /// Version of the block.
    pub version: u32,
    /// Bytes that one checksum covers; 0 = no checksums.
    pub checksum_block_bytes: u32,
    /// Whether a reader that ignores the block reads wrong values.
    pub required: bool,
    /// Whether an empty dictionary value is a value and not null.
    pub dictionary_has_empty: bool,
}

/// One node of the schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ColumnDescription {
    /// Field id.
    pub id: i32,
    /// Names from the top, joined by dots.
    pub name: String,
    /// The Arrow type.
    pub data_type: String,
    /// Whether nulls may be stored.
    pub nullable: bool,
    /// How its pages lie: "fixed", "bits", "var-binary", "list", "items", "dictionary", "null", "struct".
    pub layout: &'static str,
    /// One per batch.
    pub pages: Vec<PageDescription>,
}

/// One page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PageDescription {
    /// Rows of its batch.
    pub num_rows: u64,
    /// The first value, key or offset.
    pub position: u64,
    /// Values, by the page table.
    pub length: u64,
    /// Bytes of the page, where the file says how many.
    pub num_bytes: Option<u64>,
    /// How the bytes are encoded: "plain".
    pub encoding: String,
    /// By level: "v1", "all valid", "all null", "bitmap". Empty where the rules of v1 suffice.
    pub validity: Vec<&'static str>,
    /// Number of checksum blocks, those of validity bitmaps included.
    pub num_checksums: u64,
    /// Nulls of the page, by the statistics; absent for a column without statistics.
    pub null_count: Option<i64>,
    /// The minimum as text; absent where it is unknown.
    pub min: Option<String>,
    /// The maximum as text; absent where it is unknown.
    pub max: Option<String>,
}

impl FileReader {
    /// Describes the file. Reads its directory and statistics, and no page.
    ///
    /// # Errors
    /// `Unsupported` for a file without an embedded schema, `Corrupt` for a damaged directory.
    pub async fn describe(&self) -> Result<FileDescription> {
        let directory = &self.directory;
        let (schema, writer) = self.embedded_manifest().await?;
        let statistics = self.statistics(&schema.ids()).await?;
        let extension = directory.extension.as_ref();
        let mut columns = Vec::new();
        for field in &schema.fields {
            let mut stack = vec![(String::new(), field)];
            while let Some((above, field)) = stack.pop() {
                let name = format!("{above}{}", field.name);
                let below = format!("{name}.");
                stack.extend(field.children.iter().rev().map(|it| (below.clone(), it)));
                let described = self.describe_column(field, name, statistics.get(&field.id));
                columns.push(described.await?);
                self.check_pages(columns.len())?;
            }
        }
        Ok(FileDescription {
            path: directory.path.clone(),
            num_bytes: self.num_bytes(),
            file_version: FOOTER_VERSION,
            writer: writer.map(|it| (it.library, it.version)),
            num_rows: self.num_rows(),
            batch_offsets: directory.batch_offsets.clone(),
            sections: self.sections(),
            extension: extension.map(|extension| ExtensionDescription {
                version: extension.version,
                checksum_block_bytes: extension.block_size,
                required: extension.required,
                dictionary_has_empty: extension.dictionary_has_empty,
            }),
            columns,
        })
    }

    /// Bytes that the pages of a field and of all fields below it take, bitmaps of validity included. `None` if the file does
    /// not say so: those of other writers have no sizes of pages.
    ///
    /// # Errors
    /// `Corrupt` for a damaged page table or column directory.
    pub async fn stored_bytes(&self, field: &Field) -> Result<Option<u64>> {
        let directory = &self.directory;
        directory.prefetch_end()?;
        let mut bytes = 0_u64;
        for node in field.walk() {
            let layout = Layout::of(&node.data_type);
            if matches!(
                layout,
                Ok(Layout::Null | Layout::Struct | Layout::Items { .. })
            ) {
                continue;
            }
            let row = self.page_table_row(node.id).unwrap_or(0);
            let record = directory
                .column_record(row, &node.name, &Fetched::NONE)
                .await?;
            let of_node = match (record, layout) {
                (Some(record), _) => {
                    let bitmaps = record.pages.iter().flat_map(|page| &page.validity);
                    let bitmaps = bitmaps.filter_map(|level| level.bitmap.as_ref());
                    let bitmaps = bitmaps.map(|bitmap| bitmap.length);
                    let pages = record.pages.iter().map(|page| page.length);
                    pages.chain(bitmaps).fold(0, u64::saturating_add)
                }
                // Items of lists have other numbers than rows.
                (None, Ok(Layout::Fixed(fixed))) if node.id == field.id => {
                    let items = self.num_rows().saturating_mul(fixed.items);
                    match fixed.item_bytes {
                        Some(width) => items.saturating_mul(width),
                        None => items.div_ceil(8),
                    }
                }
                (None, Ok(Layout::Keys { width })) if node.id == field.id => {
                    self.num_rows().saturating_mul(width)
                }
                _ => return Ok(None),
            };
            bytes = bytes.saturating_add(of_node);
        }
        Ok(Some(bytes))
    }

    fn sections(&self) -> Vec<Section> {
        let directory = &self.directory;
        let extension = directory.extension.as_ref();
        let part = |of: fn(&pilum::Extension) -> &Option<pilum::Extent>| {
            extension.and_then(|extension| of(extension).as_ref())
        };
        let mut sections = Vec::new();
        for (name, extent, known) in [
            (
                "page table",
                part(|it| &it.page_table),
                Some(directory.page_table_position),
            ),
            (
                "statistics",
                part(|it| &it.statistics),
                self.statistics_position(),
            ),
            ("dictionary values", part(|it| &it.dictionaries), None),
            (
                "embedded manifest",
                part(|it| &it.manifest),
                Some(directory.manifest_position).filter(|&position| position > 0),
            ),
            ("column directory", part(|it| &it.directory), None),
            ("metadata", None, Some(directory.end)),
        ] {
            let (position, length) = match extent {
                Some(extent) => (Some(extent.position), Some(extent.length)),
                None => (known, None),
            };
            let section = position.map(|position| Section {
                name,
                position,
                length,
            });
            sections.extend(section);
        }
        sections.sort_by_key(|section| section.position);
        sections
    }

    async fn describe_column(
        &self,
        field: &Field,
        name: String,
        statistics: Option<&ColumnStatistics>,
    ) -> Result<ColumnDescription> {
        let directory = &self.directory;
        directory.prefetch_end()?;
        let none = Fetched::NONE;
        let column = directory
            .column(self.first_id(), field.id, &name, &none)
            .await?;
        let row = self.page_table_row(field.id).unwrap_or(0);
        let record = directory.column_record(row, &name, &none).await?;
        let pages = column.pages.iter().enumerate().map(|(batch, entry)| {
            let stored = record.as_ref().and_then(|record| record.pages.get(batch));
            let page = self.describe_page(self.batch_rows(batch), entry, stored);
            match statistics {
                None => page,
                Some(statistics) => PageDescription {
                    null_count: statistics.null_count.values().get(batch).copied(),
                    min: text(&statistics.min, batch),
                    max: text(&statistics.max, batch),
                    ..page
                },
            }
        });
        Ok(ColumnDescription {
            id: field.id,
            name,
            data_type: type_name(&field.data_type),
            nullable: field.nullable,
            layout: layout_name(field),
            pages: pages.collect(),
        })
    }

    fn describe_page(
        &self,
        rows: Range<u64>,
        entry: &PageEntry,
        stored: Option<&pilum::PageExtension>,
    ) -> PageDescription {
        use pilum::validity::Kind;
        let levels = stored.map_or(&[][..], |page| &page.validity);
        let block = u64::from(self.checksum_block().unwrap_or(0));
        let blocks = |length: u64| {
            if block == 0 {
                0
            } else {
                length.div_ceil(block)
            }
        };
        let bitmaps = levels.iter().filter_map(|level| level.bitmap.as_ref());
        let page_blocks = stored.map_or(0, |page| blocks(page.length));
        PageDescription {
            num_rows: rows.end - rows.start,
            position: entry.page.position,
            length: entry.page.length,
            num_bytes: stored.map(|page| page.length),
            encoding: "plain".to_owned(),
            validity: levels
                .iter()
                .map(|level| match level.kind() {
                    Kind::V1 => "v1",
                    Kind::AllValid => "all valid",
                    Kind::AllNull => "all null",
                    Kind::Bitmap => "bitmap",
                })
                .collect(),
            num_checksums: bitmaps
                .fold(page_blocks, |sum, it| sum.saturating_add(blocks(it.length))),
            null_count: None,
            min: None,
            max: None,
        }
    }
}

fn layout_name(field: &Field) -> &'static str {
    match Layout::of(&field.data_type) {
        Ok(Layout::Null) => "null",
        Ok(Layout::Fixed(fixed)) if fixed.item_bytes.is_none() => "bits",
        Ok(Layout::Fixed(_)) => "fixed",
        Ok(Layout::Var { .. }) => "var-binary",
        Ok(Layout::Offsets { .. }) => "list",
        Ok(Layout::Keys { .. }) => "dictionary",
        Ok(Layout::Items { .. }) => "items",
        Ok(Layout::Struct) => "struct",
        Err(_) => "unknown",
    }
}

/// A minimum or maximum as Arrow prints it; bytes that are no text are printed as hexadecimal digits.
fn text(values: &ArrayRef, batch: usize) -> Option<String> {
    if batch >= values.len() || values.is_null(batch) {
        return None;
    }
    let options = FormatOptions::default().with_display_error(true);
    let formatter = ArrayFormatter::try_new(values.as_ref(), &options).ok()?;
    Some(formatter.value(batch).to_string())
}
