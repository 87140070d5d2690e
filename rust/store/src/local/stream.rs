//! Files written piece by piece: data files, whose names are unique, so they are written in place.

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

/// Bytes go to the kernel up to a multiple of this in the file; what is beyond is kept for the next time. A page cache that
/// is filled by whole huge pages is mapped by huge pages: readers of the file then miss fewer address translations.
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
                on_the_way: 0,
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
    /// Bytes handed to the kernel, and those of them that it was asked to bring to the device.
    in_kernel: u64,
    on_the_way: u64,
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
            // What is beyond came now: the buffer has less than a block.
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

    /// Hands the buffer, and these bytes after it, to the kernel.
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
            && self.in_kernel - self.on_the_way >= WRITEBACK_BYTES
        {
            writeback::begin(&self.file, self.on_the_way..self.in_kernel);
            self.on_the_way = self.in_kernel;
        }
        hit("writer.after_write", &self.target.shown)
    }

    /// A failure here is certain: nothing refers to the file yet, and dropping removes it.
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
            let (path, bytes) = (self.target.shown.clone(), self.position);
            let finished = async { self.complete() };
            event::publish("finish", (&path, ""), bytes, finished).await
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
