//! Pauses that take no time, for tests that play schedules: the test decides which writer continues.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use crate::store::Store;
use crate::timer::Timer;

#[derive(Debug)]
struct NoPause;

impl Timer for NoPause {
    fn sleep(&self, _pause: Duration) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}

impl Store {
    /// The same store; pauses between attempts on it end at once.
    #[must_use]
    pub fn without_pauses(mut self) -> Self {
        self.timer = Some(Arc::new(NoPause));
        self
    }
}
