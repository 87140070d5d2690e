//! [`Store`]: the root folder of one table, wherever it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::counters::{Counters, Tally};
use crate::error::{Error, Result};
use crate::local::LocalFolder;
#[cfg(feature = "cloud")]
use crate::location::CloudScheme;
use crate::location::{self, Location};
use crate::object::{Durability, Listed, Names, ObjectStat, ObjectWriter};
use crate::objects::ObjectFolder;
use crate::options::StorageOptions;
use crate::read_at::ReadAt;
use crate::register::{self, ManifestRegister};
#[cfg(feature = "testing")]
use crate::testing::{Script, ScriptedFolder};

/// The root folder of one table. Clones are cheap and share their counters.
///
/// Paths are relative to the root, `/`-separated, and checked: none can leave it. Futures of local and
/// memory stores are complete at their first poll, so any executor or none will do; remote stores need a
/// tokio context. A store may be used on both sides of a fork.
#[derive(Debug, Clone)]
pub struct Store {
    folder: Folder,
    tally: Arc<Tally>,
    register: Option<Arc<dyn ManifestRegister>>,
    /// What opens the store again, where that is more than the folder's address.
    uri: Option<Arc<str>>,
}

#[derive(Debug, Clone)]
enum Folder {
    Local(LocalFolder),
    Objects(Box<ObjectFolder>),
    #[cfg(feature = "testing")]
    Scripted(Arc<ScriptedFolder>),
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
        let tally = Arc::new(Tally::default());
        let may_map = options.flag("mmap", true)?;
        let folder = match location::parse(uri)? {
            Location::Local(root) => {
                let shown = local_uri(&root)?;
                Folder::Local(LocalFolder::new(root, shown, may_map, Arc::clone(&tally)))
            }
            Location::Memory { authority, prefix } => Folder::Objects(Box::new(
                ObjectFolder::memory(&authority, prefix, Arc::clone(&tally))?,
            )),
            Location::Cloud { scheme, url } => Folder::Objects(Box::new(ObjectFolder::cloud(
                scheme,
                url,
                options,
                Arc::clone(&tally),
            )?)),
            Location::Registered { url, table } => {
                return Self::open_registered(url, table, options, tally);
            }
        };
        let opened = Self {
            folder,
            tally,
            register: None,
            uri: None,
        };
        match register::from_options(opened.uri(), options)? {
            Some(register) => Ok(opened.with_register(register)),
            None => Ok(opened),
        }
    }

    #[cfg(feature = "cloud")]
    fn open_registered(
        url: String,
        table: String,
        options: &StorageOptions,
        tally: Arc<Tally>,
    ) -> Result<Self> {
        if options.get(register::MANIFEST_STORE).is_some() {
            return Err(Error::invalid(
                format!("storage option {:?}", register::MANIFEST_STORE),
                "the URL names a register already",
            ));
        }
        let folder = url.trim_start_matches("s3://");
        let shown = format!("s3+ddb://{folder}");
        let uri = format!("{shown}?ddbTableName={table}");
        let register = register::DynamoDb::new(&url, table, options)?;
        let folder = ObjectFolder::cloud(CloudScheme::S3, url, options, Arc::clone(&tally))?;
        Ok(Self {
            folder: Folder::Objects(Box::new(folder.registered(Some(shown)))),
            tally,
            register: Some(Arc::new(register)),
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
        if let Folder::Objects(folder) = self.folder {
            self.folder = Folder::Objects(Box::new(folder.registered(None)));
        }
        self.register = Some(register);
        self
    }

    /// The register of the table's versions, where the store itself does not decide them.
    #[must_use]
    pub fn register(&self) -> Option<&Arc<dyn ManifestRegister>> {
        self.register.as_ref()
    }

    /// False for stores that are read only, such as web servers.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        match &self.folder {
            Folder::Local(_) => true,
            Folder::Objects(folder) => folder.is_writable(),
            #[cfg(feature = "testing")]
            Folder::Scripted(it) => it.inner().is_writable(),
        }
    }

    /// The same store with another promise about its writes.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        if let Folder::Local(folder) = &mut self.folder {
            folder.durability = durability;
        }
        self
    }

    /// The same store, each request of which happens as `script` says. Its counters are those of this store.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn scripted(&self, script: Arc<dyn Script>) -> Self {
        Self {
            folder: Folder::Scripted(Arc::new(ScriptedFolder::new(self.clone(), script))),
            tally: Arc::clone(&self.tally),
            register: self.register.clone(),
            uri: self.uri.clone(),
        }
    }

    /// The root, absolute and without secrets; [`open`](Self::open) takes it back.
    #[must_use]
    pub fn uri(&self) -> &str {
        if let Some(uri) = &self.uri {
            return uri;
        }
        match &self.folder {
            Folder::Local(folder) => folder.uri(),
            Folder::Objects(folder) => folder.uri(),
            #[cfg(feature = "testing")]
            Folder::Scripted(it) => it.inner().uri(),
        }
    }

    /// True for folders of this machine's file systems.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self.folder, Folder::Local(_))
    }

    /// The root and the folders above it that are not there, the deepest first, on file systems of this machine.
    pub(crate) fn missing_folders(&self) -> Vec<PathBuf> {
        match &self.folder {
            Folder::Local(folder) => folder.missing(),
            _ => Vec::new(),
        }
    }

    /// Removes folders of this machine in which nothing is, one after the other.
    pub(crate) fn remove_empty_folders(&self, folders: &[PathBuf]) {
        if let Folder::Local(folder) = &self.folder {
            folder.remove_empty(folders);
        }
    }

    /// What this store, its clones and their open files did so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.tally.snapshot()
    }

    /// Open the object `path` for reading at positions.
    ///
    /// A remote object whose `size` is known is opened without a request; otherwise one request brings its
    /// size and its tail. Local and memory objects tell their true size whatever `size` says: compare it.
    ///
    /// # Errors
    /// [`Error::NotFound`]; for a remote object of known size only when it is read.
    pub async fn open_file(&self, path: &str, size: Option<u64>) -> Result<Arc<dyn ReadAt>> {
        match &self.folder {
            Folder::Local(folder) => folder.open(path),
            Folder::Objects(folder) => folder.open(path, size).await,
            #[cfg(feature = "testing")]
            Folder::Scripted(it) => it.open(path, size).await,
        }
    }

    /// The whole object.
    ///
    /// # Errors
    /// [`Error::Limit`] when it has more than `limit` bytes, before they are read; [`Error::NotFound`].
    pub async fn read(&self, path: &str, limit: u64) -> Result<Bytes> {
        match &self.folder {
            Folder::Local(folder) => folder.read(path, limit),
            Folder::Objects(folder) => folder.read(path, limit).await,
            #[cfg(feature = "testing")]
            Folder::Scripted(it) => it.read(path, limit).await,
        }
    }

    /// Size and time of the object.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn stat(&self, path: &str) -> Result<ObjectStat> {
        match &self.folder {
            Folder::Local(folder) => folder.stat(path),
            Folder::Objects(folder) => folder.stat(path).await,
            #[cfg(feature = "testing")]
            Folder::Scripted(it) => it.stat(path).await,
        }
    }

    /// Is there such an object?
    ///
    /// # Errors
    /// When the store cannot tell.
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
        match &self.folder {
            Folder::Local(folder) => folder.list(prefix),
            Folder::Objects(folder) => folder.list(prefix).await,
            #[cfg(feature = "testing")]
            Folder::Scripted(it) => it.list(prefix, usize::MAX).await,
        }
    }

    /// The `count` lexically first of [`list`](Self::list), for the price of so many where the store lists
    /// in order: the newest manifests of a table, whose names count down.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn list_first(&self, prefix: &str, count: usize) -> Result<Vec<Listed>> {
        match &self.folder {
            Folder::Local(folder) => folder.list_first(prefix, count),
            Folder::Objects(folder) => folder.list_first(prefix, count).await,
            #[cfg(feature = "testing")]
            Folder::Scripted(it) => it.list(prefix, count).await,
        }
    }

    /// The names of at least the `count` lexically first objects directly in the folder `prefix`, and of all where
    /// those cost no more, as on a disk: what finding the newest version takes.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn list_names(&self, prefix: &str, count: usize) -> Result<Names> {
        if let Folder::Local(folder) = &self.folder {
            let names = folder.list_names(prefix)?;
            return Ok(Names {
                names,
                are_all: true,
            });
        }
        let listed = self.list_first(prefix, count).await?;
        Ok(Names {
            are_all: listed.len() < count,
            names: listed.iter().map(|it| it.name().to_owned()).collect(),
        })
    }

    /// All objects at any depth under `prefix`, sorted by path, unfinished writes included: for cleanup.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn list_recursive(&self, prefix: &str) -> Result<Vec<Listed>> {
        match &self.folder {
            Folder::Local(folder) => folder.list_recursive(prefix),
            Folder::Objects(folder) => folder.list_recursive(prefix).await,
            #[cfg(feature = "testing")]
            Folder::Scripted(it) => it.list_recursive(prefix).await,
        }
    }

    /// Create the object `path`, complete or not at all, if no object has that name: the instant of a
    /// commit. `Ok` means durable, by the store's [`Durability`].
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] when the name is taken; [`Error::Unclear`] when the object may exist now,
    /// or may not. After any other error nothing was written.
    pub async fn create(&self, path: &str, bytes: Bytes) -> Result<()> {
        match &self.folder {
            Folder::Local(folder) => folder.create(path, &bytes, || {}),
            Folder::Objects(folder) => folder.create(path, bytes).await,
            #[cfg(feature = "testing")]
            Folder::Scripted(it) => it.create(path, bytes).await,
        }
    }

    /// As [`create`](Self::create), and calls `named` as soon as others see the object: on a local disk before its name
    /// is durable, so that the next object can be on its way while this one waits for the disk.
    ///
    /// # Errors
    /// As [`create`](Self::create); `named` may have been called before an [`Error::Unclear`].
    pub async fn create_and_then(
        &self,
        path: &str,
        bytes: Bytes,
        named: impl FnOnce() + Send,
    ) -> Result<()> {
        if let Folder::Local(folder) = &self.folder {
            return folder.create(path, &bytes, named);
        }
        self.create(path, bytes).await.inspect(|()| named())
    }

    /// Create the object `path` or replace it, atomically: for tags and hints.
    ///
    /// # Errors
    /// As [`create`](Self::create), except that a taken name is none.
    pub async fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        match &self.folder {
            Folder::Local(folder) => folder.put(path, &bytes),
            Folder::Objects(folder) => folder.put(path, bytes).await,
            #[cfg(feature = "testing")]
            Folder::Scripted(it) => it.put(path, bytes).await,
        }
    }

    /// Begin a new object under a name nobody else uses, and write it piece by piece.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] when the name is taken after all; remote stores say so at the end, and for
    /// large objects not at all.
    pub async fn writer(&self, path: &str) -> Result<Box<dyn ObjectWriter>> {
        match &self.folder {
            Folder::Local(folder) => folder.writer(path),
            Folder::Objects(folder) => folder.writer(path).await,
            #[cfg(feature = "testing")]
            Folder::Scripted(it) => it.writer(path).await,
        }
    }

    /// Delete the object `path`; a missing one is fine. See [`sync_folder`](Self::sync_folder).
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn delete(&self, path: &str) -> Result<()> {
        match &self.folder {
            Folder::Local(folder) => folder.delete(path),
            Folder::Objects(folder) => folder.delete(path).await,
            #[cfg(feature = "testing")]
            Folder::Scripted(it) => it.delete(path).await,
        }
    }

    /// Make deletions in the folder `prefix` survive a power cut, once for many of them. Only local
    /// folders need it.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn sync_folder(&self, prefix: &str) -> Result<()> {
        match &self.folder {
            Folder::Local(folder) => folder.sync_folder(prefix),
            Folder::Objects(_) => Ok(()),
            #[cfg(feature = "testing")]
            Folder::Scripted(it) => it.sync_folder(prefix).await,
        }
    }
}

/// The path as text: it stands in messages and is handed to other processes.
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
