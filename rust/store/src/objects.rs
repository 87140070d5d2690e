//! Tables in object stores, and in memory: the same code over the `object_store` crate, which knows the
//! dialects. Conditional puts make create-if-absent; nothing here renames or copies.

#[cfg(feature = "cloud")]
mod cloud;
#[cfg(feature = "cloud")]
mod connect;
mod gather;
mod memory;
#[cfg(feature = "cloud")]
mod once;
#[cfg(feature = "cloud")]
mod parts;
#[cfg(feature = "cloud")]
mod proof;
mod read;

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path as Key;
use object_store::{
    GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};

use crate::counters::Tally;
use crate::error::{Error, Result, chain};
use crate::failpoint::hit;
use crate::location::CloudScheme;
use crate::object::{Listed, ObjectStat, ObjectWriter};
use crate::options::StorageOptions;
use crate::path::{resolve, resolve_folder};
use crate::read_at::ReadAt;

#[cfg(feature = "cloud")]
pub(crate) use cloud::Clients;
#[cfg(feature = "cloud")]
pub(crate) use connect::{BoundConnector, refusal};
#[cfg(feature = "cloud")]
pub(crate) use once::OncePerProcess;

/// What the first request for an object of unknown size brings along: footers live at the end.
#[cfg(feature = "cloud")]
const TAIL_BYTES: u64 = 64 << 10;

/// The root folder of a table in an object store.
#[derive(Debug, Clone)]
pub(crate) struct ObjectFolder {
    source: Source,
    /// The folder inside the bucket; empty at its top.
    prefix: String,
    /// The root for people.
    uri: String,
    options: StorageOptions,
    tally: Arc<Tally>,
    is_writable: bool,
    lists_in_order: bool,
    /// What new objects under names nobody else uses are written with.
    unique: PutMode,
}

/// Where the client comes from.
#[derive(Debug, Clone)]
enum Source {
    Memory(Arc<object_store::memory::InMemory>),
    #[cfg(feature = "cloud")]
    Cloud(Arc<Clients>),
}

impl ObjectFolder {
    pub(crate) fn memory(authority: &str, prefix: String, tally: Arc<Tally>) -> Result<Self> {
        let uri = format!("memory://{authority}/{prefix}");
        Ok(Self {
            source: Source::Memory(memory::named(authority)?),
            prefix,
            uri: uri.trim_end_matches('/').to_owned(),
            options: StorageOptions::new(),
            tally,
            is_writable: true,
            lists_in_order: true,
            unique: PutMode::Create,
        })
    }

    #[cfg(feature = "cloud")]
    pub(crate) fn cloud(
        scheme: CloudScheme,
        url: String,
        options: &StorageOptions,
        tally: Arc<Tally>,
    ) -> Result<Self> {
        let (clients, prefix) = Clients::new(scheme, &url, options)?;
        // Directory buckets list in an order of their own.
        let bucket = url.split('/').nth(2).unwrap_or_default();
        Ok(Self {
            source: Source::Cloud(Arc::new(clients)),
            prefix,
            options: options.clone(),
            tally,
            is_writable: scheme != CloudScheme::Http,
            lists_in_order: scheme != CloudScheme::Http && !bucket.ends_with("--x-s3"),
            unique: PutMode::Create,
            uri: url,
        })
    }

    #[cfg(not(feature = "cloud"))]
    pub(crate) fn cloud(
        _scheme: CloudScheme,
        url: String,
        _options: &StorageOptions,
        _tally: Arc<Tally>,
    ) -> Result<Self> {
        Err(Error::unsupported(
            "remote storage, which needs the build feature `cloud`,",
            url,
        ))
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// The same folder in a store that need not know conditional puts, because names are decided elsewhere;
    /// shown to people as `uri`.
    pub(crate) fn registered(mut self, uri: Option<String>) -> Self {
        self.unique = PutMode::Overwrite;
        self.uri = uri.unwrap_or(self.uri);
        self
    }

    /// False where nothing can be written at all.
    pub(crate) fn is_writable(&self) -> bool {
        self.is_writable
    }

    fn client(&self) -> Result<Arc<dyn ObjectStore>> {
        match &self.source {
            Source::Memory(memory) => Ok(Arc::clone(memory) as Arc<dyn ObjectStore>),
            #[cfg(feature = "cloud")]
            Source::Cloud(clients) => clients.of_this_process(),
        }
    }

    /// The key of an object and its address for people.
    fn key(&self, path: &str) -> Result<(Key, String)> {
        self.key_of(resolve(path)?.as_str())
    }

    /// The key of a folder; none for the whole store.
    fn folder_key(&self, prefix: &str) -> Result<(Option<Key>, String)> {
        let folder = resolve_folder(prefix)?;
        let (key, shown) = self.key_of(folder.as_str())?;
        Ok(((!key.as_ref().is_empty()).then_some(key), shown))
    }

    fn key_of(&self, relative: &str) -> Result<(Key, String)> {
        let shown = match relative {
            "" => self.uri.clone(),
            _ => format!("{}/{relative}", self.uri),
        };
        let full = match (self.prefix.as_str(), relative) {
            ("", _) => relative.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, _) => format!("{prefix}/{relative}"),
        };
        let key = Key::parse(full).map_err(|error| {
            Error::invalid(shown.clone(), format!("not an object key: {error}"))
        })?;
        Ok((key, shown))
    }

    /// The path relative to the root of a key the store listed.
    fn relative(&self, key: &Key) -> Option<String> {
        let key = key.as_ref();
        if self.prefix.is_empty() {
            return Some(key.to_owned());
        }
        key.strip_prefix(&self.prefix)?
            .strip_prefix('/')
            .map(str::to_owned)
    }

    pub(crate) async fn open(
        &self,
        path: &str,
        #[cfg_attr(
            not(feature = "cloud"),
            expect(unused_variables, reason = "spares a remote request")
        )]
        size: Option<u64>,
    ) -> Result<Arc<dyn ReadAt>> {
        let (key, shown) = self.key(path)?;
        match &self.source {
            // Memory knows its size better than any caller.
            Source::Memory(_) => {
                let bytes = self.fetch_whole(&key, &shown, u64::MAX).await?;
                Ok(Arc::new(read::MemoryFile::new(
                    shown,
                    bytes,
                    Arc::clone(&self.tally),
                )))
            }
            #[cfg(feature = "cloud")]
            Source::Cloud(_) => self.open_remote(key, shown, size).await,
        }
    }

    /// One request for size and tail where the store can do that.
    #[cfg(feature = "cloud")]
    async fn open_remote(
        &self,
        key: Key,
        shown: String,
        size: Option<u64>,
    ) -> Result<Arc<dyn ReadAt>> {
        let (size, tail) = match size {
            Some(size) => (size, Bytes::new()),
            None => self.size_and_tail(&key, &shown).await?,
        };
        Ok(Arc::new(read::RemoteFile::new(
            self.clone(),
            key,
            shown,
            size,
            tail,
        )))
    }

    #[cfg(feature = "cloud")]
    async fn size_and_tail(&self, key: &Key, shown: &str) -> Result<(u64, Bytes)> {
        let client = self.client()?;
        let options = GetOptions {
            range: Some(object_store::GetRange::Suffix(TAIL_BYTES)),
            ..GetOptions::default()
        };
        match client.get_opts(key, options).await {
            Ok(answer) => {
                let size = answer.meta.size;
                let tail = answer
                    .bytes()
                    .await
                    .map_err(|e| self.failed(shown, "read the object", e))?;
                self.tally.read(tail.len() as u64);
                Ok((size, tail))
            }
            Err(error @ object_store::Error::NotFound { .. }) => {
                Err(self.failed(shown, "read the object", error))
            }
            // Azure knows no ranges from the end, and nobody the tail of an empty object.
            Err(_) => {
                self.tally.stat();
                let found = client.head(key).await;
                let meta = found.map_err(|e| self.failed(shown, "read the object's size", e))?;
                Ok((meta.size, Bytes::new()))
            }
        }
    }

    pub(crate) async fn read(&self, path: &str, limit: u64) -> Result<Bytes> {
        let (key, shown) = self.key(path)?;
        let bytes = self.fetch_whole(&key, &shown, limit).await?;
        self.tally.read(bytes.len() as u64);
        Ok(bytes)
    }

    async fn fetch_whole(&self, key: &Key, shown: &str, limit: u64) -> Result<Bytes> {
        let failed = |error| self.failed(shown, "read the object", error);
        let answer = self
            .client()?
            .get_opts(key, GetOptions::default())
            .await
            .map_err(failed)?;
        // The size comes with the first bytes: nothing else was transferred yet.
        let size = answer.meta.size;
        if size > limit {
            return Err(Error::Limit {
                path: shown.to_owned(),
                size,
                limit,
            });
        }
        answer.bytes().await.map_err(failed)
    }

    /// One request, exactly `range`.
    #[cfg(feature = "cloud")]
    async fn fetch(&self, key: &Key, shown: &str, range: std::ops::Range<u64>) -> Result<Bytes> {
        let byte_len = range.end.saturating_sub(range.start);
        self.tally.read(byte_len);
        let failed = |error| self.failed(shown, "read the object", error);
        let bytes = self.client()?.get_range(key, range).await.map_err(failed)?;
        if bytes.len() as u64 != byte_len {
            return Err(Error::Io {
                path: shown.to_owned(),
                operation: "read the object",
                source: io::ErrorKind::UnexpectedEof.into(),
            });
        }
        Ok(bytes)
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<ObjectStat> {
        let (key, shown) = self.key(path)?;
        self.tally.stat();
        let found = self.client()?.head(&key).await;
        let meta = found.map_err(|e| self.failed(&shown, "read the object's size", e))?;
        Ok(ObjectStat {
            size: meta.size,
            modified: SystemTime::from(meta.last_modified),
            e_tag: meta.e_tag,
        })
    }

    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        let (key, shown) = self.folder_key(prefix)?;
        self.tally.list();
        let answer = self.client()?.list_with_delimiter(key.as_ref()).await;
        let found = answer
            .map_err(|e| self.failed(&shown, "list the folder", e))?
            .objects;
        let mut listed: Vec<Listed> = found.iter().filter_map(|meta| self.listed(meta)).collect();
        listed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(listed)
    }

    /// Stops reading the listing as soon as `count` names are there, where names come in order.
    pub(crate) async fn list_first(&self, prefix: &str, count: usize) -> Result<Vec<Listed>> {
        if !self.lists_in_order {
            let mut listed = self.list(prefix).await?;
            listed.truncate(count);
            return Ok(listed);
        }
        let (key, shown) = self.folder_key(prefix)?;
        self.tally.list();
        let depth = key.as_ref().map_or(0, |key| key.parts().count()) + 1;
        let found: Vec<ObjectMeta> = self
            .client()?
            .list(key.as_ref())
            .try_filter(|meta| std::future::ready(meta.location.parts().count() == depth))
            .take(count)
            .try_collect()
            .await
            .map_err(|e| self.failed(&shown, "list the folder", e))?;
        Ok(found
            .into_iter()
            .filter_map(|meta| self.listed(&meta))
            .collect())
    }

    pub(crate) async fn list_recursive(&self, prefix: &str) -> Result<Vec<Listed>> {
        let (key, shown) = self.folder_key(prefix)?;
        self.tally.list();
        let found: Vec<ObjectMeta> = self
            .client()?
            .list(key.as_ref())
            .try_collect()
            .await
            .map_err(|e| self.failed(&shown, "list the folder", e))?;
        let mut listed: Vec<Listed> = found.iter().filter_map(|meta| self.listed(meta)).collect();
        listed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(listed)
    }

    fn listed(&self, meta: &ObjectMeta) -> Option<Listed> {
        let path = self.relative(&meta.location)?;
        Some(Listed {
            path,
            size: meta.size,
            modified: SystemTime::from(meta.last_modified),
        })
    }

    pub(crate) async fn create(&self, path: &str, bytes: Bytes) -> Result<()> {
        let (key, shown) = self.writable_key(path)?;
        self.put_mode(&key, &shown, bytes, PutMode::Create).await
    }

    pub(crate) async fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        let (key, shown) = self.writable_key(path)?;
        self.put_mode(&key, &shown, bytes, PutMode::Overwrite).await
    }

    async fn put_mode(&self, key: &Key, shown: &str, bytes: Bytes, mode: PutMode) -> Result<()> {
        let client = self.client()?;
        #[cfg(feature = "cloud")]
        if mode == PutMode::Create {
            self.prove_creation(client.as_ref(), key, shown).await?;
        }
        hit("object.before_put", shown)
            .map_err(|source| Error::io(shown, "write the object", source))?;
        self.tally.write(bytes.len());
        let options = PutOptions {
            mode,
            ..PutOptions::default()
        };
        client
            .put_opts(key, PutPayload::from(bytes), options)
            .await
            .map_err(|error| self.write_failed(shown, error))?;
        hit("object.after_put", shown).map_err(|source| Error::Unclear {
            path: shown.to_owned(),
            source,
        })
    }

    pub(crate) async fn writer(&self, path: &str) -> Result<Box<dyn ObjectWriter>> {
        let (key, shown) = self.writable_key(path)?;
        match &self.source {
            Source::Memory(_) => Ok(Box::new(gather::GatheredObject::new(
                self.clone(),
                key,
                shown,
            ))),
            #[cfg(feature = "cloud")]
            Source::Cloud(_) => Ok(Box::new(parts::StreamedObject::new(
                self.clone(),
                key,
                shown,
            ))),
        }
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        let (key, shown) = self.writable_key(path)?;
        self.tally.delete();
        match self.client()?.delete(&key).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(&shown, "delete the object", error)),
        }
    }

    fn writable_key(&self, path: &str) -> Result<(Key, String)> {
        let (key, shown) = self.key(path)?;
        if self.is_writable {
            Ok((key, shown))
        } else {
            Err(Error::unsupported(
                "writing through a web server, which is read only,",
                shown,
            ))
        }
    }

    /// The error of a call that left nothing behind.
    fn failed(&self, shown: &str, operation: &'static str, error: object_store::Error) -> Error {
        use object_store::Error as Foreign;
        let path = shown.to_owned();
        match error {
            Foreign::NotFound { .. } => Error::NotFound { path },
            Foreign::AlreadyExists { .. } | Foreign::Precondition { .. } => {
                Error::AlreadyExists { path }
            }
            Foreign::NotSupported { .. } | Foreign::NotImplemented { .. } => Error::Unsupported {
                feature: format!("to {operation} in this store"),
                path,
            },
            error => {
                let kind = match error {
                    Foreign::PermissionDenied { .. } | Foreign::Unauthenticated { .. } => {
                        io::ErrorKind::PermissionDenied
                    }
                    _ => io::ErrorKind::Other,
                };
                Error::Io {
                    path,
                    operation,
                    source: self.foreign(kind, &error),
                }
            }
        }
    }

    /// The error of a write: only a store that said no in so many words is believed.
    fn write_failed(&self, shown: &str, error: object_store::Error) -> Error {
        #[cfg(feature = "cloud")]
        match refusal(&error) {
            Some(connect::Refusal::NotImplemented) => return proof::no_creation(shown),
            Some(connect::Refusal::Redirected { .. }) => {
                return self.failed(shown, "write the object", error);
            }
            None => {}
        }
        match error {
            object_store::Error::Generic { .. } | object_store::Error::NotModified { .. } => {
                let source = self.foreign(io::ErrorKind::Other, &error);
                Error::Unclear {
                    path: shown.to_owned(),
                    source,
                }
            }
            error => self.failed(shown, "write the object", error),
        }
    }

    /// A foreign error as text, its chain of causes included and secrets removed.
    fn foreign(&self, kind: io::ErrorKind, error: &dyn std::error::Error) -> io::Error {
        io::Error::new(kind, self.options.redact(&chain(error)))
    }
}
