//! Power cuts: what may lie on a disk when its power fails, worked out from a [record](super::record) of what it was
//! told.
//!
//! A disk keeps the bytes of a file that were flushed and the names of a folder that were flushed. Of everything else it
//! may keep any part, in any order: that is more than any one file system does, and what all of them together may do.
//!
//! - Bytes that were written and not flushed: lost, kept, cut at a block, kept but for zeros in the last block, or all
//!   zeros (the length became stable before the bytes).
//! - Names that were added or removed: happened, or not. A rename happens as a whole.
//! - A file or folder whose name is lost is lost, whatever was flushed of it.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::record::Change;

/// What one cut left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Remains {
    /// The changes before the cut: so many were recorded.
    pub moment: usize,
    /// The operations that had been acknowledged.
    pub answers: BTreeSet<u64>,
    folders: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Remains {
    /// Makes the folders and files of `root` as the cut left them, in the folder `to`.
    ///
    /// # Errors
    /// When that fails.
    pub fn lay_out(&self, root: &Path, to: &Path) -> io::Result<()> {
        let moved = |path: &Path| to.join(path.strip_prefix(root).unwrap_or(path));
        for folder in &self.folders {
            std::fs::create_dir_all(moved(folder))?;
        }
        for (path, bytes) in &self.files {
            std::fs::write(moved(path), bytes)?;
        }
        Ok(())
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.answers, &self.folders, &self.files).hash(&mut hasher);
        hasher.finish()
    }
}

/// Where power may be cut.
#[derive(Debug)]
pub struct Cuts<'a> {
    /// What the disk was told.
    pub changes: &'a [Change],
    /// At each moment, so many ways to lose something: all of them where there are not more.
    pub ways: usize,
    /// For those that are drawn.
    pub seed: u64,
}

impl Cuts<'_> {
    /// Shows each state that some cut may leave, once, until `visit` says to stop by `false`. Gives their number.
    pub fn each(&self, mut visit: impl FnMut(&Remains) -> bool) -> usize {
        let mut random = StdRng::seed_from_u64(self.seed);
        let mut disk = Disk::default();
        let mut seen = HashSet::new();
        for moment in 0..=self.changes.len() {
            let open = disk.open_ends();
            for choice in choices(&open, self.ways, &mut random) {
                let remains = disk.after(&open, &choice, moment);
                if seen.insert(remains.hash()) && !visit(&remains) {
                    return seen.len();
                }
            }
            if let Some(change) = self.changes.get(moment) {
                disk.tell(change);
            }
        }
        seen.len()
    }
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Folder,
    /// By its number.
    File(usize),
}

#[derive(Debug)]
struct Write {
    file: usize,
    at: usize,
    bytes: Vec<u8>,
    told: usize,
    is_stable: bool,
}

/// Names that change together.
#[derive(Debug)]
struct Renaming {
    folder: PathBuf,
    names: Vec<(PathBuf, Option<Node>)>,
    told: usize,
}

/// Something that a cut may or may not have kept.
#[derive(Debug, Clone, Copy)]
enum OpenEnd {
    Names(usize),
    Bytes(usize),
}

impl OpenEnd {
    /// In how many ways it may end; 0 is lost, 1 is kept.
    fn ways(self) -> usize {
        match self {
            Self::Names(_) => 2,
            Self::Bytes(_) => 5,
        }
    }
}

#[derive(Debug, Default)]
struct Disk {
    told: usize,
    begun: BTreeMap<u64, usize>,
    answers: BTreeSet<u64>,
    /// As programs see them.
    live: BTreeMap<PathBuf, usize>,
    lengths: Vec<usize>,
    writes: Vec<Write>,
    /// As they are after any cut.
    names: BTreeMap<PathBuf, Node>,
    renamings: Vec<Renaming>,
}

impl Disk {
    fn tell(&mut self, change: &Change) {
        self.told += 1;
        match change {
            Change::Create(path) => {
                let file = self.lengths.len();
                self.lengths.push(0);
                self.live.insert(path.clone(), file);
                self.rename(path, vec![(path.clone(), Some(Node::File(file)))]);
            }
            Change::Append(path, bytes) => {
                if let Some(file) = self.live.get(path).copied() {
                    self.writes.push(Write {
                        file,
                        at: self.lengths[file],
                        bytes: bytes.clone(),
                        told: self.told,
                        is_stable: false,
                    });
                    self.lengths[file] += bytes.len();
                }
            }
            Change::BeginFlush(number) => {
                self.begun.insert(*number, self.told);
            }
            Change::Flush(path, number) => {
                let begun = self.begun.get(number).copied().unwrap_or_default();
                let file = self.live.get(path).copied();
                for write in &mut self.writes {
                    write.is_stable |= Some(write.file) == file && write.told <= begun;
                }
            }
            Change::Link(from, to) => {
                if let Some(file) = self.live.get(from).copied() {
                    self.live.insert(to.clone(), file);
                    self.rename(to, vec![(to.clone(), Some(Node::File(file)))]);
                }
            }
            Change::Rename(from, to) => {
                if let Some(file) = self.live.remove(from) {
                    self.live.insert(to.clone(), file);
                    let added = (to.clone(), Some(Node::File(file)));
                    self.rename(to, vec![(from.clone(), None), added]);
                }
            }
            Change::Remove(path) => {
                self.live.remove(path);
                self.rename(path, vec![(path.clone(), None)]);
            }
            Change::CreateFolder(path) => {
                self.rename(path, vec![(path.clone(), Some(Node::Folder))]);
            }
            Change::FlushFolder(folder, number) => {
                let begun = self.begun.get(number).copied().unwrap_or_default();
                let is_stable = |it: &Renaming| it.folder == *folder && it.told <= begun;
                let (stable, open) = std::mem::take(&mut self.renamings)
                    .into_iter()
                    .partition(is_stable);
                self.renamings = open;
                for renaming in stable {
                    renaming.apply(&mut self.names);
                }
            }
            Change::Answer(number) => {
                self.answers.insert(*number);
            }
        }
    }

    fn rename(&mut self, path: &Path, names: Vec<(PathBuf, Option<Node>)>) {
        self.renamings.push(Renaming {
            folder: path.parent().unwrap_or(path).to_path_buf(),
            names,
            told: self.told,
        });
    }

    /// What is not stable and can make a difference.
    fn open_ends(&self) -> Vec<OpenEnd> {
        let added = self.renamings.iter().flat_map(|it| &it.names);
        let named: BTreeSet<usize> = (self.names.values().copied())
            .chain(added.filter_map(|(_, node)| *node))
            .filter_map(|node| match node {
                Node::File(file) => Some(file),
                Node::Folder => None,
            })
            .collect();
        let is_open = |write: &Write| !write.is_stable && named.contains(&write.file);
        let writes = (0..self.writes.len()).filter(|it| is_open(&self.writes[*it]));
        let names = (0..self.renamings.len()).map(OpenEnd::Names);
        names.chain(writes.map(OpenEnd::Bytes)).collect()
    }

    fn after(&self, open: &[OpenEnd], choice: &[usize], moment: usize) -> Remains {
        let mut names = self.names.clone();
        let mut fates: BTreeMap<usize, usize> = BTreeMap::new();
        for (end, way) in open.iter().zip(choice) {
            match end {
                OpenEnd::Names(number) if *way == 1 => self.renamings[*number].apply(&mut names),
                OpenEnd::Names(_) => {}
                OpenEnd::Bytes(number) => {
                    fates.insert(*number, *way);
                }
            }
        }
        let is_reachable = |path: &Path| {
            let mut above = path.ancestors().skip(1);
            // Folders that were there before the record began have no entry; nothing removes folders.
            above.all(|it| names.get(it) == Some(&Node::Folder) || !self.is_made(it))
        };
        let (mut folders, mut files) = (BTreeSet::new(), BTreeMap::new());
        for (path, node) in names.iter().filter(|(path, _)| is_reachable(path)) {
            match node {
                Node::Folder => {
                    folders.insert(path.clone());
                }
                Node::File(file) => {
                    files.insert(path.clone(), self.content(*file, &fates));
                }
            }
        }
        Remains {
            moment,
            answers: self.answers.clone(),
            folders,
            files,
        }
    }

    /// The folder was made during the record.
    fn is_made(&self, path: &Path) -> bool {
        let made = |(name, node): &(PathBuf, Option<Node>)| name == path && node.is_some();
        self.names.contains_key(path) || self.renamings.iter().any(|it| it.names.iter().any(made))
    }

    fn content(&self, file: usize, fates: &BTreeMap<usize, usize>) -> Vec<u8> {
        const BLOCK: usize = 512;
        let mut content = Vec::new();
        for (number, write) in self.writes.iter().enumerate() {
            if write.file != file {
                continue;
            }
            let way = match write.is_stable {
                true => 1,
                false => fates.get(&number).copied().unwrap_or_default(),
            };
            let last_block = write.bytes.len().saturating_sub(1) / BLOCK * BLOCK;
            let cut = if last_block == 0 {
                write.bytes.len() / 2
            } else {
                last_block
            };
            let mut kept = write.bytes.clone();
            match way {
                0 => continue,
                1 => {}
                2 => kept.truncate(cut),
                3 => kept[cut..].fill(0),
                _ => kept.fill(0),
            }
            // What lies before may be lost: then it is a hole.
            content.resize(content.len().max(write.at + kept.len()), 0);
            content[write.at..write.at + kept.len()].copy_from_slice(&kept);
        }
        content
    }
}

impl Renaming {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        for (name, node) in &self.names {
            match node {
                Some(node) => names.insert(name.clone(), *node),
                None => names.remove(name),
            };
        }
    }
}

/// Ways in which all the open ends may end: every one if they are few; else all lost, all kept, each alone lost, each
/// alone kept, and others by chance.
fn choices(open: &[OpenEnd], ways: usize, random: &mut StdRng) -> Vec<Vec<usize>> {
    let all = open
        .iter()
        .try_fold(1_usize, |product, end| product.checked_mul(end.ways()));
    if let Some(all) = all.filter(|all| *all <= ways) {
        let nth = |mut number: usize| {
            let digits = open.iter().map(|end| {
                let digit = number % end.ways();
                number /= end.ways();
                digit
            });
            digits.collect()
        };
        return (0..all).map(nth).collect();
    }
    let mut chosen = Vec::new();
    for rest in [0, 1] {
        let of_rest = vec![rest; open.len()];
        for (at, end) in open.iter().enumerate() {
            for way in (0..end.ways()).filter(|way| *way != rest) {
                let mut one = of_rest.clone();
                one[at] = way;
                chosen.push(one);
            }
        }
        chosen.push(of_rest);
    }
    for _ in 0..ways {
        let draw = open.iter().map(|end| random.random_range(0..end.ways()));
        chosen.push(draw.collect());
    }
    chosen
}
