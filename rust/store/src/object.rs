//! Properties of objects, and the trait of a streamed write.

use std::fmt;
use std::fs::File;
use std::time::SystemTime;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::error::Result;

/// Properties of one object, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectStat {
    /// Size in bytes.
    pub size: u64,
    /// The time of the last write, by the clock of the store.
    pub modified: SystemTime,
    /// Changes when the object is replaced; `None` for stores without such a tag.
    pub e_tag: Option<String>,
}

/// One object in the listing of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Path relative to the root of the store.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// The time of the last write, by the clock of the store.
    pub modified: SystemTime,
}

impl Listed {
    /// The last component of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// Names of objects in a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Names {
    /// The names, without the folder, in no order.
    pub names: Vec<String>,
    /// Whether these are all names; otherwise they are the lexically first ones.
    pub are_all: bool,
}

/// What survives after a write was acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// The bytes and their name survive a power cut.
    #[default]
    Full,
    /// The bytes survive the end of this process, not a power cut: for scratch tables.
    None,
}

/// Which of the objects that had a name one after the other was read: [`Store::replace`](crate::Store::replace) compares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVersion {
    pub(crate) e_tag: Option<String>,
    pub(crate) generation: Option<String>,
}

/// A lock on this machine, held until it is dropped or its process ends.
#[derive(Debug)]
pub struct ObjectLock {
    pub(crate) _file: File,
}

/// A streamed write of one new object under a name that is used once.
///
/// Dropped without [`finish`](Self::finish), it leaves no object behind.
pub trait ObjectWriter: Send + fmt::Debug {
    /// The full address of the object, as it stands in errors.
    fn path(&self) -> &str;

    /// Bytes accepted so far.
    fn position(&self) -> u64;

    /// Appends `bytes`.
    ///
    /// # Errors
    /// When the store fails. After an error the writer can only be dropped.
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<()>>;

    /// Makes the object complete and durable, and returns its size in bytes.
    ///
    /// # Errors
    /// As [`Store::create`](crate::Store::create).
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<u64>>;
}
