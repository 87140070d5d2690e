//! [`Disk`]: the calls that change a disk, in one place. What a power cut may undo, reorder or tear is exactly what
//! passes here, so tests implement the trait once more to record the calls and to play every cut through.

use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, linkat, mkdirat, openat, renameat, unlinkat};

use super::beneath::OpenFolder;

/// The calls that change a disk. Names are single components: none of the calls follows a link.
pub(crate) trait Disk: Send + Sync + fmt::Debug {
    /// Creates an empty file; fails if the name is taken.
    fn create(&self, folder: &OpenFolder, name: &str) -> io::Result<File>;

    /// Appends bytes to a new file, those of both slices in one call where the system does so.
    fn append(&self, file: &File, path: &Path, bytes: [&[u8]; 2]) -> io::Result<()>;

    /// Makes the bytes of a file durable.
    fn flush(&self, file: &File, path: &Path) -> io::Result<()>;

    /// Gives `file`, whose name is `from`, a second name; fails if that is taken.
    fn link(&self, folder: &OpenFolder, file: &File, from: &str, to: &str) -> io::Result<()>;

    /// Gives a file another name; a file that had it is gone.
    fn rename(&self, folder: &OpenFolder, from: &str, to: &str) -> io::Result<()>;

    /// Gives a file another name; fails if that is taken, or if the file system has no such call.
    fn rename_if_free(&self, folder: &OpenFolder, from: &str, to: &str) -> io::Result<()>;

    /// Removes the name of a file.
    fn remove(&self, folder: &OpenFolder, name: &str) -> io::Result<()>;

    /// Creates a folder; fails if the name is taken.
    fn create_folder(&self, parent: &OpenFolder, name: &str) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn flush_folder(&self, folder: &OpenFolder) -> io::Result<()>;
}

/// The disk of this machine.
#[derive(Debug)]
pub(crate) struct SystemDisk;

impl Disk for SystemDisk {
    fn create(&self, folder: &OpenFolder, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        Ok(File::from(openat(folder.fd(), name, flags, mode)?))
    }

    fn append(&self, file: &File, _path: &Path, bytes: [&[u8]; 2]) -> io::Result<()> {
        write_all_vectored(file, bytes)
    }

    fn flush(&self, file: &File, _path: &Path) -> io::Result<()> {
        file.sync_all()
    }

    fn link(&self, folder: &OpenFolder, file: &File, from: &str, to: &str) -> io::Result<()> {
        let linked = linkat(folder.fd(), from, folder.fd(), to, AtFlags::empty());
        linked.or_else(|errno| {
            // On a network file system a link may happen while its answer is lost: then the file has two names. If
            // they cannot be counted, the error of the call stands.
            match file.metadata() {
                Ok(metadata) if metadata.nlink() >= 2 => Ok(()),
                _ => Err(errno.into()),
            }
        })
    }

    fn rename(&self, folder: &OpenFolder, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(folder.fd(), from, folder.fd(), to)?)
    }

    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    fn rename_if_free(&self, folder: &OpenFolder, from: &str, to: &str) -> io::Result<()> {
        use rustix::fs::{RenameFlags, renameat_with};
        let free = RenameFlags::NOREPLACE;
        Ok(renameat_with(folder.fd(), from, folder.fd(), to, free)?)
    }

    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    fn rename_if_free(&self, _: &OpenFolder, _: &str, _: &str) -> io::Result<()> {
        Err(rustix::io::Errno::NOSYS.into())
    }

    fn remove(&self, folder: &OpenFolder, name: &str) -> io::Result<()> {
        Ok(unlinkat(folder.fd(), name, AtFlags::empty())?)
    }

    fn create_folder(&self, parent: &OpenFolder, name: &str) -> io::Result<()> {
        Ok(mkdirat(parent.fd(), name, Mode::from_raw_mode(0o777))?)
    }

    fn flush_folder(&self, folder: &OpenFolder) -> io::Result<()> {
        File::from(folder.readable()?).sync_all()
    }
}

fn write_all_vectored(mut file: &File, bytes: [&[u8]; 2]) -> io::Result<()> {
    let mut slices = bytes.map(IoSlice::new);
    let mut left = slices.as_mut_slice();
    // Empty slices are passed over: a call that writes nothing then means that nothing can be written.
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match file.write_vectored(left) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
