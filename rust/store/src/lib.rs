//! Access to the root folder of one table, on a local disk, in memory or in an object store.
//!
//! [`Store::open`] takes a path or URL and returns the root folder of a table. Paths below it are relative and checked, so
//! that a manifest cannot name a file outside of the folder. Most callers need four requests:
//!
//! - [`Store::open_file`] opens an immutable object. Its [`ReadAt`] reads byte ranges: ranges near each other become one
//!   request, and mapped files and objects in memory are read without a copy.
//! - [`Store::create`] creates an object if its name is free. A commit happens in this request.
//! - [`Store::writer`] streams a new object under a unique name.
//! - [`Store::list_first`] finds the newest manifest.
//!
//! A local write is acknowledged when it survives a power cut; see [`Durability`]. A write that may or may not have
//! happened is [`Error::Unclear`]; after any other error of a write, nothing was written. [`Counters`] count requests and
//! bytes. Where a store cannot create an object only if it is absent, a [`ManifestRegister`] beside the store decides which
//! manifest a version has.
//!
//! ```
//! # futures::executor::block_on(async {
//! use pilum_store::{Error, StorageOptions, Store};
//!
//! let store = Store::open("memory://tour/table", &StorageOptions::new())?;
//! store.create("_versions/1.manifest", "first".into()).await?;
//! let second = store.create("_versions/1.manifest", "late".into()).await;
//! assert!(matches!(second, Err(Error::AlreadyExists { .. })));
//!
//! let file = store.open_file("_versions/1.manifest", None).await?;
//! assert_eq!(file.read_ranges(&[0..2, 3..5]).await?, ["fi", "st"]);
//! assert_eq!(store.counters().reads, 1);
//! # Ok::<(), Error>(())
//! # }).unwrap();
//! ```

mod counters;
mod error;
mod event;
mod examine;
pub mod failpoint;
mod folder;
mod local;
mod location;
mod map;
mod object;
mod objects;
mod options;
mod path;
mod process;
mod read_at;
mod register;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod timer;

pub use counters::Counters;
pub use error::{Error, Result};
pub use examine::{Check, Examination, examine};
pub use object::{Durability, Listed, Names, ObjectLock, ObjectStat, ObjectVersion, ObjectWriter};
pub use options::StorageOptions;
pub use process::ProcessGeneration;
pub use read_at::ReadAt;
pub use register::{ManifestRegister, RegisterEntry};
pub use store::Store;
pub use timer::Timer;
