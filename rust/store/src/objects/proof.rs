//! Proof that a store which speaks S3 keeps the one rule that commits hang on: a conditional put fails when the
//! object exists.
//!
//! Amazon, Google and Microsoft promise it. Others that take S3's requests may ignore the condition, and then two
//! writers both believe that they made the next version. So the first conditional put of a process to such a
//! bucket is preceded by two of a scratch object, of which the second has to fail.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};

use super::{ObjectFolder, Source};
use crate::error::{Error, Result};
use crate::local::STAGED_PREFIX;
use crate::path::unique_name;

/// Buckets that were put to the proof, by address, for stores opened later. Only ever tried: not knowing costs three requests.
static PROVEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Why nothing can be committed here.
pub(super) fn no_creation(shown: &str) -> Error {
    Error::unsupported(
        "creating an object only if it is absent (a put with If-None-Match), which commits need: use a store that \
         honours it, or an external manifest store; to this store it",
        shown,
    )
}

impl ObjectFolder {
    /// Nothing for the large stores; three requests, once in a process, for the bucket of another.
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
        if is_proven.load(Ordering::Relaxed)
            || PROVEN
                .try_lock()
                .is_ok_and(|proven| proven.contains(&bucket))
        {
            return Ok(());
        }
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
        let first = put(client, &scratch).await;
        let second = match first {
            Ok(()) => put(client, &scratch).await,
            Err(error) => Err(error),
        };
        let _ = client.delete(&scratch).await;
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
            // Nothing that matters was written: whatever went wrong, the caller's object is not there.
            Err(error) => match self.write_failed(shown, error) {
                Error::Unclear { path, source } => Err(Error::Io {
                    path,
                    operation: "find out whether the store honours If-None-Match",
                    source,
                }),
                error => Err(error),
            },
        }
    }
}

async fn put(client: &dyn ObjectStore, key: &Key) -> object_store::Result<()> {
    let options = PutOptions {
        mode: PutMode::Create,
        ..PutOptions::default()
    };
    let bytes = PutPayload::from_static(b"proof");
    client.put_opts(key, bytes, options).await.map(drop)
}
