//! The errors of a stream: each with its byte, table, row and column.

use std::ops::Range;

use super::super::cursor::{Excess, Stop};
use super::Decoder;
use crate::error::{Error, Place, StreamFault};

impl Decoder {
    /// The error for a row at `start` that has too many bytes.
    pub(super) fn too_long(&self, start: usize, table: Option<usize>) -> Error {
        let most = self.options.max_row_bytes;
        let reason = format!("the row has more than {most} bytes");
        let remedy = "raise `max_row_bytes` if this is intended";
        self.excess(start, (table, None), &reason, remedy)
    }

    /// The error for a row in a range of the bytes at hand.
    pub(super) fn error(
        &self,
        Range { start, end }: Range<usize>,
        table: Option<usize>,
        column: Option<usize>,
        stop: Stop,
    ) -> Error {
        let rows = table.and_then(|table| self.tables.get(table));
        let rows = rows.and_then(Option::as_ref);
        let name = rows
            .zip(column)
            .and_then(|(rows, column)| rows.name(column));
        let (fault, at, reason) = match stop {
            Stop::More { at, needed } => (
                StreamFault::TruncatedStream,
                at,
                format!(
                    "a value of {needed} bytes or more begins here, and the stream ends {} bytes further",
                    end - at
                ),
            ),
            Stop::Bad(fault) => (fault.fault, fault.at, fault.reason),
            Stop::TooLarge => {
                let most = self.options.max_row_bytes;
                let reason = format!("the row takes more than {most} bytes of memory");
                let remedy = "raise `max_row_bytes` if this is intended";
                return self.excess(start, (table, name), &reason, remedy);
            }
            Stop::Limit(excess) => {
                let Excess { at, what, remedy } = *excess;
                return self.excess(at, (table, name), &what, remedy);
            }
        };
        Error::Stream {
            fault,
            offset: self.offset + at as u64,
            table,
            row: self.num_rows,
            column: name,
            reason,
        }
    }

    /// The error for a value at `at` that is beyond a limit.
    fn excess(
        &self,
        at: usize,
        (table, column): (Option<usize>, Option<String>),
        what: &str,
        remedy: &'static str,
    ) -> Error {
        let offset = self.offset + at as u64;
        let place = Place(table, self.num_rows, column.as_deref());
        Error::Limit {
            what: format!("Skiff stream, byte {offset}, {place}: {what}"),
            remedy,
        }
    }
}
