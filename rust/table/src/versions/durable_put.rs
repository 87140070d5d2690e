//! Writing a file until the store says that it is there, and removing files that no version names.

use bytes::Bytes;
use pilum_store::Store;

use crate::error::Result;
use crate::versions::event;

/// Removes files that no version names. A file that cannot be removed now is a warning in the log, and an orphan, which a
/// later cleanup removes.
pub(crate) async fn remove_files(store: &Store, paths: &[String]) {
    for path in paths {
        remove_file(store, path).await;
    }
}

/// As [`remove_files`], of one file.
pub(crate) async fn remove_file(store: &Store, path: &str) {
    if let Err(error) = store.delete(path).await {
        event::left_behind(store, path, &error);
    }
}

/// Writes a file under a name that no other writer uses. An unknown outcome is resolved by writing the same bytes again.
pub(crate) async fn durable_put(
    store: &Store,
    path: &str,
    bytes: &Bytes,
    operation: &'static str,
) -> Result<()> {
    Ok(resolve(operation, || store.put(path, bytes.clone())).await?)
}

/// Repeats a request while its outcome is unknown; only for requests that do no harm when they arrive twice. An outcome
/// that stays unknown is reported as a failure, because no version has been published yet.
pub(crate) async fn resolve<F>(
    operation: &'static str,
    request: impl Fn() -> F,
) -> pilum_store::Result<()>
where
    F: Future<Output = pilum_store::Result<()>>,
{
    let mut result = request().await;
    for _ in 0..3 {
        if !matches!(result, Err(pilum_store::Error::Unclear { .. })) {
            break;
        }
        result = request().await;
    }
    match result {
        Err(pilum_store::Error::Unclear { path, source }) => Err(pilum_store::Error::Io {
            path,
            operation,
            source,
        }),
        result => result,
    }
}
