//! Stores in memory, shared by name within the process.

use std::sync::Barrier;

use pilum_store::Error;

use crate::{now, open};

#[test]
fn a_name_is_one_store_and_folders_of_it_are_apart() {
    let (a, b) = (open("memory://shared/x"), open("memory://shared/x/"));
    now(a.create("k", "1".into())).unwrap();
    assert_eq!(now(b.read("k", 9)).unwrap(), "1");
    assert_eq!(now(open("memory://shared").read("x/k", 9)).unwrap(), "1");
    assert!(!now(open("memory://shared/y").exists("k")).unwrap());
    assert!(!now(open("memory://other/x").exists("k")).unwrap());
    // A folder whose name begins like another one's is another one.
    assert!(
        now(open("memory://shared/x-2").list_recursive(""))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn sixteen_creators_have_one_winner() {
    for round in 0..50 {
        let barrier = Barrier::new(16);
        let path = format!("race/{round}");
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..16)
                .map(|racer| {
                    let (barrier, path) = (&barrier, path.as_str());
                    scope.spawn(move || {
                        let store = open("memory://race");
                        barrier.wait();
                        (racer, now(store.create(path, format!("{racer}").into())))
                    })
                })
                .collect();
            racers
                .into_iter()
                .map(|racer| racer.join().unwrap())
                .collect()
        });
        let winners: Vec<_> = outcomes
            .iter()
            .filter(|(_, outcome)| outcome.is_ok())
            .collect();
        assert_eq!(winners.len(), 1);
        let lost = |o: &Result<(), Error>| matches!(o, Err(Error::AlreadyExists { .. }));
        assert_eq!(
            outcomes.iter().filter(|(_, outcome)| lost(outcome)).count(),
            15
        );
        let kept = now(open("memory://race").read(&path, 99)).unwrap();
        assert_eq!(kept, winners[0].0.to_string());
    }
}

#[test]
fn reads_are_slices_of_what_was_written() {
    let store = open("memory://slices");
    now(store.create("k", "0123456789".into())).unwrap();
    let file = now(store.open_file("k", None)).unwrap();
    let whole = file.mapped().unwrap().as_ptr();
    let part = now(file.read_ranges(&[3..5])).unwrap();
    assert_eq!(part[0].as_ptr(), whole.wrapping_add(3));
}
