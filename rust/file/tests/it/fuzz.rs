//! Data files whose parts are damaged one by one, with checksums that are right again: what lies behind them has to stand on
//! its own.
//!
//! `make fuzz` feeds each target for a minute; without `PILUM_FUZZ_SECONDS` some thousands of inputs are enough to see that
//! it works. `PILUM_FUZZ_SEED=n` begins elsewhere.

use std::ops::Range;
use std::path::Path;

use futures::executor::block_on;
use pilum_format::crc32c;
use pilum_format::proto::{file as proto, pilum};
use pilum_testing::{Random, Target, damage_message, fuzz, mutate};
use prost::Message;

use crate::hostile::{corpus, open, read_all};

const CASES: u64 = 4_000;
const FOOTER: usize = 16;
/// Inputs stay small.
const MOST_BYTES: usize = 1 << 20;

/// A file taken apart at its Metadata.
struct Parts {
    /// Everything before Metadata.
    body: Vec<u8>,
    metadata: Vec<u8>,
    version: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(
        bytes.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}

fn place(range: &Range<u64>, len: usize) -> Option<Range<usize>> {
    let (start, end) = (
        usize::try_from(range.start).ok()?,
        usize::try_from(range.end).ok()?,
    );
    (start <= end && end <= len).then_some(start..end)
}

/// The range of a message behind its length.
fn message_at(bytes: &[u8], position: u64) -> Option<Range<usize>> {
    let start = usize::try_from(position).ok()?.checked_add(4)?;
    let len = bytes.get(start - 4..start)?.try_into().ok()?;
    let end = start.checked_add(u32::from_le_bytes(len) as usize)?;
    (end <= bytes.len()).then_some(start..end)
}

fn extent_of(extent: &pilum::Extent, len: usize) -> Option<Range<usize>> {
    place(
        &(extent.position..extent.position.checked_add(extent.length)?),
        len,
    )
}

impl Parts {
    fn of(bytes: &[u8]) -> Option<Self> {
        let footer = bytes.len().checked_sub(FOOTER)?;
        let position = word(bytes, footer)?;
        let message = message_at(&bytes[..footer], position)?;
        Some(Self {
            body: bytes[..message.start - 4].to_vec(),
            metadata: bytes[message].to_vec(),
            version: bytes[footer + 8..].to_vec(),
        })
    }

    fn assemble(mut self) -> Vec<u8> {
        let metadata = std::mem::take(&mut self.metadata);
        let position = self.push(&metadata);
        self.body.extend(position.to_le_bytes());
        self.body.extend(&self.version);
        self.body
    }

    /// Appends a message behind its length and returns its position.
    fn push(&mut self, message: &[u8]) -> u64 {
        let position = self.body.len() as u64;
        self.body.extend((message.len() as u32).to_le_bytes());
        self.body.extend(message);
        position
    }

    fn metadata(&self) -> Option<proto::Metadata> {
        proto::Metadata::decode(self.metadata.as_slice()).ok()
    }

    fn extension(&self) -> Option<pilum::Extension> {
        let pointer = self.metadata()?.extension?;
        let message = message_at(&self.body, pointer.position)?;
        pilum::Extension::decode(&self.body[message]).ok()
    }

    fn set_extension(&mut self, message: &[u8]) {
        let Some(mut metadata) = self.metadata() else {
            return;
        };
        metadata.extension = Some(pilum::ExtensionPointer {
            position: self.push(message),
            length: message.len() as u64,
            crc32c: crc32c(message),
        });
        self.metadata = metadata.encode_to_vec();
    }

    /// Where the entries of the column directory lie.
    fn entries(&self) -> Vec<usize> {
        let directory = self.extension().and_then(|it| it.directory);
        let range = directory.and_then(|it| extent_of(&it, self.body.len()));
        let entries = range.into_iter().flat_map(|range| range.step_by(16));
        entries.filter(|at| at + 16 <= self.body.len()).collect()
    }

    fn record(&self, entry: usize) -> Option<Range<usize>> {
        let position = word(&self.body, entry)?;
        let len = word(&self.body, entry + 8)? & 0xffff_ffff;
        place(&(position..position.checked_add(len)?), self.body.len()).filter(|it| !it.is_empty())
    }

    fn set_record(&mut self, entry: usize, record: &[u8]) {
        let position = self.body.len() as u64;
        self.body.extend(record);
        self.body[entry..entry + 8].copy_from_slice(&position.to_le_bytes());
        self.body[entry + 8..entry + 12].copy_from_slice(&(record.len() as u32).to_le_bytes());
        self.body[entry + 12..entry + 16].copy_from_slice(&crc32c(record).to_le_bytes());
    }

    fn seal_extent(&self, extent: &mut pilum::Extent, block: usize) {
        if let Some(range) = extent_of(extent, self.body.len()) {
            extent.block_crc32c = self.body[range].chunks(block).map(crc32c).collect();
        }
    }

    fn seal_record(&mut self, entry: usize, block: usize) -> Option<()> {
        let old = self.body[self.record(entry)?].to_vec();
        let mut record = pilum::ColumnExtension::decode(old.as_slice()).ok()?;
        for page in record.pages.iter_mut().take(200) {
            let range = page.position..page.position.checked_add(page.length)?;
            let Some(range) = place(&range, self.body.len()) else {
                continue;
            };
            let words: Vec<u8> = self.body[range]
                .chunks(block)
                .flat_map(|chunk| crc32c(chunk).to_le_bytes())
                .collect();
            let at =
                page.checksums_position..page.checksums_position.checked_add(words.len() as u64)?;
            if let Some(at) = place(&at, self.body.len()) {
                self.body[at].copy_from_slice(&words);
                page.checksums_crc32c = crc32c(&words);
            }
            let bitmaps = page.validity.iter_mut().filter_map(|it| it.bitmap.as_mut());
            for bitmap in bitmaps.take(20) {
                self.seal_extent(bitmap, block);
            }
        }
        let new = record.encode_to_vec();
        if new != old && new.len() < 2 * old.len() + 10_000 {
            self.set_record(entry, &new);
        }
        Some(())
    }

    /// Makes all checksums right again, as far as the file still says where they are.
    fn seal(&mut self) {
        let Some(mut extension) = self.extension() else {
            return;
        };
        let block = extension.block_size as usize;
        if !(64..=1 << 20).contains(&block) {
            return;
        }
        for entry in self.entries() {
            // Records that overlap could grow without end.
            if self.body.len() < MOST_BYTES {
                self.seal_record(entry, block);
            }
        }
        for extent in [
            &mut extension.directory,
            &mut extension.page_table,
            &mut extension.statistics,
            &mut extension.dictionaries,
            &mut extension.manifest,
        ] {
            extent.iter_mut().for_each(|it| self.seal_extent(it, block));
        }
        self.set_extension(&extension.encode_to_vec());
    }

    fn damage_range(&mut self, range: Option<Range<usize>>, random: &mut Random) {
        if let Some(range) = range.filter(|range| !range.is_empty()) {
            let len = range.len();
            let mut bytes = self.body[range.clone()].to_vec();
            mutate(&mut bytes, random);
            bytes.resize(len, 0);
            self.body[range].copy_from_slice(&bytes);
        }
    }

    /// Sets a position or a length in a table of pairs to something believable, or not.
    fn damage_pairs(&mut self, position: u64, random: &mut Random) {
        let Ok(position) = usize::try_from(position) else {
            return;
        };
        let at = position.saturating_add(8 * random.below(40));
        let Some(old) = word(&self.body, at) else {
            return;
        };
        let new = match random.below(4) {
            0 => random.edge(),
            1 => random.below(self.body.len()) as u64,
            2 => old.wrapping_add(1),
            _ => old.wrapping_sub(random.below(9) as u64),
        };
        self.body[at..at + 8].copy_from_slice(&new.to_le_bytes());
    }
}

/// What of a file is damaged.
#[derive(Clone, Copy)]
enum Place {
    Directory,
    Pages,
    Statistics,
}

fn damage(bytes: &mut Vec<u8>, place: Place, random: &mut Random) -> Option<()> {
    let mut parts = Parts::of(bytes)?;
    let metadata = parts.metadata()?;
    let pages = 0..usize::try_from(metadata.page_table_position).ok()?;
    match (place, random.below(4)) {
        (Place::Directory, 0) => parts.metadata = damage_message(&parts.metadata, random),
        (Place::Directory, 1) => {
            let pointer = metadata.extension?;
            let message = message_at(&parts.body, pointer.position)?;
            let message = damage_message(&parts.body[message], random);
            parts.set_extension(&message);
        }
        (Place::Directory, 2) => {
            let entries = parts.entries();
            let entry = *entries.get(random.below(entries.len()))?;
            let record = parts.record(entry)?;
            let record = damage_message(&parts.body[record], random);
            parts.set_record(entry, &record);
        }
        (Place::Directory, _) => parts.damage_pairs(metadata.page_table_position, random),
        (Place::Pages, 0 | 1) => parts.damage_range(Some(pages), random),
        (Place::Pages, 2) => {
            let message = message_at(&parts.body, metadata.manifest_position)?;
            let message = damage_message(&parts.body[message], random);
            let manifest_position = parts.push(&message);
            if let Some(mut extension) = parts.extension() {
                extension.manifest = Some(pilum::Extent {
                    position: manifest_position,
                    length: message.len() as u64 + 4,
                    block_crc32c: Vec::new(),
                });
                parts.set_extension(&extension.encode_to_vec());
            }
            let mut metadata = parts.metadata()?;
            metadata.manifest_position = manifest_position;
            parts.metadata = metadata.encode_to_vec();
        }
        (Place::Pages, _) => {
            let values = parts.extension().and_then(|it| it.dictionaries);
            let values = values.and_then(|it| extent_of(&it, parts.body.len()));
            parts.damage_range(values.or(Some(pages)), random);
        }
        (Place::Statistics, 0 | 1) => {
            let statistics = metadata.statistics.as_ref()?.encode_to_vec();
            let statistics = damage_message(&statistics, random);
            let rest = pilum_format::without_fields(&parts.metadata, &[5]).ok()?;
            parts.metadata = [
                rest,
                pilum_testing::Message::new().bytes(5, statistics).encode(),
            ]
            .concat();
        }
        (Place::Statistics, 2) => {
            let statistics = parts.extension().and_then(|it| it.statistics)?;
            let range = extent_of(&statistics, parts.body.len());
            parts.damage_range(range, random);
        }
        (Place::Statistics, _) => {
            parts.damage_pairs(metadata.statistics?.page_table_position, random);
        }
    }
    *bytes = parts.assemble();
    Some(())
}

/// Reads a file in every way that there is.
fn read_and_verify(bytes: &[u8], random: &mut Random) -> bool {
    let (mapped, verify) = (random.one_in(2), !random.one_in(4));
    let read = read_all(bytes, mapped, verify).is_ok();
    if let Ok(reader) = open(bytes, mapped, verify)
        && let Ok(schema) = block_on(reader.schema())
    {
        let values = block_on(reader.dictionaries(&schema)).unwrap_or_default();
        let report = block_on(reader.verify(&schema, &values));
        let _ = block_on(reader.describe());
        return read && report.problems.is_empty();
    }
    false
}

fn feed(name: &str, place: Place) {
    let damage = |bytes: &mut Vec<u8>, random: &mut Random| {
        for _ in 0..=random.below(2) {
            // A file that says nothing of such a part stays as it is.
            let _ = damage(bytes, place, random);
        }
    };
    let mend = |bytes: &mut Vec<u8>| {
        if let Some(mut parts) = Parts::of(bytes) {
            parts.seal();
            *bytes = parts.assemble();
        }
    };
    let target = Target {
        name,
        corpus: corpus(),
        damage: &damage,
        mend: &mend,
        decode: &read_and_verify,
    };
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    fuzz(&target, &kept, CASES);
}

#[test]
fn fuzz_data_directory() {
    feed("data-directory", Place::Directory);
}

#[test]
fn fuzz_data_pages() {
    feed("data-pages", Place::Pages);
}

#[test]
fn fuzz_data_statistics() {
    feed("data-statistics", Place::Statistics);
}

#[test]
fn a_mended_file_is_as_sound_as_before() {
    let corpus = corpus();
    let read = |bytes: &[u8]| read_and_verify(bytes, &mut Random(1));
    let mut sound = 0;
    for bytes in &corpus {
        let mut parts = Parts::of(bytes).unwrap();
        parts.seal();
        let mended = parts.assemble();
        assert_eq!(read(&mended), read(bytes));
        sound += usize::from(read(&mended));
    }
    assert!(2 * sound > corpus.len(), "{sound} of {}", corpus.len());
}
