//! [`ObservedRegister`]: a register whose requests are events of `tracing`.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::rows::{ManifestRegister, RegisterEntry};
use crate::error::Result;
use crate::event;

/// A register whose requests are told to `tracing`.
#[derive(Debug)]
pub(crate) struct ObservedRegister(pub(crate) Arc<dyn ManifestRegister>);

impl ManifestRegister for ObservedRegister {
    fn uri(&self) -> &str {
        self.0.uri()
    }

    fn newest(&self) -> BoxFuture<'_, Result<Option<RegisterEntry>>> {
        event::register("newest", self.uri(), None, self.0.newest()).boxed()
    }

    fn get(&self, version: u64) -> BoxFuture<'_, Result<Option<RegisterEntry>>> {
        event::register("get", self.uri(), Some(version), self.0.get(version)).boxed()
    }

    fn insert(&self, entry: RegisterEntry) -> BoxFuture<'_, Result<()>> {
        let version = entry.version;
        event::register("insert", self.uri(), Some(version), self.0.insert(entry)).boxed()
    }

    fn update(&self, entry: RegisterEntry) -> BoxFuture<'_, Result<()>> {
        let version = entry.version;
        event::register("update", self.uri(), Some(version), self.0.update(entry)).boxed()
    }

    fn blocks(&self) -> bool {
        self.0.blocks()
    }

    fn try_row<'a>(&'a self, word: &'a str) -> BoxFuture<'a, Result<()>> {
        event::register("try_row", self.uri(), None, self.0.try_row(word)).boxed()
    }

    fn forget_row<'a>(&'a self, word: &'a str) -> BoxFuture<'a, Result<()>> {
        event::register("forget_row", self.uri(), None, self.0.forget_row(word)).boxed()
    }
}
