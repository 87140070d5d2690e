//! The bounds of one page, by kind of value.

use arrow_buffer::{BooleanBuffer, NullBuffer};

/// Longer values are cut to this many bytes, so that statistics stay small.
const MAX_BOUND_BYTES: usize = 64;

/// Numbers with a minimum and a maximum, and what stands for "no value seen".
pub(crate) trait Extremes: Copy {
    /// Minimum and maximum of the valid values; the type's own extremes if there is none.
    fn bounds(values: &[Self], valid: Option<&NullBuffer>) -> (Self, Self);
}

/// Folds the valid values run by run, each a plain loop that vectorises.
fn fold<T: Copy, A>(
    values: &[T],
    valid: Option<&NullBuffer>,
    start: A,
    mut add: impl FnMut(A, T) -> A,
) -> A {
    let Some(valid) = valid else {
        return values.iter().fold(start, |acc, v| add(acc, *v));
    };
    let mut acc = start;
    for (from, to) in valid.inner().set_slices() {
        acc = values[from..to].iter().fold(acc, |acc, v| add(acc, *v));
    }
    acc
}

macro_rules! integer_extremes {
    ($($native:ty)*) => {$(
        impl Extremes for $native {
            fn bounds(values: &[Self], valid: Option<&NullBuffer>) -> (Self, Self) {
                let none = (Self::MAX, Self::MIN);
                let (min, max) = fold(values, valid, none, |(min, max), v| (min.min(v), max.max(v)));
                if min > max { (Self::MIN, Self::MAX) } else { (min, max) }
            }
        }
    )*};
}
integer_extremes!(i8 i16 i32 i64 u8 u16 u32 u64 i128);

macro_rules! float_extremes {
    ($($native:ty)*) => {$(
        impl Extremes for $native {
            fn bounds(values: &[Self], valid: Option<&NullBuffer>) -> (Self, Self) {
                // Comparisons with NaN are false, so it is never taken.
                let none = (Self::INFINITY, Self::NEG_INFINITY);
                let (min, max) = fold(values, valid, none, |(min, max), v| {
                    (if v < min { v } else { min }, if v > max { v } else { max })
                });
                if min > max {
                    return (Self::NEG_INFINITY, Self::INFINITY);
                }
                // The zeros are equal, but a reader may order them: bound both.
                (if min == 0.0 { -0.0 } else { min }, if max == 0.0 { 0.0 } else { max })
            }
        }
    )*};
}
float_extremes!(f32 f64);

/// Bounds of booleans; false and true when none is valid.
pub(crate) fn bool_bounds(values: &BooleanBuffer, valid: Option<&NullBuffer>) -> (bool, bool) {
    let (any_true, any_false) = match valid {
        None => (values.has_true(), values.has_false()),
        Some(valid) => {
            let seen = values & valid.inner();
            let trues = seen.count_set_bits();
            (trues > 0, trues < valid.len() - valid.null_count())
        }
    };
    (any_true && !any_false, any_true || !any_false)
}

/// Bounds of strings and binaries.
pub(crate) struct ByteBounds<'a> {
    is_text: bool,
    range: Option<(&'a [u8], &'a [u8])>,
    /// Beginnings of minimum and maximum as numbers: most values lie strictly between, and one
    /// comparison of numbers tells.
    heads: (u64, u64),
    any_cut: bool,
}

/// The first eight bytes, zero padded: a smaller head is a smaller value.
fn head(value: &[u8]) -> u64 {
    let first = value.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; 8];
        padded
            .iter_mut()
            .zip(value)
            .for_each(|(to, from)| *to = *from);
        padded
    });
    u64::from_be_bytes(first)
}

impl<'a> ByteBounds<'a> {
    pub(crate) fn new(is_text: bool) -> Self {
        Self {
            is_text,
            range: None,
            heads: (u64::MAX, 0),
            any_cut: false,
        }
    }

    pub(crate) fn push(&mut self, value: &'a [u8]) {
        let here = head(value);
        if self.heads.0 < here && here < self.heads.1 {
            self.any_cut |= value.len() > MAX_BOUND_BYTES;
            return;
        }
        let value = if value.len() > MAX_BOUND_BYTES {
            self.any_cut = true;
            cut(value, self.is_text)
        } else {
            value
        };
        let (min, max) = self.range.unwrap_or((value, value));
        let (min, max) = (min.min(value), max.max(value));
        self.range = Some((min, max));
        self.heads = (head(min), head(max));
    }

    /// Minimum and maximum; `None` = unknown. After a cut, the maximum is the next larger value:
    /// the value that was cut is larger than what was left of it.
    pub(crate) fn finish(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let Some((min, max)) = self.range else {
            return (None, None);
        };
        let max = match (self.any_cut, self.is_text) {
            (false, _) => Some(max.to_vec()),
            (true, true) => next_text(max.to_vec()),
            (true, false) => next_bytes(max.to_vec()),
        };
        (Some(min.to_vec()), max)
    }
}

/// The longest beginning of at most 64 bytes; of text, in whole characters.
fn cut(value: &[u8], is_text: bool) -> &[u8] {
    let is_continuation = |byte: &u8| byte & 0xC0 == 0x80;
    let mut end = MAX_BOUND_BYTES;
    if is_text {
        while end > 0 && value.get(end).is_some_and(is_continuation) {
            end -= 1;
        }
    }
    &value[..end]
}

/// The value plus one, as a big number of its length; `None` if all bytes are 0xff.
fn next_bytes(mut value: Vec<u8>) -> Option<Vec<u8>> {
    for byte in value.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return Some(value);
        }
    }
    None
}

/// A larger text of the same length: the last byte that can grow, alone, with the text staying
/// UTF-8, grows as little as possible.
fn next_text(mut value: Vec<u8>) -> Option<Vec<u8>> {
    for index in (0..value.len()).rev() {
        let old = value[index];
        // What lies before this byte's character stays as it was, so it stays valid.
        let start = value[..=index]
            .iter()
            .rposition(|byte| byte & 0xC0 != 0x80)
            .unwrap_or(0);
        for larger in old.saturating_add(1)..=u8::MAX {
            value[index] = larger;
            if larger > old && std::str::from_utf8(&value[start..]).is_ok() {
                return Some(value);
            }
        }
        value[index] = old;
    }
    None
}
