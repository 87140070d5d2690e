//! The runtime that reads and writes, and waiting for it with the GIL released, until Ctrl-C.
//!
//! Threads of the runtime never run Python code. So they never wait for the GIL, and neither a fork nor the end of the
//! interpreter finds one of them in Python code.

use std::future::Future;
use std::num::NonZero;
use std::pin::pin;
use std::time::Duration;

use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::errors::{Ended, Failure};
use crate::logging;
use crate::process::PerProcess;

/// How often a waiting call checks signals and reports progress.
pub(crate) const TICK: Duration = Duration::from_millis(50);

static RUNTIME: PerProcess<Runtime> = PerProcess::empty();

/// The runtime of this process.
fn runtime() -> Result<&'static Runtime, Failure> {
    RUNTIME.get_or_try_make(|| {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        tracing::debug!(target: "pilum::python", threads = cores, "start the threads that read and write");
        Builder::new_multi_thread()
            .worker_threads(cores)
            .thread_name("pilum")
            .enable_all()
            .build()
            .map_err(|error| {
                let message = format!("cannot start the threads that read and write: {error}");
                Failure::store(message, &error)
            })
    })
}

/// The runtime on which futures of this process run.
pub(crate) fn handle() -> Result<Handle, Failure> {
    Ok(runtime()?.handle().clone())
}

/// Waits for a future on the calling thread with the GIL released. The exception of a signal handler ends the wait and drops
/// the future.
pub(crate) fn block_on<F>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    block_on_ticking(py, future, |py| py.check_signals())
}

/// As [`block_on`], with `tick` called every [`TICK`] with the GIL held; its error ends the wait.
pub(crate) fn block_on_ticking<F>(
    py: Python<'_>,
    future: F,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()> + Send,
) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    logging::refresh(py);
    let runtime = runtime()?;
    let output = py.detach(|| {
        let mut future = pin!(future);
        loop {
            // The thread leaves the runtime between two polls, so that Python code may call the engine again.
            match runtime.block_on(async { tokio::time::timeout(TICK, future.as_mut()).await }) {
                Ok(output) => return Ok(output),
                Err(_) => attached(|py| {
                    logging::deliver(py);
                    tick(py)
                })?,
            }
        }
    });
    logging::deliver(py);
    output
}

/// Waits for a future from any thread, such as one of another library.
///
/// A thread with a state of Python may hold the GIL: it is released while waiting, and signals are checked. Any other thread
/// only waits: taking the GIL could deadlock with a thread that holds it and waits for this one.
pub(crate) fn block_on_anywhere<F>(future: F) -> Result<F::Output, Ended>
where
    F: Future + Send,
    F::Output: Send,
{
    if crate::ffi::is_python_thread() {
        Ok(attached(|py| block_on(py, future))?)
    } else {
        Ok(runtime()?.block_on(future))
    }
}

/// Runs with the GIL held, unless the interpreter is shutting down.
fn attached<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> PyResult<T> {
    Python::try_attach(work)
        .unwrap_or_else(|| Err(Failure::bug("the interpreter is shutting down").into()))
}
