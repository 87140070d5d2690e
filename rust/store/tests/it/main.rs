//! Tests of the public API of stores. The modules are named like those of the sources that they test.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]
#![expect(
    clippy::single_range_in_vec_init,
    reason = "one range is a list of ranges"
)]

mod event;
mod examine;
mod local;
mod objects;
mod testing;

use futures::FutureExt;
use pilum_store::{StorageOptions, Store};

/// Open a folder with no options.
pub(crate) fn open(uri: &str) -> Store {
    Store::open(uri, &StorageOptions::new()).unwrap()
}

/// Open a local folder that is read with system calls.
pub(crate) fn open_unmapped(uri: &str) -> Store {
    Store::open(uri, &StorageOptions::new().with("mmap", "false")).unwrap()
}

/// The output of a future that must be complete at its first poll: no runtime is needed.
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    future
        .now_or_never()
        .expect("local and memory stores never wait")
}

/// A temporary folder and its path.
pub(crate) fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}
