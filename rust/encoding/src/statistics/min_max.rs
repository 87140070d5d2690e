//! Minimum and maximum of one page, by kind of value.

use arrow_buffer::{BooleanBuffer, NullBuffer, i256};

/// Longer strings and binaries are cut to this many bytes, so that statistics stay small.
const MAX_VALUE_BYTES: usize = 64;

/// Numbers with a minimum and a maximum.
pub(super) trait MinMax: Copy {
    /// Minimum and maximum of the valid values; the least and the greatest of the type if no value is valid.
    fn min_max(values: &[Self], valid: Option<&NullBuffer>) -> (Self, Self);

    /// +inf if a valid value is NaN, which minimum and maximum leave out.
    fn beyond(_values: &[Self], _valid: Option<&NullBuffer>) -> Option<Self> {
        None
    }
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

macro_rules! integer_min_max {
    ($($native:ty)*) => {$(
        impl MinMax for $native {
            fn min_max(values: &[Self], valid: Option<&NullBuffer>) -> (Self, Self) {
                let none = (Self::MAX, Self::MIN);
                let (min, max) = fold(values, valid, none, |(min, max), v| (min.min(v), max.max(v)));
                if min > max { (Self::MIN, Self::MAX) } else { (min, max) }
            }
        }
    )*};
}
integer_min_max!(i8 i16 i32 i64 u8 u16 u32 u64 i128 i256);

macro_rules! float_min_max {
    ($($native:ty)*) => {$(
        impl MinMax for $native {
            fn min_max(values: &[Self], valid: Option<&NullBuffer>) -> (Self, Self) {
                // Comparisons with NaN are false, so NaN is never chosen.
                let none = (Self::INFINITY, Self::NEG_INFINITY);
                let (min, max) = fold(values, valid, none, |(min, max), v| {
                    (if v < min { v } else { min }, if v > max { v } else { max })
                });
                if min > max {
                    return (Self::NEG_INFINITY, Self::INFINITY);
                }
                // -0.0 and 0.0 are equal, but a reader may order them: widen to include both.
                (if min == 0.0 { -0.0 } else { min }, if max == 0.0 { 0.0 } else { max })
            }

            fn beyond(values: &[Self], valid: Option<&NullBuffer>) -> Option<Self> {
                let has_nan = fold(values, valid, false, |found, v| found | v.is_nan());
                has_nan.then_some(Self::INFINITY)
            }
        }
    )*};
}
float_min_max!(f32 f64);

/// Minimum and maximum of booleans; false and true if no value is valid.
pub(super) fn bool_min_max(values: &BooleanBuffer, valid: Option<&NullBuffer>) -> (bool, bool) {
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

/// Minimum and maximum of strings and binaries, value by value.
pub(super) struct ByteMinMax<'a> {
    is_text: bool,
    range: Option<(&'a [u8], &'a [u8])>,
    /// The first eight bytes of minimum and maximum as numbers. Most values lie strictly between them,
    /// which two comparisons of numbers show.
    prefixes: (u64, u64),
    any_cut: bool,
}

/// The first eight bytes, zero padded: a smaller prefix means a smaller value.
fn prefix(value: &[u8]) -> u64 {
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

impl<'a> ByteMinMax<'a> {
    pub(super) fn new(is_text: bool) -> Self {
        Self {
            is_text,
            range: None,
            prefixes: (u64::MAX, 0),
            any_cut: false,
        }
    }

    pub(super) fn push(&mut self, value: &'a [u8]) {
        let here = prefix(value);
        if self.prefixes.0 < here && here < self.prefixes.1 {
            self.any_cut |= value.len() > MAX_VALUE_BYTES;
            return;
        }
        let value = if value.len() > MAX_VALUE_BYTES {
            self.any_cut = true;
            cut(value, self.is_text)
        } else {
            value
        };
        let (min, max) = self.range.unwrap_or((value, value));
        let (min, max) = (min.min(value), max.max(value));
        self.range = Some((min, max));
        self.prefixes = (prefix(min), prefix(max));
    }

    /// Minimum and maximum; `None` = unknown. If a value was cut, the maximum is incremented, because a
    /// value is larger than its beginning.
    pub(super) fn finish(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
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

/// The longest prefix of at most [`MAX_VALUE_BYTES`]; of text, in whole characters.
fn cut(value: &[u8], is_text: bool) -> &[u8] {
    let is_continuation = |byte: &u8| byte & 0xC0 == 0x80;
    let mut end = MAX_VALUE_BYTES;
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

/// A larger text of the same length: the last byte that can be incremented while the text stays
/// UTF-8 is incremented as little as possible. `None` if no byte can.
fn next_text(mut value: Vec<u8>) -> Option<Vec<u8>> {
    for index in (0..value.len()).rev() {
        let old = value[index];
        // The bytes before this character do not change, so only the rest is checked.
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
