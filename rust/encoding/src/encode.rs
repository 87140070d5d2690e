//! Arrow arrays to the bytes of one page.
//!
//! Bytes under a null are zero, so that a reader of plain v1 sees what the format says it sees;
//! without nulls the page is the array's own memory.

use arrow_array::cast::AsArray;
use arrow_array::{Array, OffsetSizeTrait};
use arrow_buffer::{ArrowNativeType, Buffer, MutableBuffer, NullBuffer};
use arrow_schema::DataType;

use crate::beyond::shown_values;
use crate::error::Error;
use crate::layout::Layout;
use crate::lists::Lists;
use crate::validity::{LevelValidity, packed_bits};

/// One page as it is written.
#[derive(Debug, Clone)]
pub struct EncodedPage {
    /// The bytes, written one after the other without a gap.
    pub buffers: Vec<Buffer>,
    /// Bytes of all buffers.
    pub byte_len: u64,
    /// Where in these bytes the page table points: 0, for var-binary the offset array.
    pub pointer: u64,
    /// The page table's length: values, for lists one more.
    pub length: u64,
    /// What v1 cannot hold, per level; level 0 is the node.
    pub validity: Vec<LevelValidity>,
    /// The first value that v1 would change, and how many; `None` if it holds all.
    pub lossy: Option<Lossy>,
}

/// Values of one page that v1 would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lossy {
    /// First row of the page with such a value.
    pub first_row: u64,
    /// Number of such values (items, for the items of fixed-size lists).
    pub count: u64,
    /// What they are, for a message: "null", "empty value beside nulls", ...
    pub what: &'static str,
}

impl EncodedPage {
    /// The page holds something that v1 alone would lose.
    pub fn needs_extension(&self) -> bool {
        self.lossy.is_some()
    }

    fn new(buffers: Vec<Buffer>, length: usize, levels: Levels) -> Self {
        Self {
            byte_len: buffers.iter().map(|b| b.len() as u64).sum(),
            buffers,
            pointer: 0,
            length: length as u64,
            validity: levels.validity,
            lossy: levels.lossy,
        }
    }
}

/// Encodes the page of one node.
///
/// * `nullable`: of the field. A null of its own in a field that is not is refused.
/// * `hidden`: the slots that are null because an ancestor is (the whole validity of the
///   ancestors). They are zeroed like nulls, but need no validity: the ancestor says it.
/// * `position`: where in the file the first byte will lie; var-binary offsets are absolute.
pub fn encode_page(
    array: &dyn Array,
    nullable: bool,
    hidden: Option<&NullBuffer>,
    position: u64,
) -> Result<EncodedPage, Error> {
    if let Some(hidden) = hidden
        && hidden.len() != array.len()
    {
        return Err(Error::invalid(format!(
            "{} rows hidden or shown, the array has {}",
            hidden.len(),
            array.len()
        )));
    }
    let layout = Layout::of(array.data_type())?;
    let mut levels = Levels::default();
    if layout == Layout::Null {
        levels.validity.push(LevelValidity::V1);
        return Ok(EncodedPage::new(Vec::new(), array.len(), levels));
    }
    let valid = NullBuffer::union(array.nulls(), hidden);
    let valid = valid.filter(|v| v.null_count() > 0);
    let hidden_count = hidden.map_or(0, NullBuffer::null_count);
    let own = OwnNulls::find(valid.as_ref(), hidden, hidden_count);
    if let Some(own) = &own
        && !nullable
    {
        return Err(Error::invalid(format!(
            "{} null values in a field that is not nullable, the first in row {}; \
             make the field nullable or fill them",
            own.count, own.first
        )));
    }
    match layout {
        Layout::Var { large, .. } => {
            let (valid, own) = (valid.as_ref(), own.is_some());
            if let Some(shown) = shown_values(array) {
                encode_var::<i64>(shown.as_ref(), nullable, valid, own, position)
            } else if large {
                encode_var::<i64>(array, nullable, valid, own, position)
            } else {
                encode_var::<i32>(array, nullable, valid, own, position)
            }
        }
        Layout::Fixed(_) => {
            levels.push_nulls(own, valid.as_ref(), 1);
            let bytes = encode_fixed(array, valid.as_ref(), 1, &mut levels)?;
            Ok(EncodedPage::new(
                bytes.into_iter().collect(),
                array.len(),
                levels,
            ))
        }
        Layout::Keys { .. } => {
            levels.push_nulls(own, valid.as_ref(), 1);
            let dictionary = array.as_any_dictionary();
            if dictionary.values().is_empty() && !array.is_empty() && !nullable {
                return Err(Error::invalid(
                    "an empty dictionary has no key to store; give it one value",
                ));
            }
            if dictionary.values().is_empty() && !array.is_empty() {
                // Only nulls: no key of the page may be looked up, hidden ones included.
                levels = Levels::all_null(array.len());
            }
            let bytes = encode_fixed(dictionary.keys(), valid.as_ref(), 1, &mut Levels::default())?;
            Ok(EncodedPage::new(
                bytes.into_iter().collect(),
                array.len(),
                levels,
            ))
        }
        Layout::Offsets { large } => {
            levels.push_nulls(own, valid.as_ref(), 1);
            let offsets = if large {
                list_offsets::<i64>(array, valid.as_ref())?
            } else {
                list_offsets::<i32>(array, valid.as_ref())?
            };
            Ok(EncodedPage::new(vec![offsets], array.len() + 1, levels))
        }
        Layout::Struct => {
            levels.push_nulls(own, valid.as_ref(), 1);
            // With members a struct owns no page; without, its length is all that tells its rows.
            let length = if array.as_struct().num_columns() == 0 {
                array.len()
            } else {
                0
            };
            Ok(EncodedPage::new(Vec::new(), length, levels))
        }
        Layout::Items { .. } => {
            levels.push_nulls(own, valid.as_ref(), 1);
            Ok(EncodedPage::new(Vec::new(), array.len(), levels))
        }
        Layout::Null => Ok(EncodedPage::new(Vec::new(), array.len(), levels)),
    }
}

/// Nulls that are the node's own: not hidden by an ancestor.
struct OwnNulls {
    first: usize,
    count: usize,
    /// No visible slot is valid.
    all: bool,
}

impl OwnNulls {
    fn find(
        valid: Option<&NullBuffer>,
        hidden: Option<&NullBuffer>,
        hidden_count: usize,
    ) -> Option<Self> {
        let valid = valid?;
        let count = valid.null_count() - hidden_count;
        if count == 0 {
            return None;
        }
        let visible = |row: &usize| hidden.is_none_or(|h| h.is_valid(*row));
        let first = (!valid.inner()).set_indices().find(visible)?;
        Some(Self {
            first,
            count,
            all: valid.null_count() == valid.len(),
        })
    }
}

#[derive(Default)]
struct Levels {
    validity: Vec<LevelValidity>,
    lossy: Option<Lossy>,
}

impl Levels {
    fn all_null(count: usize) -> Self {
        let lossy = Lossy {
            first_row: 0,
            count: count as u64,
            what: "null",
        };
        Self {
            validity: vec![LevelValidity::AllNull],
            lossy: Some(lossy),
        }
    }

    /// A level whose nulls v1 cannot hold. The level above speaks first, for it hides this one.
    fn push_nulls(&mut self, own: Option<OwnNulls>, valid: Option<&NullBuffer>, per_row: usize) {
        let Some((own, valid)) = own.zip(valid) else {
            self.validity.push(LevelValidity::V1);
            return;
        };
        self.validity.push(if own.all {
            LevelValidity::AllNull
        } else {
            LevelValidity::Bitmap(packed_bits(valid.inner()))
        });
        self.lossy.get_or_insert(Lossy {
            first_row: (own.first / per_row.max(1)) as u64,
            count: own.count as u64,
            what: if per_row == 1 { "null" } else { "null item" },
        });
    }
}

/// The value bytes of a fixed-width array, zero where it is null; lists descend to their items.
fn encode_fixed(
    array: &dyn Array,
    valid: Option<&NullBuffer>,
    per_row: usize,
    levels: &mut Levels,
) -> Result<Option<Buffer>, Error> {
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean().values();
            Ok(Some(match valid {
                Some(valid) => packed_bits(&(values & valid.inner())),
                None => packed_bits(values),
            }))
        }
        DataType::FixedSizeList(item, n) => {
            let array = array.as_fixed_size_list();
            let size = n
                .to_usize()
                .ok_or_else(|| Error::invalid(format!("list size {n}")))?;
            let count = array.len().checked_mul(size);
            let count = count.ok_or_else(|| Error::invalid("too many list items"))?;
            let items = array.values().slice(0, count);
            let hidden = valid.map(|valid| valid.expand(size));
            let valid = NullBuffer::union(items.nulls(), hidden.as_ref());
            let valid = valid.filter(|v| v.null_count() > 0);
            let hidden_count = hidden.as_ref().map_or(0, NullBuffer::null_count);
            let own = OwnNulls::find(valid.as_ref(), hidden.as_ref(), hidden_count);
            let per_row = per_row.saturating_mul(size);
            if let Some(own) = &own
                && !item.is_nullable()
            {
                return Err(Error::invalid(format!(
                    "{} null items in a list whose items are not nullable, the first in row {}",
                    own.count,
                    own.first / per_row.max(1)
                )));
            }
            levels.push_item_nulls(own, valid.as_ref(), per_row);
            encode_fixed(&items, valid.as_ref(), per_row, levels)
        }
        _ => {
            let data = array.to_data();
            let Layout::Fixed(layout) = Layout::of(data.data_type())? else {
                return Err(Error::unsupported(format!(
                    "fixed-width page of {}",
                    data.data_type()
                )));
            };
            let width = usize::try_from(layout.item_bytes.unwrap_or(0))
                .map_err(|_| Error::invalid("value too wide"))?;
            let bytes = data
                .buffers()
                .first()
                .map(|b| b.slice_with_length(data.offset() * width, data.len() * width));
            Ok(match (bytes, valid) {
                (Some(bytes), Some(valid)) => Some(zeroed(bytes, valid, width)),
                (bytes, _) => bytes,
            })
        }
    }
}

impl Levels {
    fn push_item_nulls(
        &mut self,
        own: Option<OwnNulls>,
        valid: Option<&NullBuffer>,
        per_row: usize,
    ) {
        // A list of size one has one item per row, and they are items all the same.
        let known = self.lossy.is_some();
        self.push_nulls(own, valid, per_row);
        if let (false, Some(lossy)) = (known, &mut self.lossy) {
            lossy.what = "null item";
        }
    }
}

/// The bytes with every null slot zero: shared if they are already.
fn zeroed(bytes: Buffer, valid: &NullBuffer, width: usize) -> Buffer {
    let null_runs = !valid.inner();
    let clean = null_runs
        .set_slices()
        .all(|(start, end)| bytes[start * width..end * width].iter().all(|b| *b == 0));
    if clean {
        return bytes;
    }
    let mut copy = MutableBuffer::with_capacity(bytes.len());
    copy.extend_from_slice(&bytes);
    for (start, end) in null_runs.set_slices() {
        copy[start * width..end * width].fill(0);
    }
    copy.into()
}

fn encode_var<O: OffsetSizeTrait>(
    array: &dyn Array,
    nullable: bool,
    valid: Option<&NullBuffer>,
    has_own_nulls: bool,
    position: u64,
) -> Result<EncodedPage, Error> {
    let data = array.to_data();
    let (Some(offsets), Some(values)) = (data.buffers().first(), data.buffers().get(1)) else {
        return Err(Error::invalid(format!(
            "{} without buffers",
            data.data_type()
        )));
    };
    // An empty array may come without its one offset.
    let offsets: &[O] = offsets.typed_data();
    let offsets = offsets
        .get(data.offset()..=data.offset() + data.len())
        .unwrap_or(&[]);
    let (first, last) = match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => (first.as_usize(), last.as_usize()),
        _ => (0, 0),
    };
    let start = i64::try_from(position)
        .ok()
        .filter(|start| start.checked_add(values.len() as i64).is_some())
        .ok_or_else(|| Error::invalid(format!("page position {position} beyond a file's end")))?;

    let null_bytes = valid.is_some_and(|valid| {
        (!valid.inner())
            .set_slices()
            .any(|(start, end)| offsets[start] != offsets[end])
    });
    let mut absolute: Vec<i64> = Vec::with_capacity(data.len() + 1);
    let bytes = match valid {
        Some(valid) if null_bytes => {
            let mut bytes = Vec::with_capacity(last - first);
            absolute.push(start);
            for (row, pair) in offsets.windows(2).enumerate() {
                if valid.is_valid(row) {
                    bytes.extend_from_slice(&values[pair[0].as_usize()..pair[1].as_usize()]);
                }
                absolute.push(start + bytes.len() as i64);
            }
            Buffer::from_vec(bytes)
        }
        _ => {
            let shift = start - first as i64;
            absolute.extend(offsets.iter().map(|o| o.as_usize() as i64 + shift));
            if absolute.is_empty() {
                absolute.push(start);
            }
            values.slice_with_length(first, last - first)
        }
    };
    let levels = var_levels(&absolute, nullable, valid, has_own_nulls);
    let pointer = bytes.len() as u64;
    let mut page = EncodedPage::new(vec![bytes, little_endian(absolute)], data.len(), levels);
    page.pointer = pointer;
    Ok(page)
}

/// v1 takes zero length for null where the field is nullable, so a valid empty value needs a word.
fn var_levels(
    offsets: &[i64],
    nullable: bool,
    valid: Option<&NullBuffer>,
    has_own_nulls: bool,
) -> Levels {
    let mut levels = Levels::default();
    let empty = if nullable {
        count_equal_neighbours(offsets)
    } else {
        0
    };
    let null_count = valid.map_or(0, NullBuffer::null_count);
    // Every null is empty by now, so what is left over are values.
    if empty <= null_count {
        levels.validity.push(LevelValidity::V1);
        return levels;
    }
    let is_valid = |row: usize| valid.is_none_or(|v| v.is_valid(row));
    let first = offsets
        .windows(2)
        .enumerate()
        .position(|(row, pair)| pair[0] == pair[1] && is_valid(row));
    levels.lossy = Some(Lossy {
        first_row: first.unwrap_or(0) as u64,
        count: (empty - null_count) as u64,
        what: "empty value in a nullable field",
    });
    levels.validity.push(match valid {
        Some(valid) if has_own_nulls => LevelValidity::Bitmap(packed_bits(valid.inner())),
        _ => LevelValidity::AllValid,
    });
    levels
}

pub(crate) fn count_equal_neighbours<T: PartialEq + Copy>(offsets: &[T]) -> usize {
    let next = offsets.get(1..).unwrap_or(&[]);
    offsets
        .iter()
        .zip(next)
        .map(|(a, b)| usize::from(a == b))
        .sum()
}

/// Offsets from 0, null lists of length 0.
fn list_offsets<O: OffsetSizeTrait>(
    array: &dyn Array,
    valid: Option<&NullBuffer>,
) -> Result<Buffer, Error> {
    let lists = Lists::<O>::of(array)?;
    if let Some(offsets) = lists.offsets()
        && !offsets.has_non_empty_nulls(valid)
        && offsets[0] == O::zero()
    {
        return Ok(offsets.inner().inner().clone());
    }
    let mut current = 0_usize;
    let mut rebased = Vec::with_capacity(array.len() + 1);
    rebased.push(O::zero());
    for length in lists.lengths(valid) {
        current = current.saturating_add(length);
        // List views may overlap: their items, written one list after the other, may be too many.
        rebased.push(O::from_usize(current).ok_or_else(|| Error::Limit {
            what: format!("items of lists with {}-byte offsets", size_of::<O>()),
            actual: current as u64,
            limit: O::MAX_OFFSET as u64,
        })?);
    }
    Ok(Buffer::from_vec(rebased))
}

/// Memory order is file order on every machine that this builds for.
#[cfg(target_endian = "little")]
fn little_endian(offsets: Vec<i64>) -> Buffer {
    Buffer::from_vec(offsets)
}

#[cfg(not(target_endian = "little"))]
compile_error!(
    "pages are little endian and are shared with memory: big endian machines need a copy"
);
