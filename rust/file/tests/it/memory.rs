//! Files in memory, and the allocator that counts what reading them takes.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::executor::block_on;
use futures::future::BoxFuture;
use pilum_file::{FileReader, OpenOptions, WrittenFile};
use pilum_store::ReadAt;

/// A file in memory: as if mapped, or as if far away.
#[derive(Debug)]
pub(crate) struct InMemory {
    pub(crate) bytes: Bytes,
    pub(crate) mapped: bool,
}

impl InMemory {
    fn slice(&self, range: &Range<u64>) -> pilum_store::Result<Bytes> {
        if range.start > range.end || range.end > self.size() {
            return Err(pilum_store::Error::OutOfRange {
                path: self.path().to_owned(),
                range: range.clone(),
                size: self.size(),
            });
        }
        Ok(self.bytes.slice(range.start as usize..range.end as usize))
    }
}

impl ReadAt for InMemory {
    fn path(&self) -> &str {
        "memory"
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn mapped(&self) -> Option<&Bytes> {
        self.mapped.then_some(&self.bytes)
    }

    fn read_ranges<'a>(
        &'a self,
        ranges: &'a [Range<u64>],
    ) -> BoxFuture<'a, pilum_store::Result<Vec<Bytes>>> {
        async move { ranges.iter().map(|range| self.slice(range)).collect() }.boxed()
    }

    fn read_tail(&self, num_bytes: u64) -> BoxFuture<'_, pilum_store::Result<Bytes>> {
        let start = self.size().saturating_sub(num_bytes);
        async move { self.slice(&(start..self.size())) }.boxed()
    }

    fn prefetch(&self, _: &[Range<u64>]) -> pilum_store::Result<()> {
        Ok(())
    }

    fn release(&self, _: Range<u64>) {}

    fn read_mapped(&self, range: Range<u64>) -> Option<pilum_store::Result<Bytes>> {
        self.mapped.then(|| self.slice(&range))
    }
}

/// Opens bytes as the file that `written` describes.
pub(crate) fn open_bytes(
    bytes: Vec<u8>,
    mapped: bool,
    written: &WrittenFile,
) -> pilum_file::Result<FileReader> {
    let options = OpenOptions {
        field_ids: Some(&written.field_ids),
        metadata_crc32c: Some(written.metadata_crc32c),
        skip_verification: false,
        ..OpenOptions::default()
    };
    let bytes = bytes.into();
    block_on(FileReader::open(
        Arc::new(InMemory { bytes, mapped }),
        options,
    ))
}

#[global_allocator]
static ALLOCATOR: pilum_testing::CountingAllocator = pilum_testing::CountingAllocator;
