//! What is known of an object besides its bytes, and how new ones are written.

use std::fmt;
use std::time::SystemTime;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::error::Result;

/// One object, asked for by name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectStat {
    /// Size in bytes.
    pub size: u64,
    /// When the store says it was written last.
    pub modified: SystemTime,
    /// Changes when the object is replaced, where the store has such a thing.
    pub e_tag: Option<String>,
}

/// One object, found by listing a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Path relative to the root of the store.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// When the store says it was written last.
    pub modified: SystemTime,
}

impl Listed {
    /// The last component of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// Names of objects in a folder, by the cheapest listing that has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Names {
    /// The names, without the folder, in no order.
    pub names: Vec<String>,
    /// These are all; otherwise only those that come first in order.
    pub are_all: bool,
}

/// What an acknowledged write promises.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// The bytes and their name survive a power cut.
    #[default]
    Full,
    /// The bytes survive the end of this process, not a power cut: for scratch tables.
    None,
}

/// Streaming creation of one new object under a name nobody else uses.
///
/// Dropped without [`finish`](Self::finish), it leaves no object behind.
pub trait ObjectWriter: Send + fmt::Debug {
    /// The full address for people, as it stands in errors.
    fn path(&self) -> &str;

    /// Bytes accepted so far.
    fn position(&self) -> u64;

    /// Append `bytes`. After an error the object can only be dropped.
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<()>>;

    /// Make the object complete and durable, and return its size.
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<u64>>;
}
