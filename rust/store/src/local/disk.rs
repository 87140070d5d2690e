//! The calls that change a disk, in one place: what a power cut may undo, reorder or tear is exactly what passes
//! here, so a test that keeps a record of them (feature `testing`) can play every cut through.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::path::Path;

#[cfg(feature = "testing")]
use crate::testing::record::{Change, begin_flush, note};

/// A new, empty file; its name must be free.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    #[cfg(feature = "testing")]
    note(path, || Change::Create(path.to_path_buf()));
    Ok(file)
}

/// Bytes at the end of a new file, those of both slices in one call where the system does so.
pub(super) fn append(file: &File, path: &Path, bytes: [&[u8]; 2]) -> io::Result<()> {
    write_all_vectored(file, bytes)?;
    #[cfg(feature = "testing")]
    note(path, || Change::Append(path.to_path_buf(), bytes.concat()));
    #[cfg(not(feature = "testing"))]
    let _ = path;
    Ok(())
}

fn write_all_vectored(mut file: &File, bytes: [&[u8]; 2]) -> io::Result<()> {
    let mut slices = bytes.map(IoSlice::new);
    let mut left = slices.as_mut_slice();
    // Empty ones are passed over, so that nothing written means that nothing can be.
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

/// The bytes of a file are stable.
pub(super) fn flush(file: &File, path: &Path) -> io::Result<()> {
    #[cfg(feature = "testing")]
    let number = begin_flush(path);
    file.sync_all()?;
    #[cfg(feature = "testing")]
    note(path, || Change::Flush(path.to_path_buf(), number));
    #[cfg(not(feature = "testing"))]
    let _ = path;
    Ok(())
}

/// A second name for a file; it must be free.
pub(super) fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)?;
    linked(from, to);
    Ok(())
}

/// The link happened, whatever the kernel said.
pub(super) fn linked(from: &Path, to: &Path) {
    #[cfg(feature = "testing")]
    note(to, || Change::Link(from.to_path_buf(), to.to_path_buf()));
    #[cfg(not(feature = "testing"))]
    let _ = (from, to);
}

/// Another name for a file; what had it before is gone.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    renamed(from, to);
    Ok(())
}

/// A rename by other means.
pub(super) fn renamed(from: &Path, to: &Path) {
    #[cfg(feature = "testing")]
    note(to, || Change::Rename(from.to_path_buf(), to.to_path_buf()));
    #[cfg(not(feature = "testing"))]
    let _ = (from, to);
}

/// A name less.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    #[cfg(feature = "testing")]
    note(path, || Change::Remove(path.to_path_buf()));
    Ok(())
}

/// A new folder; its name must be free.
pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    #[cfg(feature = "testing")]
    note(path, || Change::CreateFolder(path.to_path_buf()));
    Ok(())
}

/// The names in a folder are stable.
pub(super) fn flush_folder(path: &Path) -> io::Result<()> {
    #[cfg(feature = "testing")]
    let number = begin_flush(path);
    File::open(path)?.sync_all()?;
    #[cfg(feature = "testing")]
    note(path, || Change::FlushFolder(path.to_path_buf(), number));
    Ok(())
}
