//! Writing a file until the store says that it is there, and removing files that no version names.

use bytes::Bytes;
use pilum_store::Store;

use crate::error::Result;

/// Removes files that no version names. What cannot be removed is an orphan, which cleanup takes.
pub(crate) async fn remove_files(store: &Store, paths: &[String]) {
    for path in paths {
        let _ = store.delete(path).await;
    }
}

/// Writes a file whose name is ours alone, so that an unclear answer is settled by writing again.
pub(crate) async fn put_certainly(
    store: &Store,
    path: &str,
    bytes: &Bytes,
    operation: &'static str,
) -> Result<()> {
    Ok(insist(operation, || store.put(path, bytes.clone())).await?)
}

/// Asks again while there is no answer, for requests of which a second one does no harm. That there never was one is a
/// plain failure: no version was offered to anybody yet.
pub(crate) async fn insist<F>(
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
