//! Files that are replaced only if nobody has replaced them since they were read.

use std::fs::File;

use bytes::Bytes;
use rustix::fs::fstat;

use super::failed::failed;
use super::read::pread;
use super::{LocalFolder, e_tag};
use crate::error::{Error, Result};
use crate::object::ObjectVersion;

impl LocalFolder {
    /// The whole file, unless it is larger than `limit`, and which file it is.
    pub(super) fn read_version_now(
        &self,
        path: &str,
        limit: u64,
    ) -> Result<(Bytes, ObjectVersion)> {
        let (file, _, target) = self.open_plain(path)?;
        let version = version_of(&file)
            .map_err(|source| Error::io(&target.shown, "read the file's size", source))?;
        let size = (file.metadata())
            .map_err(|source| Error::io(&target.shown, "read the file's size", source))?
            .len();
        if size > limit {
            return Err(Error::Limit {
                path: target.shown,
                size,
                limit,
            });
        }
        self.tally.read(size);
        let bytes = pread(&file, &(0..size))
            .map_err(|source| Error::io(target.shown, "read the file", source))?;
        Ok((bytes, version))
    }

    /// Replaces `path` if it is the file that `expected` describes. A file system has no such call: the caller holds the lock
    /// that all writers of the file take.
    pub(super) fn replace_now(
        &self,
        path: &str,
        bytes: &[u8],
        expected: &ObjectVersion,
    ) -> Result<()> {
        let changed = |shown: String| Error::Changed { path: shown };
        let (file, _, target) = match self.open_plain(path) {
            Err(Error::NotFound { path }) => return Err(changed(path)),
            opened => opened?,
        };
        let found = version_of(&file)
            .map_err(|source| failed(&target, "compare the file before it is replaced", source))?;
        if found != *expected {
            return Err(changed(target.shown));
        }
        self.put_now(path, bytes)
    }
}

fn version_of(file: &File) -> std::io::Result<ObjectVersion> {
    Ok(ObjectVersion {
        e_tag: Some(e_tag(&fstat(file)?)),
        generation: None,
    })
}
