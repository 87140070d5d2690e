//! Tables in object stores and in memory, through the crate `object_store`. Creating an object only if it is absent is a
//! conditional put; no object is renamed or copied.

mod bucket;
#[cfg(feature = "cloud")]
mod cloud;
#[cfg(feature = "cloud")]
mod connect;
mod failed;
mod folder;
mod gather;
mod list;
mod memory;
#[cfg(feature = "cloud")]
mod once;
#[cfg(feature = "cloud")]
mod parts;
#[cfg(feature = "cloud")]
mod proof;
mod read;

#[cfg(feature = "cloud")]
pub(crate) use cloud::Clients;
#[cfg(feature = "cloud")]
pub(crate) use connect::{BoundConnector, refusal};
pub(crate) use folder::ObjectFolder;
#[cfg(feature = "cloud")]
pub(crate) use once::OncePerProcess;
