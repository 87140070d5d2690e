//! A store that does as a script says: each request waits for its turn, and then happens, fails, loses its
//! answer, arrives twice, arrives late, or sees an old listing.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use crate::error::{Error, Result};
use crate::object::{Listed, ObjectStat, ObjectWriter};
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
    /// Make deletions last.
    Sync,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It happens and is answered.
    Happens,
    /// It does not happen, and the caller is told so.
    Fails,
    /// It happens, and nobody is told.
    AnswerLost,
    /// It arrives twice; the second answer is the one that is seen.
    Twice,
    /// Nobody is told, and it happens when the script delivers it. Only for [`Verb::Create`] and [`Verb::Put`].
    Late,
    /// A listing without its `n` first names, which in `_versions` are the newest.
    Stale(usize),
}

/// Decides about the requests of one store.
pub trait Script: Send + Sync + fmt::Debug {
    /// The fate of the next request. It may wait: until then nothing happens.
    fn fate(&self, verb: Verb, path: &str) -> BoxFuture<'_, Fate>;

    /// Takes a request that is to happen later.
    fn later(&self, request: Late) {
        drop(request);
    }
}

/// A request on its way.
#[derive(Debug)]
pub struct Late {
    inner: Store,
    verb: Verb,
    path: String,
    bytes: Bytes,
}

impl Late {
    /// It arrives. Nobody hears the answer.
    pub async fn deliver(self) {
        let _ = match self.verb {
            Verb::Put => self.inner.put(&self.path, self.bytes).await,
            _ => self.inner.create(&self.path, self.bytes).await,
        };
    }
}

/// A store and its script.
#[derive(Debug)]
pub(crate) struct ScriptedFolder {
    inner: Store,
    script: Arc<dyn Script>,
}

fn lost() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer came")
}

impl ScriptedFolder {
    pub(crate) fn new(inner: Store, script: Arc<dyn Script>) -> Self {
        Self { inner, script }
    }

    pub(crate) fn inner(&self) -> &Store {
        &self.inner
    }

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

    /// A request that changes nothing: its answer comes, or it does not.
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

    pub(crate) fn open<'a>(
        &'a self,
        path: &'a str,
        size: Option<u64>,
    ) -> BoxFuture<'a, Result<Arc<dyn ReadAt>>> {
        let request = self.inner.open_file(path, size);
        self.ask(Verb::Open, path, request).boxed()
    }

    pub(crate) fn read<'a>(&'a self, path: &'a str, limit: u64) -> BoxFuture<'a, Result<Bytes>> {
        let request = self.inner.read(path, limit);
        self.ask(Verb::Read, path, request).boxed()
    }

    pub(crate) fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<ObjectStat>> {
        self.ask(Verb::Stat, path, self.inner.stat(path)).boxed()
    }

    /// The `count` first names, as the script lets them be seen.
    pub(crate) fn list<'a>(
        &'a self,
        prefix: &'a str,
        count: usize,
    ) -> BoxFuture<'a, Result<Vec<Listed>>> {
        async move {
            let fate = self.script.fate(Verb::List, prefix).await;
            let skipped = match fate {
                Fate::Fails | Fate::AnswerLost | Fate::Late => return Err(self.failed(prefix)),
                Fate::Stale(names) => names,
                Fate::Happens | Fate::Twice => 0,
            };
            let listed = self.inner.list(prefix).await?;
            Ok(listed.into_iter().skip(skipped).take(count).collect())
        }
        .boxed()
    }

    pub(crate) fn list_recursive<'a>(
        &'a self,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Listed>>> {
        let request = self.inner.list_recursive(prefix);
        self.ask(Verb::List, prefix, request).boxed()
    }

    pub(crate) fn create<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        self.change(Verb::Create, path, bytes).boxed()
    }

    pub(crate) fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        self.change(Verb::Put, path, bytes).boxed()
    }

    async fn change(&self, verb: Verb, path: &str, bytes: Bytes) -> Result<()> {
        let happen = || async {
            match verb {
                Verb::Put => self.inner.put(path, bytes.clone()).await,
                _ => self.inner.create(path, bytes.clone()).await,
            }
        };
        match self.script.fate(verb, path).await {
            Fate::Happens | Fate::Stale(_) => happen().await,
            Fate::Fails => Err(self.failed(path)),
            Fate::AnswerLost => {
                let _ = happen().await;
                Err(self.unclear(path))
            }
            Fate::Twice => {
                let _ = happen().await;
                happen().await
            }
            Fate::Late => {
                self.script.later(Late {
                    inner: self.inner.clone(),
                    verb,
                    path: path.to_owned(),
                    bytes,
                });
                Err(self.unclear(path))
            }
        }
    }

    pub(crate) fn writer<'a>(
        &'a self,
        path: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn ObjectWriter>>> {
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

    pub(crate) fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        async move {
            match self.script.fate(Verb::Delete, path).await {
                Fate::Happens | Fate::Twice | Fate::Stale(_) => self.inner.delete(path).await,
                Fate::Fails | Fate::Late => Err(self.failed(path)),
                Fate::AnswerLost => {
                    let _ = self.inner.delete(path).await;
                    Err(self.failed(path))
                }
            }
        }
        .boxed()
    }

    pub(crate) fn sync_folder<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<()>> {
        let request = self.inner.sync_folder(prefix);
        self.ask(Verb::Sync, prefix, request).boxed()
    }
}

/// A streamed object whose end is the script's.
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
                    let _ = inner.finish().await;
                    Err(failed(lost()))
                }
            }
        }
        .boxed()
    }
}

/// A script under which everything happens.
#[derive(Debug, Default)]
pub struct Obedient;

impl Script for Obedient {
    fn fate(&self, _verb: Verb, _path: &str) -> BoxFuture<'_, Fate> {
        ready(Fate::Happens).boxed()
    }
}
