//! Where bytes live: the folder of a table on a local disk, in memory or in an object store.
//!
//! [`Store::open`] takes what a user writes and gives the root folder of one table. Below it, paths are
//! relative and checked, so a manifest cannot name a file elsewhere. Four verbs carry everything above:
//!
//! - [`Store::open_file`] gives a [`ReadAt`]: ranges of an immutable object, coalesced once, without a copy
//!   where the object is mapped or in memory;
//! - [`Store::create`] writes an object if its name is free: the instant of every commit;
//! - [`Store::writer`] streams a new object under a unique name;
//! - [`Store::list_first`] finds the newest manifest.
//!
//! Local writes are acknowledged when they survive a power cut; see [`Durability`]. A write whose fate is
//! unknown is [`Error::Unclear`], never a plain failure. [`Counters`] tell what it all cost. Where a store cannot
//! create an object only if it is absent, a [`ManifestRegister`] beside it decides which manifest a version has.
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

mod clock;
mod counters;
mod error;
mod examine;
pub mod failpoint;
mod local;
mod location;
mod map;
mod object;
mod objects;
mod options;
mod path;
mod read_at;
mod register;
mod store;
#[cfg(feature = "testing")]
pub mod testing;

pub use clock::time_stands_still;
pub use counters::Counters;
pub use error::{Error, Result};
pub use examine::{CHECKS, Check, Examination, examine};
pub use object::{Durability, Listed, Names, ObjectStat, ObjectWriter};
pub use options::StorageOptions;
pub use path::path_fault;
pub use read_at::ReadAt;
pub use register::{ManifestRegister, RegisterEntry};
pub use store::Store;
