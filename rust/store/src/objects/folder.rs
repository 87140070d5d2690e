//! [`ObjectFolder`]: the root folder of a table in an object store.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::PutMode;
#[cfg(feature = "cloud")]
use object_store::path::Path as Key;

use super::bucket::{Bucket, Source};
use super::gather::GatheredObject;
#[cfg(feature = "cloud")]
use super::parts::StreamedObject;
use super::read::MemoryFile;
#[cfg(feature = "cloud")]
use super::read::RemoteFile;
use crate::counters::Tally;
use crate::error::Result;
use crate::folder::{Folder, OnNamed};
use crate::location::CloudScheme;
use crate::object::{Listed, ObjectStat, ObjectVersion, ObjectWriter};
use crate::options::StorageOptions;
use crate::path::PathRule;
use crate::read_at::ReadAt;

/// The root folder of a table in an object store.
#[derive(Debug, Clone)]
pub(crate) struct ObjectFolder(Bucket);

impl ObjectFolder {
    /// The folder `prefix` of the store in memory called `authority`.
    pub(crate) fn memory(authority: &str, prefix: String, tally: Arc<Tally>) -> Result<Self> {
        Bucket::memory(authority, prefix, tally).map(Self)
    }

    /// The folder at `url`.
    pub(crate) fn cloud(
        scheme: CloudScheme,
        url: String,
        options: &StorageOptions,
        tally: Arc<Tally>,
    ) -> Result<Self> {
        Bucket::cloud(scheme, url, options, tally).map(Self)
    }

    async fn open_object(
        &self,
        path: &str,
        #[cfg_attr(
            not(feature = "cloud"),
            expect(unused_variables, reason = "spares a remote request")
        )]
        size: Option<u64>,
    ) -> Result<Arc<dyn ReadAt>> {
        let (key, shown) = self.0.key(path)?;
        match &self.0.source {
            // The true size costs nothing here, so that of the caller is not used.
            Source::Memory(_) => {
                let bytes = self.0.fetch_whole(&key, &shown, u64::MAX).await?;
                Ok(Arc::new(MemoryFile::new(
                    shown,
                    bytes,
                    Arc::clone(&self.0.tally),
                )))
            }
            #[cfg(feature = "cloud")]
            Source::Cloud(_) => self.open_remote(key, shown, size).await,
        }
    }

    /// Opens a remote object: no request if its size is given, otherwise one for its size and tail where the store can do so.
    #[cfg(feature = "cloud")]
    async fn open_remote(
        &self,
        key: Key,
        shown: String,
        size: Option<u64>,
    ) -> Result<Arc<dyn ReadAt>> {
        let (size, tail) = match size {
            Some(size) => (size, Bytes::new()),
            None => self.0.size_and_tail(&key, &shown).await?,
        };
        Ok(Arc::new(RemoteFile::new(
            self.0.clone(),
            key,
            shown,
            size,
            tail,
        )))
    }

    async fn begin(&self, path: &str) -> Result<Box<dyn ObjectWriter>> {
        let (key, shown) = self.0.writable_key(path)?;
        match &self.0.source {
            Source::Memory(_) => Ok(Box::new(GatheredObject::new(self.0.clone(), key, shown))),
            #[cfg(feature = "cloud")]
            Source::Cloud(_) => Ok(Box::new(StreamedObject::new(self.0.clone(), key, shown))),
        }
    }
}

impl Folder for ObjectFolder {
    fn uri(&self) -> &str {
        &self.0.uri
    }

    fn is_writable(&self) -> bool {
        self.0.is_writable
    }

    fn open<'a>(
        &'a self,
        path: &'a str,
        size: Option<u64>,
    ) -> BoxFuture<'a, Result<Arc<dyn ReadAt>>> {
        self.open_object(path, size).boxed()
    }

    fn read<'a>(&'a self, path: &'a str, limit: u64) -> BoxFuture<'a, Result<Bytes>> {
        self.0.read_whole(path, limit).boxed()
    }

    fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<ObjectStat>> {
        self.0.stat_object(path).boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, count: usize) -> BoxFuture<'a, Result<Vec<Listed>>> {
        self.0.list_first(prefix, count).boxed()
    }

    fn list_recursive<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Listed>>> {
        self.0.list_below(prefix).boxed()
    }

    fn create<'a>(
        &'a self,
        path: &'a str,
        bytes: Bytes,
        on_named: OnNamed<'a>,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            self.0.create_object(path, bytes).await?;
            on_named();
            Ok(())
        }
        .boxed()
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        self.0.put_object(path, bytes).boxed()
    }

    fn read_version<'a>(
        &'a self,
        path: &'a str,
        limit: u64,
    ) -> BoxFuture<'a, Result<(Bytes, ObjectVersion)>> {
        self.0.read_with_version(path, limit).boxed()
    }

    fn replace<'a>(
        &'a self,
        path: &'a str,
        bytes: Bytes,
        expected: &'a ObjectVersion,
    ) -> BoxFuture<'a, Result<()>> {
        self.0.replace_object(path, bytes, expected).boxed()
    }

    fn with_literal_paths(&self) -> Arc<dyn Folder> {
        Arc::new(Self(Bucket {
            rule: PathRule::Literal,
            ..self.0.clone()
        }))
    }

    fn writer<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Box<dyn ObjectWriter>>> {
        self.begin(path).boxed()
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        self.0.delete_object(path).boxed()
    }

    /// The store need not know conditional puts then: names are decided in the register.
    fn beside_register(&self, uri: Option<String>) -> Option<Arc<dyn Folder>> {
        Some(Arc::new(Self(Bucket {
            unique: PutMode::Overwrite,
            uri: uri.unwrap_or_else(|| self.0.uri.clone()),
            ..self.0.clone()
        })))
    }
}
