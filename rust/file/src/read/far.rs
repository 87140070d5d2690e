//! Reading a file that is far away: what all batches need is asked for at once.
//!
//! A round trip costs more than any work here, so there are as few rounds as offsets allow: fixed parts first, then what these
//! point at. The store joins ranges that lie close together, and the more it sees at one time, the better it chooses.

use std::borrow::Cow;
use std::ops::Range;

use arrow_buffer::Buffer;
use pilum_encoding::{PageSource, Rows, Segments};
use pilum_format::Field;

use super::FileReader;
use super::batch::BatchRead;
use super::plan::joined;
use crate::error::Result;

impl FileReader {
    /// Brings the bytes that decoding some rows of some batches will ask for.
    pub(super) async fn fetch_far(
        &self,
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
                wanted.retain(|range| {
                    !range.is_empty() && read.segments.slice(range.clone()).is_err()
                });
                missing.append(&mut wanted);
            }
            if missing.is_empty() {
                return Ok(());
            }
            let missing = joined(missing);
            let bytes = self.directory.file.read_ranges(&missing).await?;
            let positions = missing.iter().map(|range| range.start);
            fetched.extend(positions.zip(bytes.into_iter().map(Buffer::from)));
            let segments = Segments::new(fetched.iter().cloned());
            for (read, _) in &mut *reads {
                read.segments = Cow::Owned(segments.clone());
            }
        }
    }
}
