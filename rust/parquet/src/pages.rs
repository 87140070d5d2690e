//! The pages of a column chunk, read from their headers: limits before a page is decompressed, and where each row is.

use std::ops::Range;

use parquet::file::metadata::OffsetIndexBuilder;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use pilum_store::ReadAt;

use crate::error::{Error, Result};
use crate::limits::ReadLimits;
use crate::thrift::{PageHeader, PageKind};

/// A header is read from so many bytes; longer ones, with statistics of long texts, are read again from
/// [`LONG_HEADER_BYTES`].
const HEADER_BYTES: u64 = 128;
const LONG_HEADER_BYTES: u64 = 1 << 20;

/// Checks the pages in some bytes of a chunk that begin with a page, before they are handed to the decoder.
///
/// # Errors
/// `CommonError::Corrupt` for a header that cannot be read, `CommonError::Limit` for a page that declares too much.
pub(crate) fn check_pages(
    path: &str,
    mut bytes: &[u8],
    is_repeated: bool,
    limits: &ReadLimits,
) -> Result<()> {
    while !bytes.is_empty() {
        let header = PageHeader::read(bytes)
            .map_err(|fault| Error::corrupt(path, format!("the header of a page: {fault}")))?;
        check_page(path, &header, is_repeated, limits)?;
        let total = usize::try_from(header.total()).unwrap_or(usize::MAX);
        // The decoder reports a page that ends behind its chunk.
        bytes = bytes.get(total..).unwrap_or_default();
    }
    Ok(())
}

fn check_page(
    path: &str,
    header: &PageHeader,
    is_repeated: bool,
    limits: &ReadLimits,
) -> Result<()> {
    let (size, stored) = (u64::from(header.uncompressed), u64::from(header.compressed));
    if size > limits.page_bytes {
        return Err(Error::limit(
            format!("{path}: a page"),
            format!("{size} bytes"),
            format!("{} bytes", limits.page_bytes),
        ));
    }
    if size > limits.free_page_bytes && size > stored.saturating_mul(limits.ratio) {
        return Err(Error::limit(
            format!("{path}: a page of {stored} bytes"),
            format!("{size} bytes when it is decompressed"),
            format!("{} times its size", limits.ratio),
        ));
    }
    let values = u64::from(header.num_values);
    if header.kind == PageKind::Dictionary && values > size.saturating_mul(8) {
        return Err(Error::corrupt(
            path,
            format!("a dictionary of {size} bytes declares {values} values"),
        ));
    }
    if header.is_data() && is_repeated && values > limits.repeated_values {
        return Err(Error::limit(
            format!("{path}: a page of lists"),
            format!("{values} values"),
            format!("{} values", limits.repeated_values),
        ));
    }
    Ok(())
}

/// One page of a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    pub(crate) offset: u64,
    pub(crate) header: PageHeader,
}

/// The pages of the chunk at `range`, read header by header.
///
/// # Errors
/// `CommonError::Corrupt` for a header that cannot be read or a page that ends behind the chunk.
pub(crate) async fn pages(source: &dyn ReadAt, range: Range<u64>) -> Result<Vec<Page>> {
    let path = source.path();
    let mut pages = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let header = header_at(source, at, range.end).await?;
        if header.total() > range.end - at {
            return Err(Error::corrupt(
                path,
                format!("the page at byte {at} ends behind its column chunk"),
            ));
        }
        pages.push(Page { offset: at, header });
        at += header.total();
    }
    Ok(pages)
}

async fn header_at(source: &dyn ReadAt, at: u64, end: u64) -> Result<PageHeader> {
    let mut fault = "it is empty";
    for most in [HEADER_BYTES, LONG_HEADER_BYTES] {
        let front = at..end.min(at + most);
        let bytes = source.read_ranges(std::slice::from_ref(&front)).await?;
        match PageHeader::read(bytes.first().map_or(&[], |bytes| bytes)) {
            Ok(header) => return Ok(header),
            Err(found) => fault = found,
        }
    }
    Err(Error::corrupt(
        source.path(),
        format!("the header of the page at byte {at}: {fault}"),
    ))
}

/// Which rows each data page of a flat column has: the offset index that its writer left out.
///
/// None if the pages do not tell their rows, as those of lists in the first version do not.
pub(crate) fn row_map(
    pages: &[Page],
    num_rows: u64,
    is_repeated: bool,
) -> Option<OffsetIndexMetaData> {
    let mut index = OffsetIndexBuilder::new();
    let mut rows = 0;
    for page in pages.iter().filter(|page| page.header.is_data()) {
        let count = match page.header.num_rows {
            Some(rows) => rows,
            None if !is_repeated => page.header.num_values,
            None => return None,
        };
        let size = i32::try_from(page.header.total()).ok()?;
        index.append_offset_and_size(i64::try_from(page.offset).ok()?, size);
        index.append_row_count(i64::from(count));
        rows += u64::from(count);
    }
    (rows == num_rows).then(|| index.build())
}
