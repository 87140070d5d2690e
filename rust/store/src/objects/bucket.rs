//! [`Bucket`]: requests to an object store for objects below one prefix.

#[cfg(feature = "cloud")]
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use object_store::path::Path as Key;
use object_store::{
    GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
};

#[cfg(feature = "cloud")]
use super::cloud::Clients;
use super::memory::named;
use crate::counters::Tally;
use crate::error::{Error, Result};
#[cfg(feature = "cloud")]
use crate::event;
use crate::failpoint::hit;
use crate::location::CloudScheme;
use crate::object::{ObjectStat, ObjectVersion};
use crate::options::StorageOptions;
use crate::path::{PathRule, resolve, resolve_folder};

/// The first request for an object of unknown size also reads so many bytes of its end, where the footer lies.
#[cfg(feature = "cloud")]
const TAIL_BYTES: u64 = 64 << 10;

/// A folder of an object store, and the client that sends its requests.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    pub(super) source: Source,
    /// The folder inside the bucket; empty for the bucket itself.
    pub(super) prefix: String,
    /// The address of the root in messages.
    pub(super) uri: String,
    pub(super) options: StorageOptions,
    pub(super) tally: Arc<Tally>,
    pub(super) rule: PathRule,
    pub(super) is_writable: bool,
    pub(super) lists_in_order: bool,
    /// How objects are put whose names are used once.
    pub(super) unique: PutMode,
}

/// The source of the client.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Memory(Arc<object_store::memory::InMemory>),
    #[cfg(feature = "cloud")]
    Cloud(Arc<Clients>),
}

impl Bucket {
    pub(super) fn memory(authority: &str, prefix: String, tally: Arc<Tally>) -> Result<Self> {
        let uri = format!("memory://{authority}/{prefix}");
        Ok(Self {
            source: Source::Memory(named(authority)?),
            prefix,
            uri: uri.trim_end_matches('/').to_owned(),
            options: StorageOptions::new(),
            tally,
            rule: PathRule::Decoded,
            is_writable: true,
            lists_in_order: true,
            unique: PutMode::Create,
        })
    }

    #[cfg(feature = "cloud")]
    pub(super) fn cloud(
        scheme: CloudScheme,
        url: String,
        options: &StorageOptions,
        tally: Arc<Tally>,
    ) -> Result<Self> {
        let (clients, prefix) = Clients::new(scheme, &url, options)?;
        // Directory buckets do not list in lexical order.
        let bucket = url.split('/').nth(2).unwrap_or_default();
        Ok(Self {
            source: Source::Cloud(Arc::new(clients)),
            prefix,
            options: options.clone(),
            tally,
            rule: PathRule::Decoded,
            is_writable: scheme != CloudScheme::Http,
            lists_in_order: scheme != CloudScheme::Http && !bucket.ends_with("--x-s3"),
            unique: PutMode::Create,
            uri: url,
        })
    }

    #[cfg(not(feature = "cloud"))]
    pub(super) fn cloud(
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

    pub(super) fn client(&self) -> Result<Arc<dyn ObjectStore>> {
        match &self.source {
            Source::Memory(memory) => Ok(Arc::clone(memory) as Arc<dyn ObjectStore>),
            #[cfg(feature = "cloud")]
            Source::Cloud(clients) => clients.of_this_process(),
        }
    }

    /// The key of an object and its address in messages.
    pub(super) fn key(&self, path: &str) -> Result<(Key, String)> {
        self.key_of(resolve(path, self.rule)?.as_str())
    }

    /// The key of a folder; `None` for the whole store.
    pub(super) fn folder_key(&self, prefix: &str) -> Result<(Option<Key>, String)> {
        let folder = resolve_folder(prefix, self.rule)?;
        let (key, shown) = self.key_of(folder.as_str())?;
        Ok(((!key.as_ref().is_empty()).then_some(key), shown))
    }

    pub(super) fn key_of(&self, relative: &str) -> Result<(Key, String)> {
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

    /// The path, relative to the root, of a key that the store listed.
    pub(super) fn relative(&self, key: &Key) -> Option<String> {
        let key = key.as_ref();
        if self.prefix.is_empty() {
            return Some(key.to_owned());
        }
        key.strip_prefix(&self.prefix)?
            .strip_prefix('/')
            .map(str::to_owned)
    }

    #[cfg(feature = "cloud")]
    pub(super) async fn size_and_tail(&self, key: &Key, shown: &str) -> Result<(u64, Bytes)> {
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
            // Azure has no ranges from the end, and no store the tail of an empty object.
            Err(_) => {
                self.tally.stat();
                let found = client.head(key).await;
                let meta = found.map_err(|e| self.failed(shown, "read the object's size", e))?;
                Ok((meta.size, Bytes::new()))
            }
        }
    }

    pub(super) async fn read_whole(&self, path: &str, limit: u64) -> Result<Bytes> {
        let (key, shown) = self.key(path)?;
        let bytes = self.fetch_whole(&key, &shown, limit).await?;
        self.tally.read(bytes.len() as u64);
        Ok(bytes)
    }

    pub(super) async fn fetch_whole(&self, key: &Key, shown: &str, limit: u64) -> Result<Bytes> {
        Ok(self.fetch_version(key, shown, limit).await?.0)
    }

    pub(super) async fn read_with_version(
        &self,
        path: &str,
        limit: u64,
    ) -> Result<(Bytes, ObjectVersion)> {
        let (key, shown) = self.key(path)?;
        let (bytes, version) = self.fetch_version(&key, &shown, limit).await?;
        self.tally.read(bytes.len() as u64);
        Ok((bytes, version))
    }

    async fn fetch_version(
        &self,
        key: &Key,
        shown: &str,
        limit: u64,
    ) -> Result<(Bytes, ObjectVersion)> {
        let failed = |error| self.failed(shown, "read the object", error);
        let answer = self
            .client()?
            .get_opts(key, GetOptions::default())
            .await
            .map_err(failed)?;
        // The size comes before the bytes: a large object was not transferred yet.
        let size = answer.meta.size;
        if size > limit {
            return Err(Error::Limit {
                path: shown.to_owned(),
                size,
                limit,
            });
        }
        let version = ObjectVersion {
            e_tag: answer.meta.e_tag.clone(),
            generation: answer.meta.version.clone(),
        };
        Ok((answer.bytes().await.map_err(failed)?, version))
    }

    pub(super) async fn replace_object(
        &self,
        path: &str,
        bytes: Bytes,
        expected: &ObjectVersion,
    ) -> Result<()> {
        let (key, shown) = self.writable_key(path)?;
        let expected = UpdateVersion {
            e_tag: expected.e_tag.clone(),
            version: expected.generation.clone(),
        };
        match self
            .put_mode(&key, &shown, bytes, PutMode::Update(expected))
            .await
        {
            Err(Error::AlreadyExists { path } | Error::NotFound { path }) => {
                Err(Error::Changed { path })
            }
            other => other,
        }
    }

    /// One request for exactly `range`.
    #[cfg(feature = "cloud")]
    pub(super) async fn fetch(
        &self,
        key: &Key,
        shown: &str,
        range: std::ops::Range<u64>,
    ) -> Result<Bytes> {
        event::fetch(shown, range.clone(), self.fetch_range(key, shown, range)).await
    }

    #[cfg(feature = "cloud")]
    pub(super) async fn fetch_range(
        &self,
        key: &Key,
        shown: &str,
        range: std::ops::Range<u64>,
    ) -> Result<Bytes> {
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

    pub(super) async fn stat_object(&self, path: &str) -> Result<ObjectStat> {
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

    pub(super) async fn create_object(&self, path: &str, bytes: Bytes) -> Result<()> {
        let (key, shown) = self.writable_key(path)?;
        self.put_mode(&key, &shown, bytes, PutMode::Create).await
    }

    pub(super) async fn put_object(&self, path: &str, bytes: Bytes) -> Result<()> {
        let (key, shown) = self.writable_key(path)?;
        self.put_mode(&key, &shown, bytes, PutMode::Overwrite).await
    }

    pub(super) async fn put_mode(
        &self,
        key: &Key,
        shown: &str,
        bytes: Bytes,
        mode: PutMode,
    ) -> Result<()> {
        let client = self.client()?;
        #[cfg(feature = "cloud")]
        match mode {
            PutMode::Create => self.prove_creation(client.as_ref(), key, shown).await?,
            PutMode::Update(_) => self.prove_replacement(client.as_ref(), key, shown).await?,
            PutMode::Overwrite => {}
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

    pub(super) async fn delete_object(&self, path: &str) -> Result<()> {
        let (key, shown) = self.writable_key(path)?;
        self.tally.delete();
        match self.client()?.delete(&key).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(&shown, "delete the object", error)),
        }
    }

    pub(super) fn writable_key(&self, path: &str) -> Result<(Key, String)> {
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
}
