//! Pages with a CRC-32 in their headers, which the writer of the `parquet` crate leaves out.
//!
//! The writer hands each page, header first, to a store of pages. The store of this module adds the checksum to the header,
//! and afterwards the places of the pages in the column chunk are computed again, because the headers became longer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::column::page_store::{PageKey, PageStore, PageStoreArgs, PageStoreFactory};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::OffsetIndexBuilder;

use crate::thrift::{PageHeader, PageKind, with_crc};

/// CRC-32 of some bytes, as the format has it: the polynomial of gzip.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, bytes);
    // A checksum of 32 bits, in a wider type.
    u32::try_from(crc & u64::from(u32::MAX)).unwrap_or_default()
}

/// The pages of one column chunk in the order in which they were written, with their checksums.
#[derive(Debug, Default)]
struct Pages {
    /// Headers and bodies, alternately.
    blobs: Vec<Bytes>,
    /// The header whose body is still to come.
    header: Option<Bytes>,
    num_bytes: usize,
}

type SharedPages = Arc<Mutex<Pages>>;

/// Makes a store for each column of a row group, and keeps hold of it.
#[derive(Debug, Default)]
pub(crate) struct ChecksumStores {
    stores: Mutex<HashMap<usize, SharedPages>>,
}

impl PageStoreFactory for ChecksumStores {
    fn create(&self, args: &PageStoreArgs<'_>) -> Result<Box<dyn PageStore>> {
        let pages = SharedPages::default();
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.insert(args.column_index(), Arc::clone(&pages));
        Ok(Box::new(ChecksumStore(pages)))
    }
}

impl ChecksumStores {
    /// The chunk of a column that was closed, and what closing it returned, with the places as they are now.
    pub(crate) fn chunk(
        &self,
        column: usize,
        close: &mut ColumnCloseResult,
    ) -> Result<(Bytes, ColumnCloseResult)> {
        let pages = self
            .stores
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&column);
        let pages = pages.ok_or_else(|| fault("no pages of a column"))?;
        let pages = std::mem::take(&mut *pages.lock().unwrap_or_else(PoisonError::into_inner));
        let mut dictionary = Vec::new();
        let mut data: Vec<(&Bytes, &Bytes)> = Vec::new();
        for pair in pages.blobs.chunks_exact(2) {
            let [header, body] = pair else { continue };
            let read = PageHeader::read(header).map_err(fault)?;
            match read.kind {
                PageKind::Dictionary => dictionary.push((header, body)),
                _ => data.push((header, body)),
            }
        }
        let mut chunk = Vec::with_capacity(pages.num_bytes);
        for (header, body) in &dictionary {
            chunk.extend_from_slice(header);
            chunk.extend_from_slice(body);
        }
        let data_at = chunk.len();
        let mut sizes = Vec::with_capacity(data.len());
        for (header, body) in &data {
            sizes.push((chunk.len(), header.len() + body.len()));
            chunk.extend_from_slice(header);
            chunk.extend_from_slice(body);
        }
        let added = chunk.len() as i64 - close.metadata.compressed_size();
        let uncompressed = close.metadata.uncompressed_size() + added;
        let metadata = close
            .metadata
            .clone()
            .into_builder()
            .set_dictionary_page_offset((data_at > 0).then_some(0))
            .set_data_page_offset(data_at as i64)
            .set_total_compressed_size(chunk.len() as i64)
            .set_total_uncompressed_size(uncompressed)
            .build()?;
        let offset_index = close.offset_index.take();
        let offset_index = offset_index.map(|index| {
            let mut moved = OffsetIndexBuilder::new();
            let rows = index.page_locations();
            let texts = index.unencoded_byte_array_data_bytes();
            for (place, (offset, size)) in sizes.iter().enumerate() {
                let first = rows.get(place).map_or(0, |page| page.first_row_index);
                // The rows of the last page do not matter: only the first row of each page is kept.
                let next = rows
                    .get(place + 1)
                    .map_or(first, |page| page.first_row_index);
                moved.append_offset_and_size(
                    *offset as i64,
                    i32::try_from(*size).unwrap_or(i32::MAX),
                );
                moved.append_row_count(next - first);
                moved.append_unencoded_byte_array_data_bytes(
                    texts.and_then(|texts| texts.get(place).copied()),
                );
            }
            moved.build()
        });
        let close = ColumnCloseResult {
            bytes_written: chunk.len() as u64,
            rows_written: close.rows_written,
            metadata,
            bloom_filter: close.bloom_filter.take(),
            column_index: close.column_index.take(),
            offset_index,
        };
        Ok((chunk.into(), close))
    }
}

struct ChecksumStore(SharedPages);

impl PageStore for ChecksumStore {
    fn put(&mut self, value: Bytes) -> Result<PageKey> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = PageKey::new(pages.blobs.len() as u64);
        match pages.header.take() {
            None => pages.header = Some(value),
            Some(header) => {
                let header = with_crc(&header, crc32(&value)).map_err(fault)?;
                pages.num_bytes += header.len() + value.len();
                pages.blobs.push(header.into());
                pages.blobs.push(value);
            }
        }
        Ok(key)
    }

    fn take(&mut self, _key: PageKey) -> Result<Bytes> {
        Err(fault("pages with checksums are taken by column"))
    }

    fn memory_size(&self) -> usize {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .num_bytes
    }
}

fn fault(what: &'static str) -> ParquetError {
    ParquetError::General(what.to_owned())
}
