//! Listing folders. A file system has no order of names, so "the first names" means reading all and keeping few.

use rustix::fs::{AtFlags, Dir, FileType, Stat, fstat, statat};
use rustix::io::Errno;

use super::beneath::{LOOK, OpenFolder, Refused};
use super::{LocalFolder, file_type, modified};
use crate::error::{Error, Result};
use crate::object::{Listed, Names};
use crate::path::{STAGED_PREFIX, resolve_folder};

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    /// A symbolic link to a file inside the root.
    Link,
    Folder,
}

impl LocalFolder {
    /// The `count` files of `prefix` whose names are lexically first; a missing folder is empty.
    pub(super) fn list_now(&self, prefix: &str, count: usize) -> Result<Vec<Listed>> {
        let relative = resolve_folder(prefix, self.rule)?;
        let shown = self.shown(&relative);
        let Some(folder) = self.find_folder(relative.as_str(), &shown)? else {
            self.tally.list();
            return Ok(Vec::new());
        };
        let mut names = self.files_of(&folder, relative.as_str(), &shown)?;
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        // A file may vanish between its name and its size: then the next name takes its place.
        let mut listed = Vec::new();
        for (name, kind) in names {
            if listed.len() >= count {
                break;
            }
            let path = join(relative.as_str(), &name);
            listed.extend(self.describe(&folder, &name, kind, path, &shown)?);
        }
        Ok(listed)
    }

    /// The names of the files directly in `prefix`, in no order: one pass over the folder.
    pub(super) fn list_names_now(&self, prefix: &str) -> Result<Names> {
        let relative = resolve_folder(prefix, self.rule)?;
        let shown = self.shown(&relative);
        let names = match self.find_folder(relative.as_str(), &shown)? {
            Some(folder) => self.files_of(&folder, relative.as_str(), &shown)?,
            None => {
                self.tally.list();
                Vec::new()
            }
        };
        Ok(Names {
            names: names.into_iter().map(|(name, _)| name).collect(),
            are_all: true,
        })
    }

    /// All files at any depth under `prefix`, unfinished writes included, by path.
    pub(super) fn list_recursive_now(&self, prefix: &str) -> Result<Vec<Listed>> {
        let relative = resolve_folder(prefix, self.rule)?;
        let shown = self.shown(&relative);
        let mut listed = Vec::new();
        // A stack instead of recursion: folders may lie in each other to any depth.
        let mut folders = vec![relative.as_str().to_owned()];
        while let Some(prefix) = folders.pop() {
            self.tally.list();
            let Some(folder) = self.find_folder(&prefix, &shown)? else {
                continue;
            };
            let mut entries = Vec::new();
            self.visit(&folder, &prefix, &shown, &mut |name, kind| {
                entries.push((name.to_owned(), kind));
            })?;
            for (name, kind) in entries {
                let path = join(&prefix, &name);
                match kind {
                    Kind::Folder => folders.push(path),
                    _ => listed.extend(self.describe(&folder, &name, kind, path, &shown)?),
                }
            }
        }
        listed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(listed)
    }

    /// The finished files directly in a folder.
    fn files_of(
        &self,
        folder: &OpenFolder,
        relative: &str,
        shown: &str,
    ) -> Result<Vec<(String, Kind)>> {
        self.tally.list();
        let mut names = Vec::new();
        self.visit(folder, relative, shown, &mut |name, kind| {
            if kind != Kind::Folder && !name.starts_with(STAGED_PREFIX) {
                names.push((name.to_owned(), kind));
            }
        })?;
        Ok(names)
    }

    /// Calls `each` with the name of every file and folder in `folder`.
    ///
    /// Names that are not UTF-8 are passed over: a manifest cannot name them. Symbolic links count as files if they lead
    /// to a file inside the root; links to folders are not followed, because they may form loops.
    fn visit(
        &self,
        folder: &OpenFolder,
        relative: &str,
        shown: &str,
        each: &mut dyn FnMut(&str, Kind),
    ) -> Result<()> {
        let failed = |errno: Errno| Error::io(shown, "list the folder", errno.into());
        let readable = folder.readable();
        let readable = readable.map_err(|source| Error::io(shown, "list the folder", source))?;
        for entry in Dir::new(readable).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if name == "." || name == ".." {
                continue;
            }
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                kind = match statat(folder.fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => file_type(&stat),
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(failed(errno)),
                };
            }
            match kind {
                FileType::RegularFile => each(name, Kind::File),
                FileType::Directory => each(name, Kind::Folder),
                FileType::Symlink if self.follow(&join(relative, name)).is_some() => {
                    each(name, Kind::Link);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The file that the link `relative` leads to, if that is a file inside the root.
    fn follow(&self, relative: &str) -> Option<Stat> {
        let file = self
            .open_root()
            .and_then(|root| root.open(relative, LOOK))
            .ok()?;
        let stat = fstat(file).ok()?;
        (file_type(&stat) == FileType::RegularFile).then_some(stat)
    }

    /// Size and time of a listed file; `None` if it is gone.
    fn describe(
        &self,
        folder: &OpenFolder,
        name: &str,
        kind: Kind,
        path: String,
        shown: &str,
    ) -> Result<Option<Listed>> {
        self.tally.stat();
        let stat = match kind {
            Kind::Link => self.follow(&path),
            _ => match statat(folder.fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => Some(stat),
                Err(Errno::NOENT) => None,
                Err(errno) => {
                    return Err(Refused::from(errno).into_error(shown, "list the folder"));
                }
            },
        };
        Ok(stat.map(|stat| Listed {
            path,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: modified(&stat),
        }))
    }
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() {
        name.to_owned()
    } else {
        format!("{prefix}/{name}")
    }
}
