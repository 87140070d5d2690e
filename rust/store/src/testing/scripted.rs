//! Stores whose requests follow a script: each request waits until the script decides that it happens, fails, loses its
//! answer, arrives twice, arrives late, or sees an old listing.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::error::{Error, Result};
use crate::folder::{Folder, OnNamed};
use crate::object::{Listed, ObjectStat, ObjectVersion, ObjectWriter};
use crate::read_at::ReadAt;
use crate::store::Store;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Open an object for reading.
    Open,
    /// Read a whole object.
    Read,
    /// Ask for size and time.
    Stat,
    /// List a folder.
    List,
    /// Create an object if it is absent.
    Create,
    /// Create or replace an object.
    Put,
    /// Begin a streamed object.
    Begin,
    /// Publish a streamed object.
    Finish,
    /// Delete an object.
    Delete,
    /// Make deletions durable.
    Sync,
}

/// The fate of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It happens and is answered.
    Happens,
    /// It does not happen, and the caller gets an error that says so.
    Fails,
    /// It happens, and its answer is lost.
    AnswerLost,
    /// It arrives twice, and the caller gets the second answer.
    Twice,
    /// Its answer is lost, and it happens when the script delivers it. Only for [`Verb::Create`] and [`Verb::Put`].
    Late,
    /// A listing without its `n` first names, which in `_versions` are the newest.
    Stale(usize),
}

/// Decides the fates of the requests to one store.
pub trait Script: Send + Sync + fmt::Debug {
    /// The fate of the next request, which does not happen before this future is complete.
    fn fate(&self, verb: Verb, path: &str) -> BoxFuture<'_, Fate>;

    /// Receives a request with the fate [`Fate::Late`], to deliver it later or not at all.
    fn later(&self, request: Late) {
        drop(request);
    }
}

/// A request that has not arrived yet.
#[derive(Debug)]
pub struct Late {
    inner: Arc<dyn Folder>,
    verb: Verb,
    path: String,
    bytes: Bytes,
}

impl Late {
    /// Lets the request arrive; its answer is lost.
    pub async fn deliver(self) {
        let answer = match self.verb {
            Verb::Put => self.inner.put(&self.path, self.bytes).await,
            _ => {
                self.inner
                    .create(&self.path, self.bytes, Box::new(|| {}))
                    .await
            }
        };
        drop(answer);
    }
}

impl Store {
    /// The same store, each request of which has the fate that `script` decides. Its counters are those of this store.
    #[must_use]
    pub fn scripted(&self, script: Arc<dyn Script>) -> Self {
        let folder = ScriptedFolder {
            inner: Arc::clone(&self.folder),
            script,
        };
        let mut scripted = self.clone();
        scripted.folder = Arc::new(folder);
        scripted
    }
}

/// A folder and its script.
#[derive(Debug)]
struct ScriptedFolder {
    inner: Arc<dyn Folder>,
    script: Arc<dyn Script>,
}

fn lost() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer came")
}

impl ScriptedFolder {
    fn failed(&self, path: &str) -> Error {
        Error::Io {
            path: format!("{}/{path}", self.inner.uri()),
            operation: "reach the store",
            source: io::ErrorKind::ConnectionRefused.into(),
        }
    }

    fn unclear(&self, path: &str) -> Error {
        Error::Unclear {
            path: format!("{}/{path}", self.inner.uri()),
            source: lost(),
        }
    }

    /// A request that changes nothing: it is answered or fails.
    async fn ask<T>(
        &self,
        verb: Verb,
        path: &str,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match self.script.fate(verb, path).await {
            Fate::Fails | Fate::AnswerLost | Fate::Late => Err(self.failed(path)),
            Fate::Happens | Fate::Twice | Fate::Stale(_) => request.await,
        }
    }

    async fn change(&self, verb: Verb, path: &str, bytes: Bytes) -> Result<()> {
        let happen = || async {
            match verb {
                Verb::Put => self.inner.put(path, bytes.clone()).await,
                _ => {
                    self.inner
                        .create(path, bytes.clone(), Box::new(|| {}))
                        .await
                }
            }
        };
        match self.script.fate(verb, path).await {
            Fate::Happens | Fate::Stale(_) => happen().await,
            Fate::Fails => Err(self.failed(path)),
            Fate::AnswerLost => {
                drop(happen().await);
                Err(self.unclear(path))
            }
            Fate::Twice => {
                drop(happen().await);
                happen().await
            }
            Fate::Late => {
                self.script.later(Late {
                    inner: Arc::clone(&self.inner),
                    verb,
                    path: path.to_owned(),
                    bytes,
                });
                Err(self.unclear(path))
            }
        }
    }
}

impl Folder for ScriptedFolder {
    fn uri(&self) -> &str {
        self.inner.uri()
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn missing_folders(&self, below: &[&str]) -> Vec<PathBuf> {
        self.inner.missing_folders(below)
    }

    fn remove_files_now(&self, paths: &[String]) {
        self.inner.remove_files_now(paths);
    }

    fn remove_empty_folders(&self, folders: &[PathBuf]) {
        self.inner.remove_empty_folders(folders);
    }

    fn open<'a>(
        &'a self,
        path: &'a str,
        size: Option<u64>,
    ) -> BoxFuture<'a, Result<Arc<dyn ReadAt>>> {
        let request = self.inner.open(path, size);
        self.ask(Verb::Open, path, request).boxed()
    }

    fn read<'a>(&'a self, path: &'a str, limit: u64) -> BoxFuture<'a, Result<Bytes>> {
        let request = self.inner.read(path, limit);
        self.ask(Verb::Read, path, request).boxed()
    }

    fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<ObjectStat>> {
        self.ask(Verb::Stat, path, self.inner.stat(path)).boxed()
    }

    /// The `count` first names, without those that the script hides.
    fn list<'a>(&'a self, prefix: &'a str, count: usize) -> BoxFuture<'a, Result<Vec<Listed>>> {
        async move {
            let fate = self.script.fate(Verb::List, prefix).await;
            let skipped = match fate {
                Fate::Fails | Fate::AnswerLost | Fate::Late => return Err(self.failed(prefix)),
                Fate::Stale(names) => names,
                Fate::Happens | Fate::Twice => 0,
            };
            let listed = self.inner.list(prefix, usize::MAX).await?;
            Ok(listed.into_iter().skip(skipped).take(count).collect())
        }
        .boxed()
    }

    fn list_recursive<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Listed>>> {
        let request = self.inner.list_recursive(prefix);
        self.ask(Verb::List, prefix, request).boxed()
    }

    fn create<'a>(
        &'a self,
        path: &'a str,
        bytes: Bytes,
        on_named: OnNamed<'a>,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            self.change(Verb::Create, path, bytes).await?;
            on_named();
            Ok(())
        }
        .boxed()
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        self.change(Verb::Put, path, bytes).boxed()
    }

    fn read_version<'a>(
        &'a self,
        path: &'a str,
        limit: u64,
    ) -> BoxFuture<'a, Result<(Bytes, ObjectVersion)>> {
        let request = self.inner.read_version(path, limit);
        self.ask(Verb::Read, path, request).boxed()
    }

    fn replace<'a>(
        &'a self,
        path: &'a str,
        bytes: Bytes,
        expected: &'a ObjectVersion,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            match self.script.fate(Verb::Put, path).await {
                Fate::Fails => Err(self.failed(path)),
                Fate::Happens | Fate::Stale(_) => self.inner.replace(path, bytes, expected).await,
                Fate::Twice => {
                    drop(self.inner.replace(path, bytes.clone(), expected).await);
                    self.inner.replace(path, bytes, expected).await
                }
                // A late request is one whose answer is lost: the script has no further step for it.
                Fate::AnswerLost | Fate::Late => {
                    self.inner.replace(path, bytes, expected).await?;
                    Err(Error::Unclear {
                        path: format!("{}/{path}", self.inner.uri()),
                        source: lost(),
                    })
                }
            }
        }
        .boxed()
    }

    fn with_literal_paths(&self) -> Arc<dyn Folder> {
        Arc::new(Self {
            inner: self.inner.with_literal_paths(),
            script: Arc::clone(&self.script),
        })
    }

    fn writer<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Box<dyn ObjectWriter>>> {
        async move {
            match self.script.fate(Verb::Begin, path).await {
                Fate::Fails | Fate::AnswerLost | Fate::Late => return Err(self.failed(path)),
                Fate::Happens | Fate::Twice | Fate::Stale(_) => {}
            }
            let inner = self.inner.writer(path).await?;
            Ok(Box::new(ScriptedWriter {
                inner,
                path: path.to_owned(),
                script: Arc::clone(&self.script),
            }) as Box<dyn ObjectWriter>)
        }
        .boxed()
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        async move {
            match self.script.fate(Verb::Delete, path).await {
                Fate::Happens | Fate::Twice | Fate::Stale(_) => self.inner.delete(path).await,
                Fate::Fails | Fate::Late => Err(self.failed(path)),
                Fate::AnswerLost => {
                    drop(self.inner.delete(path).await);
                    Err(self.failed(path))
                }
            }
        }
        .boxed()
    }

    fn sync<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<()>> {
        let request = self.inner.sync(prefix);
        self.ask(Verb::Sync, prefix, request).boxed()
    }
}

/// A streamed object whose last request has the fate that the script decides.
#[derive(Debug)]
struct ScriptedWriter {
    inner: Box<dyn ObjectWriter>,
    path: String,
    script: Arc<dyn Script>,
}

impl ObjectWriter for ScriptedWriter {
    fn path(&self) -> &str {
        self.inner.path()
    }

    fn position(&self) -> u64 {
        self.inner.position()
    }

    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<()>> {
        self.inner.write(bytes)
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<u64>> {
        let Self {
            inner,
            path,
            script,
        } = *self;
        let shown = inner.path().to_owned();
        async move {
            let fate = script.fate(Verb::Finish, &path).await;
            let failed = |source| Error::Io {
                path: shown,
                operation: "finish the object",
                source,
            };
            match fate {
                Fate::Happens | Fate::Twice | Fate::Stale(_) => inner.finish().await,
                Fate::Fails | Fate::Late => Err(failed(io::ErrorKind::ConnectionRefused.into())),
                Fate::AnswerLost => {
                    drop(inner.finish().await);
                    Err(failed(lost()))
                }
            }
        }
        .boxed()
    }
}
