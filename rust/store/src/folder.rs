//! [`Folder`]: what a place that keeps the objects of one table has to do, whatever keeps the bytes.
//!
//! A local disk, the memory of this process and an object store implement it. Tests implement it once more, around
//! another folder, to make its requests fail or arrive late (`testing::Script`).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use crate::error::{Error, Result};
use crate::object::{
    Durability, Listed, Names, ObjectLock, ObjectStat, ObjectVersion, ObjectWriter,
};
use crate::read_at::ReadAt;

/// What is called as soon as others see a new object.
pub(crate) type OnNamed<'a> = Box<dyn FnOnce() + Send + 'a>;

/// The root folder of one table. Paths are relative to it; an implementation checks them and refuses those that leave it.
///
/// Futures do nothing before they are polled. [`Store`](crate::Store) documents what each request promises.
pub(crate) trait Folder: Send + Sync + fmt::Debug {
    /// The root, absolute and without secrets.
    fn uri(&self) -> &str;

    /// True for folders of this machine's file systems.
    fn is_local(&self) -> bool {
        false
    }

    /// False for folders that can only be read.
    fn is_writable(&self) -> bool {
        true
    }

    /// Opens an object; `size` spares a request where the folder trusts it.
    fn open<'a>(
        &'a self,
        path: &'a str,
        size: Option<u64>,
    ) -> BoxFuture<'a, Result<Arc<dyn ReadAt>>>;

    /// The whole object, of at most `limit` bytes.
    fn read<'a>(&'a self, path: &'a str, limit: u64) -> BoxFuture<'a, Result<Bytes>>;

    /// Size and time of an object.
    fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<ObjectStat>>;

    /// The `count` lexically first objects directly in `prefix`.
    fn list<'a>(&'a self, prefix: &'a str, count: usize) -> BoxFuture<'a, Result<Vec<Listed>>>;

    /// The names of at least the `count` lexically first objects directly in `prefix`.
    fn list_names<'a>(&'a self, prefix: &'a str, count: usize) -> BoxFuture<'a, Result<Names>> {
        async move {
            let listed = self.list(prefix, count).await?;
            Ok(Names {
                are_all: listed.len() < count,
                names: listed.iter().map(|it| it.name().to_owned()).collect(),
            })
        }
        .boxed()
    }

    /// All objects at any depth under `prefix`, unfinished writes included.
    fn list_recursive<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Listed>>>;

    /// Creates an object if its name is free, and calls `on_named` once it has its name.
    fn create<'a>(
        &'a self,
        path: &'a str,
        bytes: Bytes,
        on_named: OnNamed<'a>,
    ) -> BoxFuture<'a, Result<()>>;

    /// Creates or replaces an object.
    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>>;

    /// The whole object, of at most `limit` bytes, and which object it is.
    fn read_version<'a>(
        &'a self,
        path: &'a str,
        limit: u64,
    ) -> BoxFuture<'a, Result<(Bytes, ObjectVersion)>>;

    /// Replaces an object if it is the expected one.
    fn replace<'a>(
        &'a self,
        path: &'a str,
        bytes: Bytes,
        expected: &'a ObjectVersion,
    ) -> BoxFuture<'a, Result<()>>;

    /// Takes a lock that is valid on this machine; `None` if another holder has it.
    fn try_lock(&self, path: &str) -> Result<Option<ObjectLock>> {
        Err(Error::unsupported(
            "a lock of an object that is on no file system of this machine",
            path,
        ))
    }

    /// The same folder, whose paths are not percent-decoded when they are checked.
    fn with_literal_paths(&self) -> Arc<dyn Folder>;

    /// Begins a new object.
    fn writer<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Box<dyn ObjectWriter>>>;

    /// Deletes an object.
    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Makes deletions in `prefix` durable.
    fn sync<'a>(&'a self, _prefix: &'a str) -> BoxFuture<'a, Result<()>> {
        ready(Ok(())).boxed()
    }

    /// The same folder with another promise about its writes; `None` where there is only one promise.
    fn with_durability(&self, _durability: Durability) -> Option<Arc<dyn Folder>> {
        None
    }

    /// The same folder beside a register, which decides the names in its place, shown as `uri`; `None` where nothing
    /// changes by that.
    fn beside_register(&self, _uri: Option<String>) -> Option<Arc<dyn Folder>> {
        None
    }

    /// Those of the folders `below` the root, the root and the folders above it that do not exist, the deepest first, on file
    /// systems of this machine.
    fn missing_folders(&self, _below: &[&str]) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Removes files of this machine at once, for callers that were interrupted and cannot wait.
    fn remove_files_now(&self, _paths: &[String]) {}

    /// Removes those of some folders of this machine that are empty.
    fn remove_empty_folders(&self, _folders: &[PathBuf]) {}
}
