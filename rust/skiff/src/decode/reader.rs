//! Decoding from a file, a pipe, a socket or bytes in memory.

use std::io::{self, ErrorKind, Read};

use arrow_array::RecordBatch;

use super::options::DecodeOptions;
use super::stream::Decoder;
use crate::error::{Error, Result, StreamFault};
use crate::schema::Format;

/// Bytes that are asked for at once.
const CHUNK: usize = 1 << 20;

/// Batches of a stream, each with the number of its table. Holds one batch, and the bytes of one row or of one chunk.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    decoder: Decoder,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    is_at_end: bool,
    /// Why the input could not be read further; told behind the rows that are at hand.
    broken: Option<io::Error>,
    has_failed: bool,
}

impl<R: Read> Reader<R> {
    /// A reader from the beginning of a stream.
    pub fn new(input: R, format: Format, options: DecodeOptions) -> Self {
        Self {
            input,
            decoder: Decoder::new(format, options),
            buffer: Vec::new(),
            start: 0,
            end: 0,
            is_at_end: false,
            broken: None,
            has_failed: false,
        }
    }

    /// The format of the stream.
    pub fn format(&self) -> &Format {
        self.decoder.format()
    }

    /// Bytes of the stream that became rows.
    pub fn offset(&self) -> u64 {
        self.decoder.offset()
    }

    /// NaN and infinities of decimals that were handed out as nulls so far.
    pub fn num_special_decimals(&self) -> u64 {
        self.decoder.num_special_decimals()
    }

    /// The next batch, or none at the end of the stream.
    fn advance(&mut self) -> Result<Option<(usize, RecordBatch)>> {
        loop {
            if let Some(batch) = self.next_batch()? {
                return Ok(Some(batch));
            }
            if self.decoder.is_done() && self.is_at_end && self.start == self.end {
                return match self.broken.take() {
                    Some(error) => Err(Error::Io(error)),
                    None => Ok(None),
                };
            }
            let at_hand = self.buffer.get(self.start..self.end).unwrap_or_default();
            let consumed = self.decoder.decode(at_hand, self.is_at_end);
            self.start += consumed;
            if let Some(batch) = self.next_batch()? {
                return Ok(Some(batch));
            }
            if !self.is_at_end {
                self.fill();
            }
        }
    }

    /// What the decoder has ready. A stream that ends early because the input broke is told by the error of the input.
    fn next_batch(&mut self) -> Result<Option<(usize, RecordBatch)>> {
        let next = self.decoder.next_batch();
        let is_truncated = matches!(
            &next,
            Err(Error::Stream {
                fault: StreamFault::TruncatedStream,
                ..
            })
        );
        match self.broken.take_if(|_| is_truncated) {
            Some(error) => Err(Error::Io(error)),
            None => next,
        }
    }

    /// Reads what the input has, at least once, and until the decoder has the bytes that it is known to need.
    fn fill(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        loop {
            // The buffer grows with the bytes that came, never with a length that the stream declares.
            if self.buffer.len() - self.end < CHUNK {
                let grown = self.end + self.end.max(CHUNK);
                self.buffer.resize(grown, 0);
            }
            let free = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.input.read(free) {
                Ok(0) => {
                    self.is_at_end = true;
                    return;
                }
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.broken = Some(error);
                    self.is_at_end = true;
                    return;
                }
            }
            if self.end >= self.decoder.needed() {
                return;
            }
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<(usize, RecordBatch)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let next = self.advance();
        self.has_failed = next.is_err();
        next.transpose()
    }
}
