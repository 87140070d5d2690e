//! Getting the bytes of a plan into memory, by where the file lies.
//!
//! | file | rows | bytes |
//! |---|---|---|
//! | mapped | few, scattered, or the reader stays mapped | prefetched in the mapping, which the arrays share |
//! | mapped | many close together | slices of the mapping that are released when the arrays are dropped |
//! | remote | | requests for all batches together |
//!
//! Each way takes as many rounds as offsets are nested: fixed parts first, then the bytes that their offsets point at. A
//! request to a remote file costs more than any work here, and the store joins ranges that lie close together, so all batches
//! are planned together. Bytes of a mapping are touched only after they were prefetched: then a file that was cut short, or a
//! disk that cannot be read, is an error and not a signal.

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use arrow_buffer::Buffer;
use bytes::Bytes;
use pilum_encoding::{PageSource, Rows, Segments};
use pilum_format::Field;

use super::batch::BatchRead;
use super::plan::{MappedPlan, streams};
use crate::error::{Error, Result};
use crate::events::EVENTS;
use crate::ranges::joined;
use crate::reader::FileReader;

/// Prefetches the bytes of a mapped file that decoding will touch, for all reads in as few calls as possible. Reads that
/// stream are left without bytes; they are returned as `true` and need [`fetch_rounds`].
pub(super) fn prefetch_mapped<'a>(
    reader: &'a FileReader,
    whole: &'a Segments,
    fields: &[Field],
    reads: &mut [(BatchRead<'a>, &Rows)],
) -> Result<Vec<bool>> {
    let mut streaming = Vec::with_capacity(reads.len());
    let mut plan = MappedPlan::new(whole, reader.num_bytes());
    for (read, rows) in &*reads {
        let streams = !reader.stays_mapped && streams(read, fields, rows);
        streaming.push(streams);
        if !streams {
            plan.add(read, fields, rows)?;
        }
    }
    loop {
        let ranges = plan.take_ranges();
        if !ranges.is_empty() {
            let ranges = joined(ranges);
            trace_plan(reader, &ranges);
            reader.directory.file.prefetch(&ranges)?;
        }
        if !plan.advance()? {
            break;
        }
    }
    for ((read, _), streams) in reads.iter_mut().zip(&streaming) {
        if !streams {
            read.segments = Cow::Borrowed(whole);
        }
    }
    Ok(streaming)
}

/// Fetches the bytes that decoding will ask for, round by round, for all reads together.
pub(super) async fn fetch_rounds(
    reader: &FileReader,
    fields: &[Field],
    reads: &mut [(BatchRead<'_>, &Rows)],
) -> Result<()> {
    let mut fetched: Vec<(u64, Buffer)> = Vec::new();
    loop {
        let mut missing: Vec<Range<u64>> = Vec::new();
        for (read, rows) in &*reads {
            let mut wanted = Vec::new();
            for field in fields {
                read.plan(field, &field.name, rows, &mut wanted)?;
            }
            wanted.retain(|range| !range.is_empty() && read.segments.slice(range.clone()).is_err());
            missing.append(&mut wanted);
        }
        if missing.is_empty() {
            return Ok(());
        }
        let missing = joined(missing);
        trace_plan(reader, &missing);
        let bytes = read_ranges(reader, &missing).await?;
        let positions = missing.iter().map(|range| range.start);
        fetched.extend(positions.zip(bytes.into_iter().map(Buffer::from)));
        let segments = Segments::new(fetched.iter().cloned());
        for (read, _) in &mut *reads {
            read.segments = Cow::Owned(segments.clone());
        }
    }
}

/// One event for each round of a plan.
fn trace_plan(reader: &FileReader, ranges: &[Range<u64>]) {
    tracing::trace!(
        target: EVENTS,
        path = reader.path(),
        ranges = ranges.len(),
        bytes = ranges.iter().map(|range| range.end - range.start).sum::<u64>(),
        "plan"
    );
}

/// The bytes of all ranges, complete: otherwise the next round would plan the same ranges again, without end.
async fn read_ranges(reader: &FileReader, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    let file = &reader.directory.file;
    let mapped = ranges.iter().map(|range| file.read_mapped(range.clone()));
    let bytes = match mapped.collect::<Option<std::result::Result<Vec<_>, _>>>() {
        Some(bytes) => bytes?,
        None => file.read_ranges(ranges).await?,
    };
    let is_whole =
        |(range, bytes): (&Range<u64>, &Bytes)| bytes.len() as u64 == range.end - range.start;
    if bytes.len() == ranges.len() && ranges.iter().zip(&bytes).all(is_whole) {
        return Ok(bytes);
    }
    Err(Error::Store(pilum_store::Error::Io {
        path: reader.path().to_owned(),
        operation: "read the file",
        source: io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the store returned fewer bytes than it was asked for",
        ),
    }))
}
