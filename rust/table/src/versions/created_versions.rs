//! The version that created each row, by stable row id. Rows that are rewritten keep it.

use std::ops::Range;

use pilum_format::{Fragment, RowIdSequence, RowVersions, Segment};

use crate::error::Result;

/// Rows without a record count as created, and last changed, by the first version.
pub(crate) const FIRST_VERSION: u64 = 1;

/// The versions that created the rows of some fragments; a few numbers where ids are contiguous.
#[derive(Debug, Default)]
pub(crate) struct CreatedVersions {
    /// Ids of rows that one version created, ascending; those of the first version are left out.
    spans: Vec<(Range<u64>, u64)>,
}

impl CreatedVersions {
    pub(crate) fn of(fragments: &[Fragment]) -> Result<Self> {
        let mut spans: Vec<(Range<u64>, u64)> = Vec::new();
        for fragment in fragments {
            let (Some(ids), Some(created)) = (fragment.row_ids()?, fragment.created_at()?) else {
                continue;
            };
            let mut first = 0_u64;
            for (len, version) in created.runs() {
                if version != FIRST_VERSION {
                    for segment in ids.slice(first, len).segments() {
                        add_ids(&mut spans, segment, version);
                    }
                }
                first = first.saturating_add(len);
            }
        }
        // A row that was rewritten before has its id in two fragments, with one version.
        spans.sort_by_key(|(ids, _)| ids.start);
        let mut end = 0;
        for (ids, _) in &mut spans {
            ids.start = ids.start.max(end);
            end = end.max(ids.end);
        }
        spans.retain(|(ids, _)| !ids.is_empty());
        Ok(Self { spans })
    }

    /// The versions that created the rows with these ids.
    pub(crate) fn versions(&self, ids: &RowIdSequence) -> RowVersions {
        if self.spans.is_empty() {
            return RowVersions::uniform(ids.len(), FIRST_VERSION);
        }
        let mut versions = RowVersions::default();
        let (mut len, mut version) = (0, FIRST_VERSION);
        let mut near = 0;
        for id in ids.iter() {
            let is_near = self
                .spans
                .get(near)
                .is_some_and(|(ids, _)| ids.contains(&id));
            if !is_near {
                near = self.spans.partition_point(|(ids, _)| ids.end <= id);
            }
            let found = self.spans.get(near).filter(|(ids, _)| ids.contains(&id));
            let found = found.map_or(FIRST_VERSION, |(_, version)| *version);
            if found != version {
                versions.extend(&RowVersions::uniform(len, version));
                (len, version) = (0, found);
            }
            len += 1;
        }
        versions.extend(&RowVersions::uniform(len, version));
        versions
    }
}

/// Adds the ids of a segment, those that follow each other together.
fn add_ids(spans: &mut Vec<(Range<u64>, u64)>, segment: &Segment, version: u64) {
    if let Segment::Range(ids) = segment {
        spans.push((ids.clone(), version));
        return;
    }
    for id in segment.iter() {
        match spans.last_mut() {
            Some((ids, of)) if ids.end == id && *of == version => ids.end = id.saturating_add(1),
            _ => spans.push((id..id.saturating_add(1), version)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// A fragment of rows with these ids, each created by the version that `of` says.
    fn fragment(ids: &[u64], of: impl Fn(u64) -> u64) -> Fragment {
        let mut created = RowVersions::default();
        for id in ids {
            created.extend(&RowVersions::uniform(1, of(*id)));
        }
        Fragment {
            physical_rows: ids.len() as u64,
            row_ids: Some(RowIdSequence::from_values(ids).encode()),
            created_at: Some(created.encode()),
            ..Fragment::default()
        }
    }

    proptest! {
        #[test]
        fn every_row_has_the_version_that_created_it(
            fragments in proptest::collection::vec(proptest::collection::vec(0_u64..60, 0..30), 0..4),
            versions in proptest::collection::vec(1_u64..4, 60),
            wanted in proptest::collection::vec(0_u64..80, 0..40),
        ) {
            let of = |id: u64| versions[usize::try_from(id).unwrap()];
            let known: HashMap<u64, u64> =
                fragments.iter().flatten().map(|id| (*id, of(*id))).collect();
            let fragments: Vec<Fragment> =
                fragments.iter().map(|ids| fragment(ids, of)).collect();
            let created = CreatedVersions::of(&fragments).unwrap();
            let found = created.versions(&RowIdSequence::from_values(&wanted));
            prop_assert_eq!(found.len(), wanted.len() as u64);
            for (row, id) in (0..).zip(&wanted) {
                let expected = known.get(id).copied().unwrap_or(FIRST_VERSION);
                prop_assert_eq!(found.get(row), Some(expected), "id {}", id);
            }
        }
    }
}
