//! Files written piece by piece: data files, whose names are unique, so they are written in place.

use std::fs::File;
use std::io;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use super::publish::failed;
use super::writeback::{self, WRITEBACK_BYTES};
use super::{LocalFolder, Target, disk};
use crate::error::{Error, Result};
use crate::failpoint::hit;
use crate::object::{Durability, ObjectWriter};

/// Small writes are gathered up to this; larger ones go straight to the kernel.
const BUFFER_BYTES: usize = 1 << 20;

impl LocalFolder {
    /// Begin the new file `path`; its name is taken from now on, its content counts when finished.
    pub(crate) fn writer(&self, path: &str) -> Result<Box<dyn ObjectWriter>> {
        let target = self.target(path)?;
        self.ready_folder(&target)?;
        let opened =
            hit("writer.before_create", &target.shown).and_then(|()| disk::create(&target.full));
        match opened {
            Ok(file) => Ok(Box::new(LocalWriter {
                folder: self.clone(),
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
    folder: LocalFolder,
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
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= BUFFER_BYTES {
            return self.write_through(bytes);
        }
        if self.buffer.capacity() == 0 {
            self.buffer.reserve_exact(BUFFER_BYTES);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let buffer = std::mem::take(&mut self.buffer);
        self.write_through(&buffer)?;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    fn write_through(&mut self, bytes: &[u8]) -> io::Result<()> {
        hit("writer.before_write", &self.target.shown)?;
        disk::append(&self.file, &self.target.full, bytes)?;
        self.folder.tally.write(bytes.len());
        self.in_kernel += bytes.len() as u64;
        if self.folder.durability == Durability::Full
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
        let completed = self.flush().and_then(|()| {
            hit("writer.before_fsync", &self.target.shown)?;
            self.folder.sync_file(&self.file, &self.target.full)?;
            hit("writer.after_fsync", &self.target.shown)?;
            hit("writer.before_folder_fsync", &self.target.shown)?;
            self.folder.sync_folder_of(&self.target)?;
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
        ready(self.complete()).boxed()
    }
}

impl Drop for LocalWriter {
    fn drop(&mut self) {
        if !self.is_complete {
            // What cannot be removed is an orphan for cleanup.
            let _ = disk::remove(&self.target.full);
        }
    }
}
