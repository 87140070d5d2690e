//! Power cuts: the states in which a disk may be after its power failed, computed from a [record](super::record) of its
//! changes.
//!
//! A disk keeps the bytes of a file and the names in a folder that were flushed. Of all other changes it may keep any part, in
//! any order. No single file system loses all that, but together they do.
//!
//! - Bytes that were written and not flushed are lost, kept, cut at a block, kept with zeros in the last block, or all zeros
//!   (the length became durable before the bytes).
//! - A name that was added or removed and not flushed is changed or not. A rename happens as a whole.
//! - A file or folder whose name is lost is lost, even if its bytes were flushed.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::record::Change;

/// The state of a disk after one power cut.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Remains {
    /// The number of recorded changes before the cut.
    pub moment: usize,
    /// The operations that had been acknowledged.
    pub answers: BTreeSet<u64>,
    folders: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Remains {
    /// Creates in the folder `to` the folders and files of `root` as the cut left them.
    ///
    /// # Errors
    /// When a folder or file cannot be created.
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

/// The power cuts of a record.
#[derive(Debug)]
pub struct Cuts<'a> {
    /// The recorded changes.
    pub changes: &'a [Change],
    /// The number of states per moment: all states if there are not more, otherwise a selection.
    pub ways: usize,
    /// The seed of the selection.
    pub seed: u64,
}

impl Cuts<'_> {
    /// Calls `visit` with each different state that a cut may leave, until it returns `false`. Returns the number of states.
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

/// A file or folder that a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Folder,
    /// The number of a file.
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

/// Changes of names that happen together.
#[derive(Debug)]
struct Renaming {
    folder: PathBuf,
    names: Vec<(PathBuf, Option<Node>)>,
    told: usize,
}

/// A change that a cut may keep or lose.
#[derive(Debug, Clone, Copy)]
enum OpenEnd {
    Names(usize),
    Bytes(usize),
}

impl OpenEnd {
    /// The number of outcomes; 0 is lost, 1 is kept.
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
    /// The names of files as programs see them.
    live: BTreeMap<PathBuf, usize>,
    lengths: Vec<usize>,
    writes: Vec<Write>,
    /// The names that every cut keeps.
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

    /// The changes that are not durable and can make a difference.
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
            // Folders that existed before the record began have no entry. No folder is ever removed.
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

    /// Whether the folder was created during the record.
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
            // If the bytes before are lost, they are a hole.
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

/// Outcomes of all open ends: every combination if there are few; otherwise all lost, all kept, each alone lost, each alone
/// kept, and random combinations.
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
