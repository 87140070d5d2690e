//! Row id sequences keep their ids, in every encoding, through encoding, slicing and deletion.

use proptest::prelude::*;

use super::array::IdArray;
use super::*;

fn forms(sequence: &RowIdSequence) -> Vec<&'static str> {
    let name = |segment: &Segment| match segment {
        Segment::Range(_) => "range",
        Segment::Holes { .. } => "holes",
        Segment::Bitmap { .. } => "bitmap",
        Segment::Sorted(_) => "sorted",
        Segment::Array(_) => "array",
    };
    sequence.segments.iter().map(name).collect()
}

fn values(sequence: &RowIdSequence) -> Vec<u64> {
    sequence.iter().collect()
}

#[test]
fn the_worked_bytes_of_a_bitmap_segment() {
    let bytes = [0x0a, 0x07, 0x1a, 0x05, 0x10, 0x06, 0x1a, 0x01, 0x39];
    let sequence = RowIdSequence::decode(&bytes).unwrap();
    assert_eq!(values(&sequence), [0, 3, 4, 5]);
    assert_eq!(sequence.encode(), &bytes[..]);
    let masked = RowIdSequence::from_range(0..6).without(&[1, 2].into_iter().collect());
    assert_eq!(masked.encode(), &bytes[..]);
}

#[test]
fn the_form_is_the_cheapest() {
    assert_eq!(forms(&RowIdSequence::from_values(&[5, 6, 7])), ["range"]);
    assert_eq!(forms(&RowIdSequence::from_values(&[5, 7, 6])), ["array"]);
    assert_eq!(forms(&RowIdSequence::from_values(&[5, 5])), ["array"]);
    // 1 hole = 28 against 25 bytes of bitmap.
    assert_eq!(forms(&RowIdSequence::from_values(&[0, 2, 3])), ["bitmap"]);
    let one_hole: Vec<u64> = (0..100).filter(|id| *id != 50).collect();
    assert_eq!(forms(&RowIdSequence::from_values(&one_hole)), ["holes"]);
    assert_eq!(forms(&RowIdSequence::from_values(&[0, 1000])), ["sorted"]);
    // 4 * 1 == ceil(32 / 8): the tie goes to holes.
    let tie: Vec<u64> = (0..32).filter(|id| *id != 9).collect();
    assert_eq!(forms(&RowIdSequence::from_values(&tie)), ["holes"]);
    // 16 slots cost 2, one value costs 2 each: bitmap before sorted.
    assert_eq!(forms(&RowIdSequence::from_values(&[0, 31])), ["bitmap"]);
    assert!(RowIdSequence::from_values(&[]).is_empty());
}

#[test]
fn the_width_is_the_narrowest() {
    let array = |values: &[u64]| {
        let sequence = RowIdSequence::from_values(values);
        match &sequence.segments[0] {
            Segment::Array(array) => array.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(array(&[65_536, 1]), IdArray::U16 { base: 1, .. }));
    assert!(matches!(array(&[65_537, 1]), IdArray::U32 { base: 1, .. }));
    assert!(matches!(
        array(&[(1 << 32) + 7, 8]),
        IdArray::U32 { base: 8, .. }
    ));
    assert!(matches!(array(&[(1 << 32) + 8, 8]), IdArray::U64(_)));
    assert!(matches!(array(&[u64::MAX, 0]), IdArray::U64(_)));
}

#[test]
fn the_last_id_of_all_survives() {
    let ids = [u64::MAX - 1, u64::MAX];
    let sequence = RowIdSequence::from_values(&ids);
    assert_eq!(
        values(&RowIdSequence::decode(&sequence.encode()).unwrap()),
        ids
    );
}

#[test]
fn an_enormous_range_costs_nothing() {
    let sequence = RowIdSequence::from_range(0..1 << 63);
    let read = RowIdSequence::decode(&sequence.encode()).unwrap();
    assert_eq!(read.len(), 1 << 63);
    assert_eq!(read.get((1 << 63) - 1), Some((1 << 63) - 1));
    assert_eq!(values(&read.slice(1 << 62, 2)), [1 << 62, (1 << 62) + 1]);
    assert_eq!(read.get(1 << 63), None);
}

#[test]
fn touching_ranges_merge_and_others_do_not() {
    let mut sequence = RowIdSequence::from_range(0..3);
    sequence.extend(&RowIdSequence::from_range(3..5));
    assert_eq!(sequence.as_range(), Some(0..5));
    sequence.extend(&RowIdSequence::from_range(6..7));
    assert_eq!(forms(&sequence), ["range", "range"]);
    assert_eq!(values(&sequence.cut(&[4, 2])[1]), [4, 6]);
}

#[test]
fn damage_is_named() {
    let encode = |segment| {
        let segments = vec![proto::U64Segment {
            segment: Some(segment),
        }];
        proto::RowIdSequence { segments }.encode_to_vec()
    };
    use crate::proto::table::u64_segment as s;
    let backwards = encode(s::Segment::Range(s::Range { start: 5, end: 4 }));
    let short = encode(s::Segment::RangeWithBitmap(s::RangeWithBitmap {
        start: 0,
        end: 1 << 63,
        bitmap: vec![1].into(),
    }));
    let outside = encode(s::Segment::RangeWithHoles(s::RangeWithHoles {
        start: 4,
        end: 8,
        holes: Some(IdArray::U64(vec![8]).encode()),
    }));
    let overflow = encode(s::Segment::Array(
        IdArray::U16 {
            base: u64::MAX,
            offsets: vec![1],
        }
        .encode(),
    ));
    for bytes in [backwards, short, outside, overflow, vec![0x0a, 0xff]] {
        let error = RowIdSequence::decode(&bytes).unwrap_err();
        assert_eq!(error.kind(), "corrupt", "{error}");
    }
}

fn ids() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        proptest::collection::vec(any::<u64>(), 0..40),
        proptest::collection::vec(0u64..80, 0..60),
        (
            any::<u32>(),
            proptest::collection::btree_set(0u64..300, 0..200)
        )
            .prop_map(|(base, ids)| ids.into_iter().map(|id| id + u64::from(base)).collect()),
        (0u64..1 << 40, 0u64..400).prop_map(|(start, len)| (start..start + len).collect()),
    ]
}

proptest! {
    #[test]
    fn every_operation_agrees_with_a_plain_list(
        parts in proptest::collection::vec(ids(), 1..4),
        deleted in proptest::collection::btree_set(0u32..300, 0..100),
        offset in 0u64..300, len in 0u64..300,
    ) {
        let mut sequence = RowIdSequence::default();
        for part in &parts {
            sequence.extend(&RowIdSequence::from_values(part));
        }
        let model: Vec<u64> = parts.concat();
        prop_assert_eq!(sequence.len(), model.len() as u64);
        prop_assert_eq!(&values(&sequence), &model);
        let read = RowIdSequence::decode(&sequence.encode()).unwrap();
        prop_assert_eq!(&read, &sequence);
        for (index, id) in model.iter().enumerate() {
            prop_assert_eq!(sequence.get(index as u64), Some(*id));
        }
        let end = model.len().min(usize::try_from(offset + len).unwrap());
        let start = end.min(usize::try_from(offset).unwrap());
        let sliced = sequence.slice(offset, len);
        prop_assert_eq!(values(&sliced), &model[start..end]);
        prop_assert_eq!(sliced.len(), (end - start) as u64);
        let deleted: RoaringBitmap = deleted.into_iter().collect();
        let kept: Vec<u64> = (0u32..).zip(&model)
            .filter(|(row, _)| !deleted.contains(*row)).map(|(_, id)| *id).collect();
        let masked = sequence.without(&deleted);
        prop_assert_eq!(masked.len(), kept.len() as u64);
        prop_assert_eq!(values(&masked), kept);
    }

    #[test]
    fn any_bytes_end_in_a_sequence_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(sequence) = RowIdSequence::decode(&bytes) {
            let walked = sequence.iter().take(1000).count() as u64;
            prop_assert_eq!(walked, sequence.len().min(1000));
            let _ = sequence.get(sequence.len() / 2);
        }
    }
}

#[test]
fn a_lookup_of_an_enormous_range_with_a_hole_takes_the_memory_of_what_it_gives() {
    let holes = IdArray::U64(vec![5, 1 << 31]);
    let range = 0..(1 << 32) + 2;
    let mut sequence = RowIdSequence::default();
    sequence.push(Segment::Holes { range, holes });
    let runs: Vec<_> = sequence.segments.iter().flat_map(Segment::runs).collect();
    let last = ((1 << 31) + 1, (1 << 31) + 1);
    assert_eq!(runs, [(0, 5), (6, (1 << 31) - 6), last]);
    let lookup = RowIdLookup::from(sequence);
    let mut ids = Vec::new();
    lookup.extend_ids(&(3..7), &mut ids);
    lookup.extend_ids(&((1 << 32) - 2..1 << 33), &mut ids);
    assert_eq!(ids, [3, 4, 6, 7, 1 << 32, (1 << 32) + 1]);
}

proptest! {
    #[test]
    fn a_lookup_and_the_runs_agree_with_the_ids(
        parts in proptest::collection::vec(
            (
                any::<bool>(),
                prop_oneof![Just(0_u64), Just(u64::MAX - 40_000), 0..1_u64 << 40],
                proptest::collection::btree_set(
                    prop_oneof![0_u64..40, 0_u64..2_000, 0_u64..40_000],
                    0..300,
                ),
            ),
            0..4,
        ),
        asked in proptest::collection::vec((0_u64..1_300, 0_u64..1_300), 1..6),
    ) {
        let mut sequence = RowIdSequence::default();
        for (is_shuffled, base, offsets) in parts {
            let mut ids: Vec<u64> = offsets.into_iter().map(|offset| base + offset).collect();
            if is_shuffled {
                ids.reverse();
            }
            sequence.extend(&RowIdSequence::from_values(&ids));
        }
        // Bitmaps longer than a block of the rank directory.
        let sparse: Vec<u64> = (0..3_000).map(|id| (1 << 50) + 5 * id + id % 3).collect();
        sequence.extend(&RowIdSequence::from_values(&sparse));
        let all: Vec<u64> = sequence.iter().collect();
        let runs = sequence.segments().iter().flat_map(Segment::runs);
        let expanded: Vec<u64> =
            runs.flat_map(|(first, len)| (0..len).map(move |offset| first + offset)).collect();
        prop_assert_eq!(&expanded, &all);
        let lookup = RowIdLookup::from(sequence);
        prop_assert_eq!(lookup.len(), all.len() as u64);
        for (start, len) in asked {
            let mut ids = Vec::new();
            lookup.extend_ids(&(start..start + len), &mut ids);
            let row = |row: u64| usize::try_from(row).unwrap().min(all.len());
            let rows = row(start)..row(start + len);
            prop_assert_eq!(&ids, &all[rows]);
        }
    }
}
