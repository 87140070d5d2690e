//! Numbers whose wire form differs from Arrow's: other widths, decimals, uuids.

use arrow_buffer::MutableBuffer;

use super::cursor::{Cursor, Stop, bad};
use crate::error::StreamFault;
use crate::schema::Integer;

/// Reads an integer and stores it in another integer type.
#[derive(Debug)]
pub(crate) struct Number {
    pub(crate) wire: Integer,
    pub(crate) arrow: Integer,
    pub(crate) out: MutableBuffer,
}

impl Number {
    pub(crate) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let at = cursor.pos;
        let value = self.wire.read(cursor.slice(self.wire.bytes)?);
        if !self.arrow.holds(value) {
            let held = self.arrow;
            return bad(
                StreamFault::OutOfRange,
                at,
                format!(
                    "{value} does not fit the {held} of the format; give the column a wider type"
                ),
            );
        }
        let bytes = value.to_le_bytes();
        self.out
            .extend_from_slice(bytes.get(..self.arrow.bytes).unwrap_or_default());
        Ok(())
    }
}

/// Reads the unscaled value of a decimal.
#[derive(Debug)]
pub(crate) struct Decimal {
    pub(crate) wire_bytes: usize,
    pub(crate) arrow_bytes: usize,
    pub(crate) precision: u8,
    pub(crate) out: MutableBuffer,
    /// One byte per row, 0 for a NaN or an infinity; none where such a value is an error.
    pub(crate) flags: Option<Vec<u8>>,
    /// How many of them were handed out as nulls.
    pub(crate) num_special: u64,
}

impl Decimal {
    pub(crate) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let at = cursor.pos;
        let wire = cursor.slice(self.wire_bytes)?;
        let is_negative = wire.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if is_negative { 0xff } else { 0 }; 32];
        for (to, from) in wide.iter_mut().zip(wire) {
            *to = *from;
        }
        let name = special(wire);
        match (&mut self.flags, name) {
            (Some(flags), _) => flags.push(u8::from(name.is_none())),
            (None, None) => {}
            (None, Some(name)) => {
                let reason = format!(
                    "the decimal is {name}, which Arrow does not have; read it as null in a nullable column"
                );
                return bad(StreamFault::OutOfRange, at, reason);
            }
        }
        if name.is_some() {
            self.out.extend_zeros(self.arrow_bytes);
            return Ok(());
        }
        let value = arrow_buffer::i256::from_le_bytes(wide);
        if !fits(value, self.precision) {
            let reason = format!(
                "the decimal has more than the {} digits of the format",
                self.precision
            );
            return bad(StreamFault::OutOfRange, at, reason);
        }
        self.out
            .extend_from_slice(wide.get(..self.arrow_bytes).unwrap_or_default());
        Ok(())
    }
}

/// The name of a value at the end of the range, where YTsaurus keeps what is no number.
fn special(wire: &[u8]) -> Option<&'static str> {
    let (last, rest) = wire.split_last()?;
    let (first, middle) = rest.split_first()?;
    let all = |byte: u8| middle.iter().all(|it| *it == byte);
    match (*first, *last) {
        (0xff, 0x7f) if all(0xff) => Some("NaN"),
        (0xfe, 0x7f) if all(0xff) => Some("+inf"),
        (0x02, 0x80) if all(0) => Some("-inf"),
        _ => None,
    }
}

/// True when the number has at most so many decimal digits.
pub(crate) fn fits(value: arrow_buffer::i256, precision: u8) -> bool {
    use arrow_array::types::{Decimal128Type, Decimal256Type, DecimalType};
    match value.to_i128() {
        Some(value) if precision <= 38 => {
            Decimal128Type::validate_decimal_precision(value, precision, 0).is_ok()
        }
        _ => Decimal256Type::validate_decimal_precision(value, precision.min(76), 0).is_ok(),
    }
}
