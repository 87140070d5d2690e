//! Reading a file that is far away: what all batches need is asked for at once.
//!
//! A round trip costs more than any work here, so there are as few rounds as offsets allow: fixed parts first, then what these
//! point at. The store joins ranges that lie close together, and the more it sees at one time, the better it chooses.

use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_buffer::Buffer;
use pilum_encoding::{PageSource, Rows, Segments};

use super::batch::BatchRead;
use super::plan::joined;
use super::{Columns, FileReader};
use crate::error::Result;
use crate::schema::Field;
use crate::write::Dictionaries;

impl FileReader {
    /// Rows of the file, batch by batch: as one [`read_batch`](Self::read_batch) after the other, in fewer requests.
    pub(crate) async fn read_far(
        &self,
        fields: &[Field],
        rows: &Rows,
        dictionaries: &Dictionaries,
    ) -> Result<Vec<Vec<ArrayRef>>> {
        let mut columns = Columns::default();
        for field in fields {
            self.load(field, &mut columns).await?;
        }
        let mut reads = Vec::new();
        for (batch, rows) in self.split(rows) {
            let read = BatchRead::new(self, &columns, batch, fields, dictionaries)?;
            reads.push((read, rows));
        }
        let mut fetched: Vec<(u64, Buffer)> = Vec::new();
        loop {
            let mut missing: Vec<Range<u64>> = Vec::new();
            for (read, rows) in &reads {
                let mut wanted = Vec::new();
                for field in fields {
                    read.plan(field, &field.name, rows, &mut wanted)?;
                }
                wanted.retain(|range| {
                    !range.is_empty() && read.segments.slice(range.clone()).is_err()
                });
                missing.append(&mut wanted);
            }
            if missing.is_empty() {
                break;
            }
            let missing = joined(missing);
            let bytes = self.directory.file.read_ranges(&missing).await?;
            let positions = missing.iter().map(|range| range.start);
            fetched.extend(positions.zip(bytes.into_iter().map(Buffer::from)));
            let segments = Segments::new(fetched.iter().cloned());
            for (read, _) in &mut reads {
                read.segments = segments.clone();
            }
        }
        let decode = |(read, rows): &(BatchRead<'_>, Rows)| read.decode_all(fields, rows);
        reads.iter().map(decode).collect()
    }
}
