//! Streamed writes of data files. Their names are used once, so they are written under their final names.

use std::fs::File;
use std::io;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use super::beneath::OpenFolder;
use super::failed::failed;
use super::writeback::{self, WRITEBACK_BYTES};
use super::{LocalFolder, Target};
use crate::error::{Error, Result};
use crate::event;
use crate::failpoint::hit;
use crate::object::{Durability, ObjectWriter};

/// The file grows by multiples of this; the rest is buffered. A page cache that was filled in units of huge pages is mapped by
/// huge pages, so that readers of the file miss fewer address translations.
const BLOCK_BYTES: usize = 2 << 20;

impl LocalFolder {
    /// Begins the new file `path`: its name is taken from now on, its content is complete when it is finished.
    pub(super) fn writer_now(&self, path: &str) -> Result<Box<dyn ObjectWriter>> {
        let target = self.target(path)?;
        let found = self.find_folder(target.folder(), &target.shown)?;
        if let Some(folder) = &found
            && self.is_taken(folder, &target)?
        {
            return Err(Error::AlreadyExists { path: target.shown });
        }
        let folder = self.ready_folder(&target, found)?;
        let created = hit("writer.before_create", &target.shown)
            .and_then(|()| self.disk.create(&folder, target.name()));
        match created {
            Ok(file) => Ok(Box::new(LocalWriter {
                store: self.clone(),
                folder,
                target,
                file,
                buffer: Vec::new(),
                position: 0,
                in_kernel: 0,
                in_writeback: 0,
                is_failed: false,
                is_complete: false,
            })),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Error::AlreadyExists { path: target.shown })
            }
            Err(source) => Err(failed(&target, "begin a new file", source)),
        }
    }
}

#[derive(Debug)]
struct LocalWriter {
    store: LocalFolder,
    folder: OpenFolder,
    target: Target,
    file: File,
    buffer: Vec<u8>,
    position: u64,
    /// Bytes that were written to the kernel, and those of them that it was asked to write to the device.
    in_kernel: u64,
    in_writeback: u64,
    /// Something is missing in the file: it must not be finished.
    is_failed: bool,
    is_complete: bool,
}

impl LocalWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.is_failed {
            let source = io::Error::other("an earlier write of this file failed");
            return Err(failed(&self.target, "continue the file", source));
        }
        let appended = self.append_buffered(bytes);
        self.is_failed = appended.is_err();
        appended.map_err(|source| failed(&self.target, "write the file", source))?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn append_buffered(&mut self, bytes: &[u8]) -> io::Result<()> {
        let kept = self.buffer.len() + bytes.len();
        let beyond = kept % BLOCK_BYTES;
        let mut left = bytes;
        if kept >= BLOCK_BYTES {
            // The rest is part of `bytes`, because the buffer holds less than a block.
            let (now, later) = bytes.split_at(bytes.len() - beyond);
            self.write_through(now)?;
            left = later;
        }
        if self.buffer.capacity() == 0 && !left.is_empty() {
            self.buffer.reserve_exact(BLOCK_BYTES);
        }
        self.buffer.extend_from_slice(left);
        Ok(())
    }

    /// Writes the buffer and then these bytes to the kernel.
    fn write_through(&mut self, bytes: &[u8]) -> io::Result<()> {
        let num_bytes = self.buffer.len() + bytes.len();
        if num_bytes == 0 {
            return Ok(());
        }
        hit("writer.before_write", &self.target.shown)?;
        let bytes = [&self.buffer, bytes];
        self.store
            .disk
            .append(&self.file, &self.target.full, bytes)?;
        self.buffer.clear();
        self.store.tally.write(num_bytes);
        self.in_kernel += num_bytes as u64;
        if self.store.durability == Durability::Full
            && self.in_kernel - self.in_writeback >= WRITEBACK_BYTES
        {
            writeback::begin(&self.file, self.in_writeback..self.in_kernel);
            self.in_writeback = self.in_kernel;
        }
        hit("writer.after_write", &self.target.shown)
    }

    /// After a failure the file does not exist: nothing refers to it yet, and dropping the writer removes it.
    fn complete(&mut self) -> Result<u64> {
        // Also refuses after an earlier failure.
        self.append(&[])?;
        let completed = self.write_through(&[]).and_then(|()| {
            hit("writer.before_fsync", &self.target.shown)?;
            self.store.sync_file(&self.file, &self.target.full)?;
            hit("writer.after_fsync", &self.target.shown)?;
            hit("writer.before_folder_fsync", &self.target.shown)?;
            self.store.sync_names(&self.folder)?;
            hit("writer.after_folder_fsync", &self.target.shown)
        });
        completed.map_err(|source| failed(&self.target, "finish the file", source))?;
        self.is_complete = true;
        Ok(self.position)
    }
}

impl ObjectWriter for LocalWriter {
    fn path(&self) -> &str {
        &self.target.shown
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<()>> {
        ready(self.append(&bytes)).boxed()
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<u64>> {
        async move {
            let begun = event::publish_begun();
            let finished = self.complete();
            let path = (self.target.shown.as_str(), "");
            event::published("finish", path, self.position, begun, &finished);
            finished
        }
        .boxed()
    }
}

impl Drop for LocalWriter {
    fn drop(&mut self) {
        if !self.is_complete {
            self.store.discard(&self.folder, self.target.name());
        }
    }
}
