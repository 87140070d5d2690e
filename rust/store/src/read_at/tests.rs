//! Coalescing of byte ranges into requests.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "one request is a list of requests"
)]

use proptest::prelude::*;

use super::*;

const SMALL: Coalesce = Coalesce {
    max_gap: 10,
    max_request: 100,
};

#[test]
fn near_ranges_become_one_request_and_far_ones_stay_apart() {
    assert_eq!(SMALL.plan(&[0..5, 15..20]), [0..20]);
    assert_eq!(SMALL.plan(&[0..5, 16..20]), [0..5, 16..20]);
    assert_eq!(SMALL.plan(&[16..20, 0..5, 5..16]), [0..20]);
}

#[test]
fn small_gaps_are_closed_first_while_there_is_credit() {
    let ranges = [0..5, 9..10, 12..13, 20..21];
    assert_eq!(SMALL.plan_within(&ranges, 0), (ranges.to_vec(), 0));
    assert_eq!(
        SMALL.plan_within(&ranges, 3),
        (vec![0..5, 9..13, 20..21], 2)
    );
    assert_eq!(SMALL.plan_within(&ranges, 6), (vec![0..13, 20..21], 6));
    assert_eq!(SMALL.plan_within(&ranges, 13), (vec![0..21], 13));
    assert_eq!(bytes_covered(&ranges), 8);
    assert_eq!(bytes_covered(&[3..9, 1..4, 20..20, 12..13]), 9);
    assert_eq!(bytes_covered(&[]), 0);
}

#[test]
fn empty_ranges_need_no_request() {
    assert_eq!(SMALL.plan(&[]), []);
    assert_eq!(SMALL.plan(&[7..7, 0..0]), []);
    assert_eq!(SMALL.plan(&[7..7, 50..60, 9..9]), [50..60]);
}

#[test]
fn a_request_does_not_grow_without_bound_by_neighbours_but_serves_what_it_covers() {
    assert_eq!(SMALL.plan(&[0..60, 60..100, 100..130]), [0..100, 100..130]);
    // One range larger than the bound is one request, and what lies inside it costs nothing.
    assert_eq!(SMALL.plan(&[0..500, 10..20, 499..500]), [0..500]);
}

#[test]
fn positions_at_the_end_of_the_number_line_do_not_overflow() {
    assert_eq!(
        SMALL.plan(&[0..1, u64::MAX - 1..u64::MAX]),
        [0..1, u64::MAX - 1..u64::MAX]
    );
}

#[test]
fn ranges_are_held_against_the_size() {
    let reversed = Range { start: 5, end: 4 };
    for bad in [
        0..11,
        11..11,
        11..12,
        5..u64::MAX,
        u64::MAX..u64::MAX,
        reversed,
    ] {
        let refused = check_ranges("x", 10, &[0..1, bad.clone()]);
        assert!(matches!(refused, Err(Error::OutOfRange { range, size: 10, .. }) if range == bad));
    }
    check_ranges("x", 10, &[0..10, 10..10, 0..0]).unwrap();
}

proptest! {
    #[test]
    fn cutting_the_answers_gives_what_slicing_the_whole_gives(
        pairs in prop::collection::vec((0u64..400, 0u64..400), 0..30),
        max_gap in 0u64..50,
        max_request in 1u64..300,
        credit in prop_oneof![Just(u64::MAX), 0u64..100],
    ) {
        let whole: Bytes = (0..400u32).map(|i| u8::try_from(i * 7 % 251).unwrap()).collect();
        let ranges: Vec<Range<u64>> = pairs.iter().map(|&(a, b)| a.min(b)..a.max(b)).collect();
        let (requests, extra) = Coalesce { max_gap, max_request }.plan_within(&ranges, credit);
        prop_assert!(extra <= credit);
        // What is fetched is what was asked for and the gaps, unless ranges that overlap were too long to be one.
        let fetched: u64 = requests.iter().map(|request| request.end - request.start).sum();
        prop_assert!(fetched >= bytes_covered(&ranges) + extra);
        if requests.windows(2).all(|pair| pair[0].end <= pair[1].start) {
            prop_assert_eq!(fetched, bytes_covered(&ranges) + extra);
        }
        let take = |r: &Range<u64>| slice_of("x", &whole, r).unwrap();
        let answers: Vec<Bytes> = requests.iter().map(take).collect();
        for range in &ranges {
            prop_assert_eq!(Coalesce::cut(range, &requests, &answers), Some(take(range)));
        }
        let longest = ranges.iter().map(|r| r.end - r.start).max().unwrap_or(0);
        for request in &requests {
            prop_assert!(request.end - request.start <= max_request.max(longest));
        }
        for pair in requests.windows(2) {
            prop_assert!(pair[0].start <= pair[1].start);
        }
    }
}
