//! Reading from the bytes at hand.

use crate::error::StreamFault;

/// Why reading of a row stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The row goes on beyond the bytes at hand.
    More {
        /// Position of the value that is not complete.
        at: usize,
        /// Bytes that this value needs from there, at least.
        needed: usize,
    },
    /// The bytes are no row of the schema.
    Bad(Box<Fault>),
    /// The decoded row takes more memory than a limit allows.
    TooLarge,
    /// A YSON node is beyond its limits.
    Limit(Box<Excess>),
}

/// A stop, and the column that was being read.
pub(crate) type RowStop = (Option<usize>, Stop);

/// A value that is beyond a limit, and where.
#[derive(Debug)]
pub(crate) struct Excess {
    pub(crate) at: usize,
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

impl Stop {
    /// A fault whose class does not matter.
    pub(crate) fn fault(at: usize, reason: String) -> Self {
        Self::Bad(Box::new(Fault {
            fault: StreamFault::BadVariantTag,
            at,
            reason,
        }))
    }

    /// Where reading stopped and why, in bytes that end at `end`.
    pub(crate) fn place_and_reason(self, end: usize) -> (usize, String) {
        match self {
            Self::More { at, needed } => {
                let left = end.saturating_sub(at);
                let reason = format!(
                    "a value of {needed} bytes or more begins here, and the stream ends {left} bytes further"
                );
                (at, reason)
            }
            Self::Bad(fault) => (fault.at, fault.reason),
            Self::TooLarge => (end, "the row takes too much memory".to_owned()),
            Self::Limit(excess) => (excess.at, excess.what),
        }
    }
}

/// What is wrong with the bytes, and where.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) fault: StreamFault,
    pub(crate) at: usize,
    pub(crate) reason: String,
}

/// A position in the bytes at hand.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(crate) pos: usize,
    /// Bytes of decoded list items, which can be many times the bytes on the wire.
    charge: usize,
    max_charge: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], pos: usize, max_charge: usize) -> Self {
        Self {
            bytes,
            pos,
            charge: 0,
            max_charge,
        }
    }

    /// Counts bytes of memory for list items of this row.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Stop> {
        self.charge = self.charge.saturating_add(bytes);
        if self.charge > self.max_charge {
            return Err(Stop::TooLarge);
        }
        Ok(())
    }

    /// The bytes from `start` to here.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.pos).unwrap_or_default()
    }

    pub(crate) fn charged(&self) -> usize {
        self.charge
    }

    #[inline(always)]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let rest = self.bytes.get(self.pos..).unwrap_or_default();
        match rest.first_chunk() {
            Some(array) => {
                self.pos += N;
                Ok(*array)
            }
            None => Err(self.more(self.pos, N)),
        }
    }

    #[inline(always)]
    pub(crate) fn byte(&mut self) -> Result<u8, Stop> {
        match self.bytes.get(self.pos) {
            Some(byte) => {
                self.pos += 1;
                Ok(*byte)
            }
            None => Err(self.more(self.pos, 1)),
        }
    }

    /// A tag of one or two bytes.
    #[inline(always)]
    pub(crate) fn tag(&mut self, is_wide: bool) -> Result<u16, Stop> {
        if is_wide {
            Ok(u16::from_le_bytes(self.array()?))
        } else {
            Ok(u16::from(self.byte()?))
        }
    }

    #[inline(always)]
    pub(crate) fn slice(&mut self, length: usize) -> Result<&'a [u8], Stop> {
        let end = self.pos.saturating_add(length);
        match self.bytes.get(self.pos..end) {
            Some(slice) => {
                self.pos = end;
                Ok(slice)
            }
            None => Err(self.more(self.pos, length)),
        }
    }

    /// The bytes of a `string32` or `yson32`. The declared length is believed only when so many bytes are at hand.
    #[inline(always)]
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Stop> {
        let start = self.pos;
        let length = u32::from_le_bytes(self.array()?) as usize;
        let end = self.pos.saturating_add(length);
        match self.bytes.get(self.pos..end) {
            Some(slice) => {
                self.pos = end;
                Ok(slice)
            }
            None => Err(self.more(start, length.saturating_add(4))),
        }
    }

    #[cold]
    fn more(&self, at: usize, needed: usize) -> Stop {
        Stop::More { at, needed }
    }
}

/// Stops at faulty bytes.
#[cold]
pub(crate) fn bad<T>(fault: StreamFault, at: usize, reason: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Bad(Box::new(Fault {
        fault,
        at,
        reason: reason.into(),
    })))
}
