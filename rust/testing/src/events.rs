//! Events of `tracing` that one call sends, as lines of text.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    /// The lines of the call that runs on this thread, while one is recorded.
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Adds each event to the lines of the thread that sends it.
struct Recorder;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Times differ from run to run.
        if field.name() != "elapsed_us" {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("pilum::")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        LINES.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                let metadata = event.metadata();
                let mut line = Line(format!("{} {}", metadata.level(), metadata.target()));
                event.record(&mut line);
                lines.push(line.0);
            }
        });
    }

    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The result of `call`, and the events of pilum's crates that this thread sent meanwhile: level, target, then fields
/// as `name=value`, without times.
///
/// There is one recorder for all threads of the process. `tracing` decides once whether anybody listens to a place
/// that sends events; with a subscriber for one thread only, a thread without one could be the first to pass there,
/// and then the events of that place are lost for all.
pub fn events_of<T>(call: impl FnOnce() -> T) -> (T, Vec<String>) {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| tracing::subscriber::set_global_default(Recorder).unwrap());
    LINES.set(Some(Vec::new()));
    let result = call();
    (result, LINES.take().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::events_of;

    /// Threads that record nothing pass the same place at the same time, some of them first.
    #[test]
    fn no_event_is_lost_to_threads_that_do_not_listen() {
        let send = |number: u64| tracing::info!(target: "pilum::testing", number, elapsed_us = 1);
        std::thread::scope(|scope| {
            for number in 0..16 {
                scope.spawn(move || match number % 2 {
                    0 => send(number),
                    _ => assert_eq!(
                        events_of(|| send(number)).1,
                        [format!("INFO pilum::testing number={number}")]
                    ),
                });
            }
        });
    }
}
