//! Events of reading: opening, planning, scanning and taking each say what they did.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use pilum_table::{Projection, ScanOptions};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::{block_on, create, memory, open, rows, runtime};

/// The messages and fields of events about reading.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "pilum::table::read"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn opening_planning_scanning_and_taking_are_events() {
    let store = memory();
    create(&store, &rows(0, 10), false);
    let recorder = Recorder::default();
    tracing::subscriber::with_default(recorder.clone(), || {
        let table = open(&store);
        let mut options = ScanOptions::default();
        options.threads = Some(1);
        let scan = table.snapshot().scan(options).unwrap();
        let batches = scan.batches(runtime().handle());
        block_on(batches.for_each(|batch| async move { drop(batch.unwrap()) }));
        block_on(table.snapshot().take(&[3, 4], Projection::All)).unwrap();
    });
    let events = recorder.0.lock().unwrap();
    let one = |message: &str| {
        let found: Vec<_> = events.iter().filter(|it| it.contains(message)).collect();
        assert_eq!(found.len(), 1, "{message}: {events:?}");
        assert!(found[0].contains("uri=\"memory://") || message.contains("fragment"));
        found[0].clone()
    };
    assert!(one("opened a version").contains("rows=10"));
    assert!(one("planned a scan").contains("columns=2"));
    assert!(one("ended a scan").contains("rows_scanned=10"));
    assert!(one("take rows").contains("rows=2"));
}
