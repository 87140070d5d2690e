//! Sets of rows as bytes: what the tasks of a distributed statement return instead of addresses.

use std::io::Cursor;

use pilum_format::{Fragment, RowIdSequence};
use roaring::{RoaringBitmap, RoaringTreemap};

use crate::commit::removed_rows::RemovedRows;
use crate::error::{Error, Result};
use crate::write::StagedFragments;

/// What errors call the bytes.
const ROW_SET: &str = "a set of rows";

/// The bytes of a set of row addresses. A task may give one address once only.
///
/// # Errors
/// `CommonError::InvalidInput` for an address that is given twice, or that no row can have.
pub fn encode_row_set(addresses: &[u64]) -> Result<Vec<u8>> {
    let mut set = RoaringTreemap::new();
    for address in addresses {
        if !set.insert(*address) {
            return Err(twice(*address));
        }
    }
    let mut bytes = Vec::with_capacity(set.serialized_size());
    set.serialize_into(&mut bytes)
        .map_err(|error| Error::bug(format!("writing a set of rows: {error}")))?;
    Ok(bytes)
}

/// The rows of all sets. No row may be in two of them.
pub(super) fn union(sets: &[Vec<u8>]) -> Result<RemovedRows> {
    let mut rows = RemovedRows::default();
    for bytes in sets {
        let set = RoaringTreemap::deserialize_from(Cursor::new(bytes));
        let set = set.map_err(|error| Error::corrupt(error.to_string()).at(ROW_SET))?;
        for (id, of_fragment) in set.bitmaps() {
            let id = u64::from(id);
            let common = rows.of(id).map(|before| before & of_fragment);
            if let Some(first) = common.as_ref().and_then(RoaringBitmap::min) {
                return Err(twice(id << 32 | u64::from(first)));
            }
            rows.add(id, of_fragment);
        }
    }
    Ok(rows)
}

fn twice(address: u64) -> Error {
    let (fragment, row) = (address >> 32, address & 0xFFFF_FFFF);
    Error::invalid(
        format!("row {row} of fragment {fragment}"),
        "is changed twice: several rows of the source match it; keep one row for each key",
    )
}

/// Gives ids to the first rows of staged fragments; the commit gives new ids to the rows behind them.
///
/// # Errors
/// `CommonError::InvalidInput` for more ids than rows.
pub fn with_row_ids(mut staged: StagedFragments, row_ids: &[u64]) -> Result<StagedFragments> {
    if row_ids.len() as u64 > staged.num_rows {
        let reason = format!("{} for {} rows", row_ids.len(), staged.num_rows);
        return Err(Error::invalid("row ids", reason));
    }
    let mut left = row_ids;
    for fragment in &mut staged.fragments {
        let rows = usize::try_from(fragment.physical_rows).unwrap_or(usize::MAX);
        let (own, rest) = left.split_at(rows.min(left.len()));
        fragment.row_ids = Some(RowIdSequence::from_values(own).encode());
        left = rest;
    }
    Ok(staged)
}

/// Copies the row ids of staged fragments to those that were made of them, in the same order.
pub(super) fn copy_row_ids<'a>(from: impl Iterator<Item = &'a Fragment>, to: &mut [Fragment]) {
    for (new, old) in to.iter_mut().zip(from) {
        new.row_ids.clone_from(&old.row_ids);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_of_several_tasks_become_one() {
        let sets = [vec![1, 3 << 32 | 7], vec![2, 3 << 32 | 9]];
        let bytes: Vec<Vec<u8>> = sets
            .iter()
            .map(|set| encode_row_set(set).unwrap())
            .collect();
        let rows = union(&bytes).unwrap();
        assert_eq!(rows.len(), 4);
        assert!(sets.iter().flatten().all(|address| rows.contains(*address)));
        assert!(union(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_row_that_two_rows_of_the_source_match_is_refused() {
        let of_one = encode_row_set(&[5, 5]).unwrap_err().to_string();
        assert!(of_one.contains("row 5 of fragment 0"), "{of_one}");
        let set = encode_row_set(&[2 << 32 | 4]).unwrap();
        let of_two = union(&[set.clone(), set]).unwrap_err().to_string();
        assert!(of_two.contains("row 4 of fragment 2"), "{of_two}");
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let bytes = encode_row_set(&[1, 2, 3, 9 << 32]).unwrap();
        for len in 0..bytes.len() {
            assert!(union(&[bytes[..len].to_vec()]).is_err(), "{len} bytes");
        }
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 0xFF;
            drop(union(&[changed]));
        }
    }
}
