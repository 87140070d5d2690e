//! Events of reading: opening, planning, scanning and taking each say what they did.

use futures::StreamExt;
use pilum_table::{Projection, ScanOptions};
use pilum_testing::events_of;

use crate::support::{block_on, create, memory, open, rows, runtime};

#[test]
fn opening_planning_scanning_and_taking_are_events() {
    let store = memory();
    create(&store, &rows(0, 10), false);
    let ((), events) = events_of(|| {
        let table = open(&store);
        let mut options = ScanOptions::default();
        options.threads = Some(1);
        let scan = table.snapshot().scan(options).unwrap();
        let batches = scan.batches(runtime().handle());
        block_on(batches.for_each(|batch| async move { drop(batch.unwrap()) }));
        block_on(table.snapshot().take(&[3, 4], Projection::All)).unwrap();
    });
    let one = |message: &str| {
        let found: Vec<_> = events
            .iter()
            .filter(|it| it.contains(" pilum::table::read ") && it.contains(message))
            .collect();
        assert_eq!(found.len(), 1, "{message}: {events:?}");
        assert!(found[0].contains("uri=\"memory://") || message.contains("fragment"));
        found[0].clone()
    };
    assert!(one("opened a version").contains("rows=10"));
    assert!(one("planned a scan").contains("columns=2"));
    assert!(one("ended a scan").contains("rows_scanned=10"));
    assert!(one("take rows").contains("rows=2"));
}
