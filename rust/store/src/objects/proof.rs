//! Tests that a store with the API of S3 keeps the rules that commits rely on: a conditional put fails when the object exists,
//! or, for commits that replace an object, when it is not the one that the writer had read.
//!
//! Amazon, Google and Microsoft promise this. Other stores with the API of S3 may ignore the condition, and then two writers
//! both believe that they created the next version. Therefore the first conditional put of a process to such a bucket is
//! preceded by two puts of a scratch object, the second of which must fail. Each of the two conditions has its own test.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};

use super::bucket::{Bucket, Source};
use crate::error::{Error, Result};
use crate::event;
use crate::path::{STAGED_PREFIX, unique_name};

/// Buckets that passed the test, by address, for stores that are opened later. The lock is tried and never waited for: not
/// knowing costs three requests.
static PROVEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Buckets that passed the test of replacing.
static REPLACING: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The error of a store in which no version can be committed.
pub(super) fn no_creation(shown: &str) -> Error {
    Error::unsupported(
        "creating an object only if it is absent (a put with If-None-Match), which commits need: use a store that \
         honours it, or an external manifest store; to this store it",
        shown,
    )
}

impl Bucket {
    /// Tests the bucket of the store. No request for Amazon, Google and Microsoft; three, once per process, for other
    /// stores.
    pub(super) async fn prove_creation(
        &self,
        client: &dyn ObjectStore,
        key: &Key,
        shown: &str,
    ) -> Result<()> {
        let Source::Cloud(clients) = &self.source else {
            return Ok(());
        };
        let Some(bucket) = clients.foreign_s3() else {
            return Ok(());
        };
        let is_proven = &clients.is_proven;
        if is_proven.load(Ordering::Relaxed) || is_in(&PROVEN, &bucket) {
            return Ok(());
        }
        let second = self.second_put(client, key, shown, PutMode::Create).await?;
        match second {
            Ok(()) => Err(no_creation(shown)),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => {
                is_proven.store(true, Ordering::Relaxed);
                if let Ok(mut proven) = PROVEN.try_lock() {
                    proven.insert(bucket);
                }
                Ok(())
            }
            Err(error) => {
                Err(self.not_tested(shown, error, "test whether the store honours If-None-Match"))
            }
        }
    }

    /// As [`prove_creation`](Self::prove_creation), for puts that replace an object if it is the expected one.
    pub(super) async fn prove_replacement(
        &self,
        client: &dyn ObjectStore,
        key: &Key,
        shown: &str,
    ) -> Result<()> {
        let Source::Cloud(clients) = &self.source else {
            return Ok(());
        };
        let Some(bucket) = clients.foreign_s3() else {
            return Ok(());
        };
        if is_in(&REPLACING, &bucket) {
            return Ok(());
        }
        let another = PutMode::Update(UpdateVersion {
            e_tag: Some("\"00000000000000000000000000000000\"".to_owned()),
            version: None,
        });
        match self.second_put(client, key, shown, another).await? {
            Ok(()) => Err(Error::unsupported(
                "replacing an object only if it is unchanged (a put with If-Match), which commits need: use a store that \
                 honours it; to this store it",
                shown,
            )),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => {
                if let Ok(mut replacing) = REPLACING.try_lock() {
                    replacing.insert(bucket);
                }
                Ok(())
            }
            Err(error) => {
                Err(self.not_tested(shown, error, "test whether the store honours If-Match"))
            }
        }
    }

    /// Creates a scratch object beside `key`, and returns what a second put of it with a condition yields.
    async fn second_put(
        &self,
        client: &dyn ObjectStore,
        key: &Key,
        shown: &str,
        mode: PutMode,
    ) -> Result<object_store::Result<()>> {
        let name = unique_name(STAGED_PREFIX);
        let name = name.map_err(|source| Error::io(shown, "choose a name", source))?;
        let folder = key
            .as_ref()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        let scratch = match folder {
            "" => Key::from(name),
            folder => Key::from(format!("{folder}/{name}")),
        };
        let second = match put(client, &scratch, PutMode::Create).await {
            Ok(()) => put(client, &scratch, mode).await,
            Err(error) => Err(error),
        };
        if let Err(error) = client.delete(&scratch).await {
            let error = self.failed(shown, "delete a scratch object", error);
            tracing::warn!(target: event::CLEANUP, %error, object = %scratch, "a scratch object was not removed");
        }
        Ok(second)
    }

    /// Only the scratch object may have been written, so the object of the caller is as it was.
    fn not_tested(
        &self,
        shown: &str,
        error: object_store::Error,
        operation: &'static str,
    ) -> Error {
        match self.write_failed(shown, error) {
            Error::Unclear { path, source } => Error::Io {
                path,
                operation,
                source,
            },
            error => error,
        }
    }
}

fn is_in(buckets: &Mutex<BTreeSet<String>>, bucket: &str) -> bool {
    buckets.try_lock().is_ok_and(|it| it.contains(bucket))
}

async fn put(client: &dyn ObjectStore, key: &Key, mode: PutMode) -> object_store::Result<()> {
    let options = PutOptions {
        mode,
        ..PutOptions::default()
    };
    let bytes = PutPayload::from_static(b"proof");
    client.put_opts(key, bytes, options).await.map(drop)
}
