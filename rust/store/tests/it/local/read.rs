//! Reading local files, mapped and with system calls.

use std::fs;

use pilum_store::{Durability, Error, Store};
use proptest::prelude::*;

use crate::{folder, now, open, open_unmapped};

#[test]
fn an_open_file_keeps_its_bytes_when_it_is_replaced() {
    for open in [open, open_unmapped] {
        let (_keep, root) = folder();
        let store = open(&root);
        now(store.create("k", "old bytes".into())).unwrap();
        let file = now(store.open_file("k", None)).unwrap();
        now(store.put("k", "new".into())).unwrap();
        assert_eq!(now(file.read_ranges(&[4..9])).unwrap(), ["bytes"]);
        assert_eq!(file.size(), 9);
    }
}

#[test]
fn a_file_cut_short_while_open_is_an_error_with_system_calls() {
    let (_keep, root) = folder();
    let store = open_unmapped(&root);
    now(store.create("k", vec![1; 10_000].into())).unwrap();
    let file = now(store.open_file("k", None)).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(format!("{root}/k"))
        .unwrap()
        .set_len(100)
        .unwrap();
    assert!(matches!(
        now(file.read_ranges(&[0..10_000])),
        Err(Error::Io { .. })
    ));
    assert_eq!(now(file.read_ranges(&[0..100])).unwrap(), [vec![1; 100]]);
}

#[test]
fn a_mapped_file_cut_short_while_open_is_an_error_of_every_read() {
    let (_keep, root) = folder();
    let store = open(&root);
    now(store.create("k", vec![1; 10_000].into())).unwrap();
    let file = now(store.open_file("k", None)).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(format!("{root}/k"))
        .unwrap()
        .set_len(9_000)
        .unwrap();
    for refused in [
        now(file.read_ranges(&[0..10, 9_500..9_501])).err(),
        now(file.read_tail(10)).err(),
        file.prefetch(&[9_500..9_501]).err(),
        file.read_mapped(9_500..9_501).unwrap().err(),
    ] {
        let Some(Error::Io { path, source, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(path, format!("{root}/k"));
        assert!(source.to_string().contains("cut from 10000 to 9000 bytes"));
    }
}

#[test]
fn near_ranges_cost_one_request_on_every_local_path() {
    for (open, is_mapped) in [(open as fn(&str) -> Store, true), (open_unmapped, false)] {
        let (_keep, root) = folder();
        let store = open(&root);
        now(store.create("k", vec![1; 1 << 20].into())).unwrap();
        let file = now(store.open_file("k", None)).unwrap();
        let start = store.counters();
        now(file.read_ranges(&[0..10, 100..110, 50..60, 5..5])).unwrap();
        let near = store.counters().since(&start);
        assert_eq!((near.reads, near.bytes_read), (1, 110));
        now(file.read_ranges(&[0..10, 1_000_000..1_000_010])).unwrap();
        let far = store.counters().since(&start);
        assert_eq!((far.reads, far.bytes_read), (3, 130));
        now(file.read_ranges(&[7..7])).unwrap();
        assert_eq!(store.counters().since(&start).reads, 3);
        assert_eq!(file.mapped().is_some(), is_mapped);
    }
}

/// An index into a small file.
fn at(position: u64) -> usize {
    usize::try_from(position).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_ranges_of_any_file_are_the_bytes_written(
        bytes in prop::collection::vec(any::<u8>(), 0..100_000),
        cuts in prop::collection::vec((any::<u32>(), any::<u32>()), 0..20),
    ) {
        let (_keep, root) = folder();
        now(open(&root).with_durability(Durability::None).create("k", bytes.clone().into())).unwrap();
        let size = bytes.len() as u64;
        let ranges: Vec<_> = cuts
            .iter()
            .map(|&(a, b)| (u64::from(a) % (size + 1), u64::from(b) % (size + 1)))
            .map(|(a, b)| a.min(b)..a.max(b))
            .collect();
        for store in [open(&root), open_unmapped(&root)] {
            let file = now(store.open_file("k", None)).unwrap();
            let got = now(file.read_ranges(&ranges)).unwrap();
            prop_assert_eq!(got.len(), ranges.len());
            for (range, got) in ranges.iter().zip(got) {
                prop_assert_eq!(&got[..], &bytes[at(range.start)..at(range.end)]);
            }
        }
    }
}
