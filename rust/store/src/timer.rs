//! [`Timer`]: how a pause between two attempts passes.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;

/// Lets pauses pass. A store carries one where its pauses must not take real time, as in tests that play schedules.
pub trait Timer: Send + Sync + fmt::Debug {
    /// Ends when `pause` is over.
    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()>;
}
