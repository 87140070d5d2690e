//! [`Store`]: the root folder of one table, on any kind of storage.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::counters::{Counters, Tally};
use crate::error::{Error, Result};
use crate::event;
use crate::folder::Folder;
use crate::local::{Disk, LocalFolder, SystemDisk};
#[cfg(feature = "cloud")]
use crate::location::CloudScheme;
use crate::location::{self, Location};
use crate::object::{
    Durability, Listed, Names, ObjectLock, ObjectStat, ObjectVersion, ObjectWriter,
};
use crate::objects::ObjectFolder;
#[cfg(feature = "cloud")]
use crate::options::MANIFEST_STORE;
use crate::options::StorageOptions;
use crate::read_at::ReadAt;
use crate::register::{self, ManifestRegister, ObservedRegister};
use crate::timer::Timer;

/// The root folder of one table. Clones are cheap and share their counters.
///
/// Paths are relative to the root, separated by `/`, and checked: none can leave the root. Futures of local stores and of
/// those in memory are complete at their first poll, so they need no executor; remote stores need a tokio runtime. A store
/// may be used on both sides of a fork.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) folder: Arc<dyn Folder>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) timer: Option<Arc<dyn Timer>>,
    register: Option<Arc<dyn ManifestRegister>>,
    /// The address that opens the store again, where that is not the folder's.
    uri: Option<Arc<str>>,
}

impl Store {
    /// The folder at `uri`, which need not exist: a path, or a `file://`, `memory://`, and with the build
    /// feature `cloud` an `s3://`, `gs://`, `az://` or `http(s)://` URL (the last read only).
    ///
    /// A plain path is taken as it is, whatever characters it has; a file URL is percent-decoded. The option
    /// `mmap` = `false` reads local files with system calls only; `manifest_store` = `sqlite:/path/of/file` keeps
    /// the [register](ManifestRegister) of the table's versions in that file, for file systems that cannot create
    /// a file only if it is absent. An `s3+ddb://bucket/folder?ddbTableName=table` URL keeps it in DynamoDB.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a URI or option that means nothing, [`Error::Unsupported`] for one this
    /// build cannot serve. The store itself is not asked yet.
    pub fn open(uri: &str, options: &StorageOptions) -> Result<Self> {
        Self::open_on(Arc::new(SystemDisk), uri, options)
    }

    /// As [`open`](Self::open); a local folder changes its files through `disk`.
    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        uri: &str,
        options: &StorageOptions,
    ) -> Result<Self> {
        let opened = Self::open_location(disk, location::parse(uri)?, options)?;
        let opened = match register::from_options(opened.uri(), options)? {
            Some(register) => opened.with_register(register),
            None => opened,
        };
        tracing::debug!(
            target: event::STORE,
            uri = opened.uri(),
            is_local = opened.is_local(),
            register = opened.register.as_ref().map(|it| it.uri()),
            "open"
        );
        Ok(opened)
    }

    fn open_location(
        disk: Arc<dyn Disk>,
        location: Location,
        options: &StorageOptions,
    ) -> Result<Self> {
        let tally = Arc::new(Tally::default());
        let may_map = options.flag("mmap", true)?;
        let of = |folder: Arc<dyn Folder>| Self {
            folder,
            tally: Arc::clone(&tally),
            timer: None,
            register: None,
            uri: None,
        };
        let shared = Arc::clone(&tally);
        match location {
            Location::Local(root) => {
                let uri = local_uri(&root)?;
                let folder = LocalFolder::new(root, uri, may_map, disk, shared);
                Ok(of(Arc::new(folder)))
            }
            Location::Memory { authority, prefix } => {
                let folder = ObjectFolder::memory(&authority, prefix, shared)?;
                Ok(of(Arc::new(folder)))
            }
            Location::Cloud { scheme, url } => {
                let folder = ObjectFolder::cloud(scheme, url, options, shared)?;
                Ok(of(Arc::new(folder)))
            }
            Location::Registered { url, table } => {
                Self::open_registered(url, table, options, tally)
            }
        }
    }

    #[cfg(feature = "cloud")]
    fn open_registered(
        url: String,
        table: String,
        options: &StorageOptions,
        tally: Arc<Tally>,
    ) -> Result<Self> {
        if options.get(MANIFEST_STORE).is_some() {
            return Err(Error::invalid(
                format!("storage option {MANIFEST_STORE:?}"),
                "the URL names a register already",
            ));
        }
        let folder = url.trim_start_matches("s3://");
        let shown = format!("s3+ddb://{folder}");
        let uri = format!("{shown}?ddbTableName={table}");
        let register = register::DynamoDb::new(&url, table, options)?;
        let folder = ObjectFolder::cloud(CloudScheme::S3, url, options, Arc::clone(&tally))?;
        let folder: Arc<dyn Folder> = Arc::new(folder);
        Ok(Self {
            folder: folder.beside_register(Some(shown)).unwrap_or(folder),
            tally,
            timer: None,
            register: Some(Arc::new(ObservedRegister(Arc::new(register)))),
            uri: Some(uri.into()),
        })
    }

    #[cfg(not(feature = "cloud"))]
    fn open_registered(
        url: String,
        _table: String,
        _options: &StorageOptions,
        _tally: Arc<Tally>,
    ) -> Result<Self> {
        Err(Error::unsupported(
            "remote storage, which needs the build feature `cloud`,",
            url,
        ))
    }

    /// The same store with a register that decides which manifest a version has.
    #[must_use]
    pub fn with_register(mut self, register: Arc<dyn ManifestRegister>) -> Self {
        if let Some(folder) = self.folder.beside_register(None) {
            self.folder = folder;
        }
        self.register = Some(Arc::new(ObservedRegister(register)));
        self
    }

    /// The register of the table's versions, if one decides them instead of the store.
    #[must_use]
    pub fn register(&self) -> Option<&Arc<dyn ManifestRegister>> {
        self.register.as_ref()
    }

    /// False for stores that can only be read, such as web servers.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.folder.is_writable()
    }

    /// The same store with another durability of its writes. Only local folders have a choice.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        if let Some(folder) = self.folder.with_durability(durability) {
            self.folder = folder;
        }
        self
    }

    /// The same store, whose paths are checked as they are and not percent-decoded: for formats whose names contain
    /// percent-encoded values, such as `p=a%2F..%2Fb`. No path leaves the root, because nothing decodes one.
    #[must_use]
    pub fn with_literal_paths(mut self) -> Self {
        self.folder = self.folder.with_literal_paths();
        self
    }

    /// How pauses between attempts on this store pass, where they do not take real time.
    #[must_use]
    pub fn timer(&self) -> Option<&Arc<dyn Timer>> {
        self.timer.as_ref()
    }

    /// The root, absolute and without secrets; [`open`](Self::open) takes it back.
    #[must_use]
    pub fn uri(&self) -> &str {
        self.uri.as_deref().unwrap_or_else(|| self.folder.uri())
    }

    /// True for folders of this machine's file systems.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.folder.is_local()
    }

    /// Those of the folders `below` the root, the root and the folders above it that do not exist, the deepest first, on file
    /// systems of this machine; elsewhere there are no folders.
    #[must_use]
    pub fn missing_folders(&self, below: &[&str]) -> Vec<PathBuf> {
        self.folder.missing_folders(below)
    }

    /// Removes files below the root at once, on file systems of this machine; elsewhere they stay. It is for calls that were
    /// interrupted and cannot wait. A file that cannot be removed is told in an event.
    pub fn remove_files_now(&self, paths: &[String]) {
        self.folder.remove_files_now(paths);
    }

    /// Removes those of some folders of this machine that are empty, one after the other. It is for folders that were missing
    /// before a call that failed. A folder that cannot be removed is told in an event.
    pub fn remove_empty_folders(&self, folders: &[PathBuf]) {
        self.folder.remove_empty_folders(folders);
    }

    /// The requests and bytes of this store, its clones and their open files so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.tally.snapshot()
    }

    /// Opens the object `path` for reading byte ranges.
    ///
    /// A remote object is opened without a request if `size` is given; otherwise one request reads its size and its tail.
    /// Local objects and those in memory ignore `size` and report their true size.
    ///
    /// # Errors
    /// [`Error::NotFound`]; for a remote object with a given size only when it is read.
    pub async fn open_file(&self, path: &str, size: Option<u64>) -> Result<Arc<dyn ReadAt>> {
        let request = self.folder.open(path, size);
        event::request("open", (self.uri(), path), request, |file| {
            Some(file.size())
        })
        .await
    }

    /// The whole object.
    ///
    /// # Errors
    /// [`Error::Limit`] when it has more than `limit` bytes, before they are read; [`Error::NotFound`].
    pub async fn read(&self, path: &str, limit: u64) -> Result<Bytes> {
        let request = self.folder.read(path, limit);
        event::request("read", (self.uri(), path), request, |bytes| {
            Some(bytes.len() as u64)
        })
        .await
    }

    /// Size and time of the object.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn stat(&self, path: &str) -> Result<ObjectStat> {
        let request = self.folder.stat(path);
        event::request("stat", (self.uri(), path), request, |stat| Some(stat.size)).await
    }

    /// Whether the object exists.
    ///
    /// # Errors
    /// When the store cannot be asked.
    pub async fn exists(&self, path: &str) -> Result<bool> {
        match self.stat(path).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The objects directly in the folder `prefix` (`""` for the root), sorted by name; a missing folder is
    /// empty. Unfinished writes are not shown.
    ///
    /// # Errors
    /// When the store cannot list; most web servers cannot.
    pub async fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.list_first(prefix, usize::MAX).await
    }

    /// The `count` lexically first objects of [`list`](Self::list). A store that lists in order reads only so many names. Names
    /// of manifests count down, so the first ones are the newest.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn list_first(&self, prefix: &str, count: usize) -> Result<Vec<Listed>> {
        let request = self.folder.list(prefix, count);
        event::list("list", (self.uri(), prefix), request, |listed| listed.len()).await
    }

    /// The names of at least the `count` lexically first objects directly in the folder `prefix`, and of all objects where that
    /// costs no more, as on a local disk. The newest version of a table is found by this.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn list_names(&self, prefix: &str, count: usize) -> Result<Names> {
        let request = self.folder.list_names(prefix, count);
        event::list("names", (self.uri(), prefix), request, |found| {
            found.names.len()
        })
        .await
    }

    /// All objects at any depth under `prefix`, sorted by path, unfinished writes included: for cleanup.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn list_recursive(&self, prefix: &str) -> Result<Vec<Listed>> {
        let request = self.folder.list_recursive(prefix);
        event::list("recursive", (self.uri(), prefix), request, |listed| {
            listed.len()
        })
        .await
    }

    /// Creates the object `path`, complete or not at all, if no object has that name. A commit happens in this request. `Ok`
    /// means durable, by the [`Durability`] of the store.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] when the name is taken; [`Error::Unclear`] when the object may or may not exist. After any
    /// other error nothing was written.
    pub async fn create(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.create_and_then(path, bytes, || {}).await
    }

    /// As [`create`](Self::create), and calls `on_named` as soon as others see the object. On a local disk that is before the
    /// name is durable, so that the next writer can begin while this one waits for the disk.
    ///
    /// # Errors
    /// As [`create`](Self::create); `on_named` may have been called before an [`Error::Unclear`].
    pub async fn create_and_then(
        &self,
        path: &str,
        bytes: Bytes,
        on_named: impl FnOnce() + Send,
    ) -> Result<()> {
        let byte_len = bytes.len() as u64;
        let request = self.folder.create(path, bytes, Box::new(on_named));
        event::publish("create", (self.uri(), path), byte_len, request).await
    }

    /// Creates the object `path` or replaces it, atomically: for tags.
    ///
    /// # Errors
    /// As [`create`](Self::create), except that a taken name is no error.
    pub async fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        let byte_len = bytes.len() as u64;
        let request = self.folder.put(path, bytes);
        event::publish("put", (self.uri(), path), byte_len, request).await
    }

    /// The whole object, and which of the objects of its name it is.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_version(&self, path: &str, limit: u64) -> Result<(Bytes, ObjectVersion)> {
        let request = self.folder.read_version(path, limit);
        event::request("read", (self.uri(), path), request, |(bytes, _)| {
            Some(bytes.len() as u64)
        })
        .await
    }

    /// Replaces the object `path`, atomically, if it is still the one that was read. `Ok` means durable.
    ///
    /// An object store compares and replaces in one request. A file system cannot: there every writer of the object holds one
    /// lock of [`try_lock`](Self::try_lock) when it calls this.
    ///
    /// # Errors
    /// [`Error::Changed`] if the object was replaced or deleted since: by another writer, or by an earlier attempt of this one
    /// whose answer was lost. [`Error::Unclear`] when it may or may not have been replaced. After any other error nothing was
    /// written.
    pub async fn replace(&self, path: &str, bytes: Bytes, expected: &ObjectVersion) -> Result<()> {
        let byte_len = bytes.len() as u64;
        let request = self.folder.replace(path, bytes, expected);
        event::publish("replace", (self.uri(), path), byte_len, request).await
    }

    /// Takes the lock of the file `path` of a local folder, which is made if it is missing; `None` if another holder on this
    /// machine has it, in this process or another. It is released when it is dropped or its process ends.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for stores that are not [local](Self::is_local), and file systems without locks.
    pub fn try_lock(&self, path: &str) -> Result<Option<ObjectLock>> {
        self.folder.try_lock(path)
    }

    /// Begins a streamed write of a new object, under a name that is used once.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] when the name is taken. Remote stores report this when the write is finished, and for objects
    /// written in several parts not at all.
    pub async fn writer(&self, path: &str) -> Result<Box<dyn ObjectWriter>> {
        let request = self.folder.writer(path);
        event::request("write", (self.uri(), path), request, |_| None).await
    }

    /// Deletes the object `path`; a missing object is no error. On a local disk the deletion is durable after
    /// [`sync_folder`](Self::sync_folder).
    ///
    /// # Errors
    /// When the store fails.
    pub async fn delete(&self, path: &str) -> Result<()> {
        let request = self.folder.delete(path);
        event::request("delete", (self.uri(), path), request, |_| None).await
    }

    /// Makes all deletions in the folder `prefix` so far durable. Does nothing for stores that are not local.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn sync_folder(&self, prefix: &str) -> Result<()> {
        let request = self.folder.sync(prefix);
        event::request("sync", (self.uri(), prefix), request, |_| None).await
    }
}

/// The path as text, which messages and other processes need.
fn local_uri(root: &Path) -> Result<String> {
    match root.to_str() {
        Some(text) if text.len() > 1 => Ok(text.trim_end_matches('/').to_owned()),
        Some(text) => Ok(text.to_owned()),
        None => Err(Error::invalid(
            root.display().to_string(),
            "the path is not UTF-8",
        )),
    }
}
