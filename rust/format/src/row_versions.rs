//! Which version created, or last changed, each row of a fragment (tables with stable row ids).

use std::fmt::Display;

use bytes::Bytes;
use prost::Message;
use roaring::RoaringBitmap;

use crate::error::{Error, Result};
use crate::proto::table as proto;
use crate::raw_fields::contents;
use crate::row_ids::Segment;

/// Number of `RowDatasetVersionSequence.runs`.
const RUNS: u64 = 1;

/// Runs of rows with the same version, in row order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowVersions {
    /// `(rows, version)`; no run is empty and neighbours differ.
    runs: Vec<(u64, u64)>,
}

impl RowVersions {
    /// `len` rows of one version: what an append writes.
    #[must_use]
    pub fn uniform(len: u64, version: u64) -> Self {
        let mut versions = Self::default();
        versions.push(len, version);
        versions
    }

    /// Reads what a fragment holds inline.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are no row versions.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = |error: &dyn Display| Error::corrupt(format!("row versions: {error}"));
        let mut versions = Self::default();
        let mut total = 0u64;
        for range in contents(bytes, RUNS) {
            let content = &bytes[range.map_err(|error| damaged(&error))?];
            let run =
                proto::RowDatasetVersionRun::decode(content).map_err(|error| damaged(&error))?;
            let span = run.span.unwrap_or_default();
            let len = Segment::decode(span)?.len();
            let sum = total.checked_add(len);
            total = sum.ok_or_else(|| Error::corrupt("versions of more than 2^64 rows"))?;
            versions.push(len, run.version);
        }
        Ok(versions)
    }

    /// What a fragment holds inline.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let run = |&(len, version): &(u64, u64)| proto::RowDatasetVersionRun {
            span: Some(Segment::Range(0..len).encode()),
            version,
        };
        let runs = self.runs.iter().map(run).collect();
        proto::RowDatasetVersionSequence { runs }
            .encode_to_vec()
            .into()
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.runs.iter().map(|(len, _)| len).sum()
    }

    /// True without any row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs: `(rows, version)`.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().copied()
    }

    /// The version of the row at `index`.
    #[must_use]
    pub fn get(&self, mut index: u64) -> Option<u64> {
        for (len, version) in &self.runs {
            if index < *len {
                return Some(*version);
            }
            index -= len;
        }
        None
    }

    /// The versions of `len` rows from `offset` on, fewer where the sequence ends before.
    #[must_use]
    pub fn slice(&self, mut offset: u64, mut len: u64) -> Self {
        let mut sliced = Self::default();
        for &(rows, version) in &self.runs {
            let skipped = offset.min(rows);
            let taken = len.min(rows - skipped);
            offset -= skipped;
            len -= taken;
            sliced.push(taken, version);
        }
        sliced
    }

    /// The versions of the rows whose offsets are not among `deleted`.
    #[must_use]
    pub fn without(&self, deleted: &RoaringBitmap) -> Self {
        let mut kept = Self::default();
        let mut first = 0u64;
        for &(len, version) in &self.runs {
            let end = first.saturating_add(len);
            kept.push(len - deleted_between(deleted, first, end), version);
            first = end;
        }
        kept
    }

    /// Appends the versions of further rows.
    pub fn extend(&mut self, other: &Self) {
        for (len, version) in other.runs() {
            self.push(len, version);
        }
    }

    fn push(&mut self, len: u64, version: u64) {
        match self.runs.last_mut() {
            _ if len == 0 => {}
            Some((rows, last)) if *last == version => *rows = rows.saturating_add(len),
            _ => self.runs.push((len, version)),
        }
    }
}

/// How many offsets of `first..end` are deleted.
fn deleted_between(deleted: &RoaringBitmap, first: u64, end: u64) -> u64 {
    let Ok(first) = u32::try_from(first) else {
        return 0;
    };
    match u32::try_from(end) {
        Ok(end) => deleted.range_cardinality(first..end),
        Err(_) => deleted.range_cardinality(first..=u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row_ids::RowIdSequence;
    use proptest::prelude::*;

    #[test]
    fn a_masked_span_counts_by_its_length_only() {
        // What a compaction leaves: two of four rows, their local offsets as a bitmap.
        let span = RowIdSequence::from_values(&[1, 9]);
        let span = proto::RowIdSequence::decode(span.encode())
            .unwrap()
            .segments
            .remove(0);
        let runs = vec![proto::RowDatasetVersionRun {
            span: Some(span),
            version: 3,
        }];
        let bytes = proto::RowDatasetVersionSequence { runs }.encode_to_vec();
        let versions = RowVersions::decode(&bytes).unwrap();
        assert_eq!(versions, RowVersions::uniform(2, 3));
    }

    proptest! {
        #[test]
        fn every_operation_agrees_with_a_plain_list(
            runs in proptest::collection::vec((0u64..9, 1u64..4), 0..8),
            deleted in proptest::collection::btree_set(0u32..60, 0..40),
            offset in 0u64..70, len in 0u64..70,
        ) {
            let mut versions = RowVersions::default();
            let mut model = Vec::new();
            for (len, version) in runs {
                versions.extend(&RowVersions::uniform(len, version));
                model.extend((0..len).map(|_| version));
            }
            let all = |it: &RowVersions| (0..it.len()).filter_map(|i| it.get(i)).collect::<Vec<_>>();
            prop_assert_eq!(&all(&versions), &model);
            prop_assert_eq!(&RowVersions::decode(&versions.encode()).unwrap(), &versions);
            let end = model.len().min(usize::try_from(offset + len).unwrap());
            let start = end.min(usize::try_from(offset).unwrap());
            prop_assert_eq!(all(&versions.slice(offset, len)), &model[start..end]);
            let deleted: RoaringBitmap = deleted.into_iter().collect();
            let kept: Vec<u64> = (0u32..).zip(&model)
                .filter(|(row, _)| !deleted.contains(*row)).map(|(_, v)| *v).collect();
            prop_assert_eq!(all(&versions.without(&deleted)), kept);
        }
    }
}
