//! Opening files and folders beneath the root of a table, in one step.
//!
//! A path is never resolved first and opened afterwards: a symbolic link that appears in between would lead the open
//! call out of the table. The kernel resolves and opens at once (`openat2` with `RESOLVE_BENEATH`). It refuses absolute
//! links, also those that stay inside, and older kernels do not have the call. Then the path is resolved here, and what
//! it leads to is opened component by component without following any link (`O_NOFOLLOW`): a link that appears in
//! between is an error.
//!
//! Links inside the root that lead to places inside the root are followed. The root itself may be a link.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::error::Error;

/// Opens an entry to look at it or to name entries in it, without the right to read it.
#[cfg(target_os = "linux")]
pub(super) const LOOK: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
pub(super) const LOOK: OFlags = OFlags::RDONLY;

/// An open folder: calls that take it find its entries wherever its path may lead by then.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    fd: OwnedFd,
    path: PathBuf,
}

impl OpenFolder {
    /// The folder at a path that the user chose: the root of a table, or a folder above it. Links are followed.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let flags = LOOK | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            fd: openat(CWD, path, flags, Mode::empty())?,
            path: path.to_path_buf(),
        })
    }

    /// The folder `relative` beneath this one; the folder itself for the empty path.
    pub(super) fn folder(&self, relative: &str) -> Result<Self, Refused> {
        let path = match relative {
            "" => self.path.clone(),
            _ => self.path.join(relative),
        };
        let fd = self.open(relative, LOOK | OFlags::DIRECTORY)?;
        Ok(Self { fd, path })
    }

    /// Opens the entry `relative` beneath this folder.
    pub(super) fn open(&self, relative: &str, flags: OFlags) -> Result<OwnedFd, Refused> {
        let flags = flags | OFlags::CLOEXEC;
        if relative.is_empty() {
            return Ok(openat(&self.fd, ".", flags, Mode::empty())?);
        }
        match open_beneath(&self.fd, relative, flags) {
            // The kernel has no such call, may not answer it, or met a link that it does not follow.
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::XDEV | Errno::AGAIN) => {
                self.open_resolved(relative, flags)
            }
            other => Ok(other?),
        }
    }

    /// Resolves the links of `relative`, then opens what they lead to without following any.
    fn open_resolved(&self, relative: &str, flags: OFlags) -> Result<OwnedFd, Refused> {
        let root = fs::canonicalize(&self.path)?;
        let full = self.path.join(relative);
        let (real, is_whole) = self.resolve_existing(&full)?;
        let Ok(inside) = real.strip_prefix(&root) else {
            return Err(Refused::Outside(
                "a symbolic link leads out of the folder of the table",
            ));
        };
        if !is_whole {
            return Err(Errno::NOENT.into());
        }
        self.open_without_links(inside, flags)
    }

    /// What as much of `full` as exists leads to, and whether that is all of it.
    fn resolve_existing(&self, full: &Path) -> Result<(PathBuf, bool), Refused> {
        let mut existing = full;
        loop {
            match fs::canonicalize(existing) {
                Ok(real) => return Ok((real, existing == full)),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                Err(error) => {
                    if fs::symlink_metadata(existing).is_ok_and(|found| found.is_symlink()) {
                        return Err(Refused::Outside(TO_NOWHERE));
                    }
                    existing = match existing.parent() {
                        Some(parent) if existing != self.path => parent,
                        _ => return Err(error.into()),
                    };
                }
            }
        }
    }

    fn open_without_links(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Refused> {
        let step = |folder: &OwnedFd, name: &Path, flags: OFlags| {
            let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(folder, name, flags, Mode::empty()) {
                Err(Errno::LOOP | Errno::NOTDIR) => Err(Refused::Outside(
                    "a part of its path became a symbolic link while it was opened",
                )),
                other => Ok(other?),
            }
        };
        let mut names = path.iter().map(Path::new);
        let Some(last) = names.next_back() else {
            return Ok(openat(&self.fd, ".", flags, Mode::empty())?);
        };
        let mut folder = None;
        for name in names {
            let next = step(
                folder.as_ref().unwrap_or(&self.fd),
                name,
                LOOK | OFlags::DIRECTORY,
            )?;
            folder = Some(next);
        }
        step(folder.as_ref().unwrap_or(&self.fd), last, flags)
    }

    /// The descriptor, to name entries of the folder in system calls.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The folder as a descriptor that can be read and flushed.
    pub(super) fn readable(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(&self.fd, ".", flags, Mode::empty())?)
    }

    /// The path by which the folder was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Why a link that leads to no file is refused: a file created through it could lie anywhere.
pub(super) const TO_NOWHERE: &str = "it is a symbolic link to nowhere";

/// Why something beneath a root was not opened.
#[derive(Debug)]
pub(super) enum Refused {
    /// It would leave the root, for this reason.
    Outside(&'static str),
    Io(io::Error),
}

impl Refused {
    /// The error of `operation` on the object at `path`.
    pub(super) fn into_error(self, path: &str, operation: &'static str) -> Error {
        match self {
            Self::Outside(reason) => Error::OutsideRoot {
                path: path.to_owned(),
                reason,
            },
            Self::Io(source) => Error::io(path, operation, source),
        }
    }

    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// The kernel gives up with `EAGAIN` when folders are renamed while it resolves `..`.
#[cfg(target_os = "linux")]
const MAX_TRIES: usize = 8;

#[cfg(target_os = "linux")]
fn open_beneath(root: &OwnedFd, relative: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        tries += 1;
        match openat2(root, relative, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) if tries < MAX_TRIES => {}
            other => return other,
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(_: &OwnedFd, _: &str, _: OFlags) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOSYS)
}

#[cfg(test)]
mod tests;
