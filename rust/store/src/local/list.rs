//! Listing folders. `readdir` has no order, so "the first names" means reading all names and keeping few.

use std::fs;
use std::io;
use std::path::Path;

use super::{LocalFolder, STAGED_PREFIX, modified};
use crate::error::{Error, Result};
use crate::object::Listed;

impl LocalFolder {
    /// The files directly in `prefix` by name; a missing folder is empty.
    pub(crate) fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.list_first(prefix, usize::MAX)
    }

    /// The `count` files of `prefix` whose names are lexically first.
    pub(crate) fn list_first(&self, prefix: &str, count: usize) -> Result<Vec<Listed>> {
        let (relative, folder, shown) = self.target_folder(prefix)?;
        let mut names = self.list_names(prefix)?;
        names.sort_unstable();
        // A file may vanish between its name and its size: then the next name takes its place.
        let mut listed = Vec::new();
        for name in names {
            if listed.len() >= count {
                break;
            }
            let path = join(relative.as_str(), &name);
            listed.extend(self.describe(&folder.join(&name), path, &shown)?);
        }
        Ok(listed)
    }

    /// The names of the files directly in `prefix`, in no order: one pass over the folder, and no file is asked for
    /// its size.
    pub(crate) fn list_names(&self, prefix: &str) -> Result<Vec<String>> {
        let (_, folder, shown) = self.target_folder(prefix)?;
        self.tally.list();
        let mut names = Vec::new();
        self.visit(&folder, &shown, &mut |name, is_folder| {
            if !is_folder && !name.starts_with(STAGED_PREFIX) {
                names.push(name.to_owned());
            }
        })?;
        Ok(names)
    }

    /// All files at any depth under `prefix`, unfinished writes included, by path.
    pub(crate) fn list_recursive(&self, prefix: &str) -> Result<Vec<Listed>> {
        let (relative, folder, shown) = self.target_folder(prefix)?;
        let mut listed = Vec::new();
        // A stack instead of recursion: depth is whatever the disk holds.
        let mut folders = vec![(folder, relative.as_str().to_owned())];
        while let Some((folder, prefix)) = folders.pop() {
            self.tally.list();
            let mut names = Vec::new();
            self.visit(&folder, &shown, &mut |name, is_folder| {
                names.push((name.to_owned(), is_folder));
            })?;
            for (name, is_folder) in names {
                let (full, path) = (folder.join(&name), join(&prefix, &name));
                if is_folder {
                    folders.push((full, path));
                } else {
                    listed.extend(self.describe(&full, path, &shown)?);
                }
            }
        }
        listed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(listed)
    }

    /// Call `each` with the name of every file and folder in `folder`.
    ///
    /// Names that are not UTF-8 are not ours and cannot be named in a manifest. Symbolic links count as
    /// files if they lead to a file inside the root; links to folders are not followed, they may be loops.
    fn visit(&self, folder: &Path, shown: &str, each: &mut dyn FnMut(&str, bool)) -> Result<()> {
        let failed = |source| Error::io(shown, "list the folder", source);
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(failed(source)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(failed(source)),
            };
            if kind.is_symlink() {
                let full = entry.path();
                if full.is_file() && self.check_inside(&full, shown).is_ok() {
                    each(name, false);
                }
            } else if kind.is_dir() || kind.is_file() {
                each(name, kind.is_dir());
            }
        }
        Ok(())
    }

    /// Size and time of a listed file; nothing if it is gone.
    fn describe(&self, full: &Path, path: String, shown: &str) -> Result<Option<Listed>> {
        self.tally.stat();
        match fs::metadata(full) {
            Ok(metadata) => Ok(Some(Listed {
                path,
                size: metadata.len(),
                modified: modified(&metadata),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::io(shown, "list the folder", source)),
        }
    }
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() {
        name.to_owned()
    } else {
        format!("{prefix}/{name}")
    }
}
