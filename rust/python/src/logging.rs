//! Turns each `tracing` event of the engine into a record of Python's `logging`, for a logger named `pilum` or below.
//!
//! The thread on which an event happens compares its level with [`THRESHOLD`] and appends it to a queue; it calls no Python.
//! The thread that called the engine holds the GIL before and after its call, and while it looks for signals. At these
//! moments it reads the current levels of `logging` and passes the events of the queue to it. So threads of the runtime never wait for the GIL,
//! the end of the interpreter finds no thread of the engine in Python code, and no lock is held while handlers run. A forked
//! child has a queue of its own.
//!
//! A program that never imports `logging` pays one look into `sys.modules` per call, and one load of an atomic number per event.

use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::process::PerProcess;

/// Events that wait for the GIL at most. Those beyond it are counted, and the count is reported.
const MAX_QUEUED: usize = 10_000;

/// No level is enabled.
const OFF: u8 = u8::MAX;

/// The lowest level that any logger below `pilum` had at the last call, in the numbers of `logging`.
static THRESHOLD: AtomicU8 = AtomicU8::new(OFF);

/// Whether the queue of some process was not empty.
static IS_PENDING: AtomicBool = AtomicBool::new(false);

static QUEUE: PerProcess<Mutex<Queue>> = PerProcess::empty();

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Recorded>,
    num_dropped: u64,
}

/// One event.
#[derive(Debug)]
struct Recorded {
    metadata: &'static Metadata<'static>,
    created: SystemTime,
    fields: Fields,
}

#[derive(Debug, Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

#[derive(Debug)]
enum Value {
    Text(String),
    Integer(i128),
    Float(f64),
    Flag(bool),
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // Writing to a text does not fail.
            let _ = write!(self.message, "{value:?}");
        } else {
            self.push(field, Value::Text(format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            self.push(field, Value::Text(value.to_owned()));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, Value::Integer(value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, Value::Integer(value.into()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, Value::Float(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, Value::Flag(value));
    }
}

impl Fields {
    fn push(&mut self, field: &Field, value: Value) {
        self.others.push((field.name(), value));
    }
}

/// The number of a level in `logging`. What is below DEBUG has no name there.
fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

/// The most verbose level that a threshold lets pass.
fn filter(threshold: u8) -> LevelFilter {
    match threshold {
        0..=5 => LevelFilter::TRACE,
        6..=10 => LevelFilter::DEBUG,
        11..=20 => LevelFilter::INFO,
        21..=30 => LevelFilter::WARN,
        31..=40 => LevelFilter::ERROR,
        _ => LevelFilter::OFF,
    }
}

/// The parts of the engine, which have a logger each below `pilum`.
const PARTS: [&str; 8] = [
    "encoding", "expr", "file", "format", "parquet", "python", "store", "table",
];

/// Whether an event is one of the engine. Other libraries have events too, which may contain what must not be shown.
fn is_own(target: &str) -> bool {
    target
        .strip_prefix("pilum")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with('_'))
}

/// The name of the logger for a target: `pilum.store.publish` for `pilum::store::publish`. Without a target of its own, an
/// event has the path of its module, of which the crate alone counts: `pilum.table` for `pilum_table::commit`.
fn logger_name(target: &str) -> String {
    match target.strip_prefix("pilum_") {
        Some(module) => format!("pilum.{}", module.split(':').next().unwrap_or_default()),
        None => target.replace("::", "."),
    }
}

/// What `tracing` tells of events.
struct Bridge;

impl Subscriber for Bridge {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Asked again whenever the threshold changes.
        if self.enabled(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Neither an event nor a question whether one is wanted (`enabled!`) is a span.
        !metadata.is_span()
            && number(*metadata.level()) >= THRESHOLD.load(Ordering::Relaxed)
            && is_own(metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(filter(THRESHOLD.load(Ordering::Relaxed)))
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // Spans are not enabled, so nothing asks which is which.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let recorded = Recorded {
            metadata: event.metadata(),
            created: SystemTime::now(),
            fields,
        };
        let mut queue = queue().lock().unwrap_or_else(PoisonError::into_inner);
        if queue.events.len() < MAX_QUEUED {
            queue.events.push_back(recorded);
        } else {
            queue.num_dropped += 1;
        }
        IS_PENDING.store(true, Ordering::Release);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The queue of this process.
fn queue() -> &'static Mutex<Queue> {
    match QUEUE.get_or_try_make(|| Ok::<_, Infallible>(Mutex::default())) {
        Ok(queue) => queue,
        Err(never) => match never {},
    }
}

/// Receives events from now on. Nothing is recorded before `logging` enables a level.
pub(crate) fn install() {
    // It fails if there is a subscriber already, which then has all events.
    let _ = tracing::subscriber::set_global_default(Bridge);
}

/// `logging`, with the loggers whose levels count.
struct Loggers {
    root: Py<PyAny>,
    manager: Py<PyAny>,
    own: Py<PyAny>,
    /// All loggers by name, of the whole program.
    by_name: Py<PyDict>,
    /// Those below `pilum`, and how many of any name there were when they were listed. Held for an instant, with the GIL.
    below: Mutex<(usize, Vec<Py<PyAny>>)>,
}

static LOGGERS: PyOnceLock<Loggers> = PyOnceLock::new();

/// The loggers; nothing while `logging` was not imported by anybody, for then nobody listens.
fn loggers(py: Python<'_>) -> PyResult<Option<&Loggers>> {
    if let Some(found) = LOGGERS.get(py) {
        return Ok(Some(found));
    }
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || {
        let modules = py.import("sys")?.getattr("modules")?;
        Ok::<_, PyErr>(modules.cast_into::<PyDict>()?.unbind())
    })?;
    let Some(logging) = modules.bind(py).get_item(intern!(py, "logging"))? else {
        return Ok(None);
    };
    // A module that is still being imported has no loggers yet.
    if !logging.hasattr("NullHandler")? || !logging.hasattr("root")? {
        return Ok(None);
    }
    LOGGERS
        .get_or_try_init(py, || {
            let own = logging.call_method1("getLogger", ("pilum",))?;
            // Without it, warnings of a program that configured nothing would go to standard error.
            own.call_method1("addHandler", (logging.call_method0("NullHandler")?,))?;
            for part in PARTS {
                logging.call_method1("getLogger", (format!("pilum.{part}"),))?;
            }
            let root = logging.getattr("root")?;
            let manager = root.getattr("manager")?;
            Ok(Loggers {
                by_name: manager
                    .getattr("loggerDict")?
                    .cast_into::<PyDict>()?
                    .unbind(),
                manager: manager.unbind(),
                root: root.unbind(),
                own: own.unbind(),
                below: Mutex::default(),
            })
        })
        .map(Some)
}

/// Reads which levels `logging` has enabled below `pilum`.
pub(crate) fn refresh(py: Python<'_>) {
    // A program may have changed `logging` in any way: a call of the engine never fails because of it.
    let lowest = lowest(py).unwrap_or(OFF);
    if THRESHOLD.swap(lowest, Ordering::AcqRel) != lowest {
        tracing::callsite::rebuild_interest_cache();
    }
}

fn lowest(py: Python<'_>) -> PyResult<u8> {
    let Some(loggers) = loggers(py)? else {
        return Ok(OFF);
    };
    let level = |logger: &Py<PyAny>| -> PyResult<i64> {
        logger.getattr(py, intern!(py, "level"))?.extract(py)
    };
    let own = match level(&loggers.own)? {
        0 => level(&loggers.root)?,
        set => set,
    };
    let mut lowest = own;
    // Never waited for: a fork may find it taken. Then the levels of the next call count.
    if let Ok(mut below) = loggers.below.try_lock() {
        let by_name = loggers.by_name.bind(py);
        if below.0 != by_name.len() {
            *below = (by_name.len(), loggers_below(by_name)?);
        }
        for logger in &below.1 {
            match level(logger)? {
                0 => {}
                set => lowest = lowest.min(set),
            }
        }
    }
    let disabled = loggers.manager.getattr(py, intern!(py, "disable"))?;
    let lowest = lowest.max(disabled.extract::<i64>(py)?.saturating_add(1));
    Ok(u8::try_from(lowest.max(0)).unwrap_or(OFF))
}

/// The loggers below `pilum`. A name may stand for a logger that nobody asked for yet, which has no level.
fn loggers_below(by_name: &Bound<'_, PyDict>) -> PyResult<Vec<Py<PyAny>>> {
    let mut below = Vec::new();
    for (name, logger) in by_name {
        let is_below = name.extract::<String>()?.starts_with("pilum.");
        if is_below && logger.hasattr(intern!(by_name.py(), "level"))? {
            below.push(logger.unbind());
        }
    }
    Ok(below)
}

thread_local! {
    /// Whether this thread is in a handler: a handler that calls the engine does not log about that from within.
    static IS_DELIVERING: Cell<bool> = const { Cell::new(false) };
}

/// Hands the events recorded so far to `logging`.
pub(crate) fn deliver(py: Python<'_>) {
    if !IS_PENDING.load(Ordering::Acquire) || IS_DELIVERING.get() {
        return;
    }
    IS_PENDING.store(false, Ordering::Release);
    let Queue {
        events,
        num_dropped,
    } = std::mem::take(&mut *queue().lock().unwrap_or_else(PoisonError::into_inner));
    IS_DELIVERING.set(true);
    for recorded in &events {
        told(py, hand_over(py, recorded));
    }
    if num_dropped > 0 {
        told(py, report_dropped(py, num_dropped));
    }
    IS_DELIVERING.set(false);
}

/// Handlers report their own failures. An exception that one raises nevertheless does not end a call that succeeded.
fn told(py: Python<'_>, outcome: PyResult<()>) {
    let Err(error) = outcome else { return };
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        // Raised again at the next chance, when this call has returned what it did.
        let again = py
            .import("_thread")
            .and_then(|thread| thread.call_method0("interrupt_main"));
        if again.is_ok() {
            return;
        }
    }
    error.write_unraisable(py, None);
}

fn hand_over(py: Python<'_>, recorded: &Recorded) -> PyResult<()> {
    let Recorded {
        metadata, created, ..
    } = recorded;
    let level = number(*metadata.level());
    let logging = py.import(intern!(py, "logging"))?;
    let name = logger_name(metadata.target());
    let logger = logging.call_method1(intern!(py, "getLogger"), (&name,))?;
    if !logger
        .call_method1(intern!(py, "isEnabledFor"), (level,))?
        .is_truthy()?
    {
        return Ok(());
    }
    let mut text = recorded.fields.message.clone();
    let fields = PyDict::new(py);
    for (name, value) in &recorded.fields.others {
        let separator = if text.is_empty() { "" } else { " " };
        // Writing to a text does not fail.
        let _ = match value {
            Value::Text(value) => {
                fields.set_item(name, value)?;
                write!(text, "{separator}{name}={value}")
            }
            Value::Integer(value) => {
                fields.set_item(name, value)?;
                write!(text, "{separator}{name}={value}")
            }
            Value::Float(value) => {
                fields.set_item(name, value)?;
                write!(text, "{separator}{name}={value}")
            }
            Value::Flag(value) => {
                fields.set_item(name, value)?;
                write!(text, "{separator}{name}={value}")
            }
        };
    }
    let extra = PyDict::new(py);
    extra.set_item("target", metadata.target())?;
    extra.set_item("fields", fields)?;
    let record = logger.call_method1(
        intern!(py, "makeRecord"),
        (
            name,
            level,
            metadata.file().unwrap_or("?"),
            metadata.line().unwrap_or(0),
            text,
            PyTuple::empty(py),
            py.None(),
            metadata.module_path(),
            extra,
        ),
    )?;
    let seconds = created
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64();
    record.setattr(intern!(py, "created"), seconds)?;
    record.setattr(intern!(py, "msecs"), (seconds.fract() * 1000.0).floor())?;
    logger.call_method1(intern!(py, "handle"), (record,))?;
    Ok(())
}

fn report_dropped(py: Python<'_>, num_dropped: u64) -> PyResult<()> {
    let Some(loggers) = loggers(py)? else {
        return Ok(());
    };
    let text = format!(
        "{num_dropped} events are not listed: more happened than {MAX_QUEUED} between two reports"
    );
    loggers
        .own
        .call_method1(py, intern!(py, "warning"), (text,))?;
    Ok(())
}
