//! Batches spilled to a temporary file. The file has no name, so the system removes it when the process ends.

use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::sync::{Mutex, PoisonError};

use arrow_array::{RecordBatch, UInt32Array};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;

use super::keys::ROW_BYTES;
use crate::error::{Error, Result};
use crate::read::held::held_bytes;

/// Where a batch is in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    start: u64,
    byte_len: usize,
}

/// The temporary file.
#[derive(Debug)]
pub(super) struct Spill(Mutex<File>);

fn failed(source: std::io::Error) -> Error {
    Error::Store(pilum_store::Error::Io {
        path: std::env::temp_dir().display().to_string(),
        operation: "spill rows to a temporary file",
        source,
    })
}

/// The file has no name, so only its disk, or a fault of pilum, can change what was written.
fn unreadable(error: &ArrowError) -> Error {
    failed(std::io::Error::new(
        std::io::ErrorKind::InvalidData,
        format!("spilled rows cannot be read back: {error}"),
    ))
}

impl Spill {
    /// A new file in the folder for temporary files (`TMPDIR`).
    pub(super) fn new() -> Result<Self> {
        tempfile::tempfile()
            .map(|file| Self(Mutex::new(file)))
            .map_err(failed)
    }

    pub(super) fn put(&self, batch: &RecordBatch) -> Result<Segment> {
        let mut bytes = Vec::new();
        let written = StreamWriter::try_new(&mut bytes, batch.schema_ref()).and_then(|mut it| {
            it.write(batch)?;
            it.finish()
        });
        written.map_err(|error| Error::invalid("the data", error.to_string()))?;
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = file.seek(SeekFrom::End(0)).map_err(failed)?;
        file.write_all(&bytes).map_err(failed)?;
        Ok(Segment {
            start,
            byte_len: bytes.len(),
        })
    }

    pub(super) fn get(&self, segment: Segment) -> Result<RecordBatch> {
        let mut bytes = vec![0; segment.byte_len];
        {
            let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(segment.start)).map_err(failed)?;
            file.read_exact(&mut bytes).map_err(failed)?;
        }
        let mut batches =
            StreamReader::try_new(Cursor::new(bytes), None).map_err(|it| unreadable(&it))?;
        match batches.next() {
            Some(batch) => batch.map_err(|error| unreadable(&error)),
            None => Err(Error::bug("a segment of spilled rows is empty")),
        }
    }
}

/// Batches partitioned into parts; the rows of a part are collected until they are worth a segment.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    spill: &'a Spill,
    waiting: Vec<Vec<RecordBatch>>,
    waiting_bytes: u64,
    most_waiting_bytes: u64,
    written: Vec<Part>,
}

/// The segments of a part, and what they take in memory once their keys are in a table.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    pub(super) segments: Vec<Segment>,
    pub(super) num_bytes: u64,
}

impl<'a> Parts<'a> {
    pub(super) fn new(spill: &'a Spill, num_parts: usize, most_waiting_bytes: u64) -> Self {
        Self {
            spill,
            waiting: vec![Vec::new(); num_parts],
            waiting_bytes: 0,
            most_waiting_bytes,
            written: vec![Part::default(); num_parts],
        }
    }

    /// Adds each row to the part that `part_of` names.
    pub(super) fn add(
        &mut self,
        batch: &RecordBatch,
        part_of: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); self.waiting.len()];
        for (row, number) in (0..batch.num_rows()).zip(0u32..) {
            if let Some(rows) = rows.get_mut(part_of(row)) {
                rows.push(number);
            }
        }
        for (part, rows) in rows.into_iter().enumerate() {
            if rows.is_empty() {
                continue;
            }
            let taken = arrow_select::take::take_record_batch(batch, &UInt32Array::from(rows));
            let taken = taken.map_err(|error| Error::invalid("the data", error.to_string()))?;
            let num_bytes = held_bytes(&taken) + ROW_BYTES * taken.num_rows() as u64;
            self.waiting_bytes += num_bytes;
            self.written[part].num_bytes += num_bytes;
            self.waiting[part].push(taken);
        }
        if self.waiting_bytes > self.most_waiting_bytes {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        for (waiting, part) in self.waiting.iter_mut().zip(&mut self.written) {
            let Some(first) = waiting.first() else {
                continue;
            };
            let whole = arrow_select::concat::concat_batches(first.schema_ref(), &*waiting);
            let whole = whole.map_err(|error| Error::invalid("the data", error.to_string()))?;
            part.segments.push(self.spill.put(&whole)?);
            waiting.clear();
        }
        self.waiting_bytes = 0;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Vec<Part>> {
        self.flush()?;
        Ok(self.written)
    }
}
