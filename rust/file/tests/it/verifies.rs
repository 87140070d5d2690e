//! Verification finds each kind of damage, also where every checksum was made right again over it: a writer's fault, and not a
//! disk's.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, Int32Array, Int64Array, ListArray, RecordBatch,
    StringArray, types::Int32Type,
};
use futures::executor::block_on;
use pilum_file::{FileCheck, FileReport, WriteOptions, WrittenFile};
use pilum_format::proto::{file as proto, pilum};
use pilum_format::{Dictionaries, Schema, crc32c};
use prost::Message;

use crate::memory::open_bytes;
use crate::tables::{scratch, write};

/// A written file that can be changed anywhere.
struct Sample {
    bytes: Vec<u8>,
    schema: Arc<Schema>,
    written: WrittenFile,
    dictionaries: Dictionaries,
}

impl Sample {
    fn new(columns: Vec<(&str, ArrayRef)>) -> Self {
        let columns = columns.into_iter().map(|(name, array)| (name, array, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let (folder, store) = scratch();
        let (schema, written) =
            write(&store, "a.lance", &[batch], WriteOptions::default()).unwrap();
        let bytes = std::fs::read(folder.path().join("a.lance")).unwrap();
        let dictionaries = crate::tables::dictionaries(&schema);
        Self {
            bytes,
            schema,
            written,
            dictionaries,
        }
    }

    /// Replaces the only occurrence of some bytes behind `from`.
    fn replace(&mut self, from: usize, old: &[u8], new: &[u8]) {
        assert_eq!(old.len(), new.len());
        let mut found =
            (from..self.bytes.len() - old.len()).filter(|&at| self.bytes[at..].starts_with(old));
        let at = found.next().unwrap();
        assert_eq!(found.next(), None, "{old:?} stands twice");
        drop(found);
        self.bytes[at..at + new.len()].copy_from_slice(new);
    }

    fn metadata(&self) -> (usize, proto::Metadata) {
        let footer = self.bytes.len() - 16;
        let position = u64::from_le_bytes(self.bytes[footer..footer + 8].try_into().unwrap());
        let start = position as usize + 4;
        (
            start,
            proto::Metadata::decode(&self.bytes[start..footer]).unwrap(),
        )
    }

    fn page_table(&self) -> usize {
        self.metadata().1.page_table_position as usize
    }

    fn statistics(&self) -> usize {
        self.extension().1.statistics.unwrap().position as usize
    }

    fn extension(&self) -> (usize, pilum::Extension) {
        let pointer = self.metadata().1.extension.unwrap();
        let start = pointer.position as usize + 4;
        let message = &self.bytes[start..start + pointer.length as usize];
        (start, pilum::Extension::decode(message).unwrap())
    }

    /// Makes every checksum of the file right again.
    fn seal(&mut self) {
        let (start, mut extension) = self.extension();
        let block = extension.block_size as usize;
        let directory = extension.directory.clone().unwrap();
        let entries = directory.position as usize..(directory.position + directory.length) as usize;
        for entry in entries.step_by(16) {
            let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap()) as usize;
            let position = word(&self.bytes[entry..entry + 8]);
            let length = u32::from_le_bytes(self.bytes[entry + 8..entry + 12].try_into().unwrap());
            if length == 0 {
                continue;
            }
            let end = position + length as usize;
            let mut record = pilum::ColumnExtension::decode(&self.bytes[position..end]).unwrap();
            for page in &mut record.pages {
                let range = page.position as usize..(page.position + page.length) as usize;
                let words: Vec<u8> = self.bytes[range]
                    .chunks(block)
                    .flat_map(|chunk| crc32c(chunk).to_le_bytes())
                    .collect();
                let at = page.checksums_position as usize;
                self.bytes[at..at + words.len()].copy_from_slice(&words);
                page.checksums_crc32c = if words.is_empty() { 0 } else { crc32c(&words) };
                for bitmap in page.validity.iter_mut().filter_map(|it| it.bitmap.as_mut()) {
                    self.seal_extent(bitmap, block);
                }
            }
            let record = record.encode_to_vec();
            self.bytes[position..end].copy_from_slice(&record);
            self.bytes[entry + 12..entry + 16].copy_from_slice(&crc32c(&record).to_le_bytes());
        }
        let extents = [
            &mut extension.directory,
            &mut extension.page_table,
            &mut extension.statistics,
            &mut extension.dictionaries,
            &mut extension.manifest,
        ];
        for extent in extents.into_iter().flatten() {
            self.seal_extent(extent, block);
        }
        let extension = extension.encode_to_vec();
        self.bytes[start..start + extension.len()].copy_from_slice(&extension);
        let (start, mut metadata) = self.metadata();
        let mut pointer = metadata.extension.unwrap();
        pointer.crc32c = crc32c(&extension);
        metadata.extension = Some(pointer);
        let metadata = metadata.encode_to_vec();
        self.bytes[start..start + metadata.len()].copy_from_slice(&metadata);
        self.written.metadata_crc32c = crc32c(&metadata);
    }

    fn seal_extent(&self, extent: &mut pilum::Extent, block: usize) {
        let range = extent.position as usize..(extent.position + extent.length) as usize;
        extent.block_crc32c = self.bytes[range].chunks(block).map(crc32c).collect();
    }

    fn verify(&self) -> pilum_file::Result<FileReport> {
        let reader = open_bytes(self.bytes.clone(), true, &self.written)?;
        Ok(block_on(reader.verify(&self.schema, &self.dictionaries)))
    }

    /// Seals the file and expects problems of one kind alone, the first of which says `reason`.
    fn expect(mut self, check: FileCheck, reason: &str) {
        self.seal();
        let report = self.verify().unwrap();
        assert!(!report.problems.is_empty(), "{reason}: nothing was found");
        for problem in &report.problems {
            assert_eq!(problem.check, check, "{}", problem.error);
        }
        let found = report.problems[0].error.to_string();
        assert!(found.contains(reason), "{found}");
    }
}

fn int32(values: impl IntoIterator<Item = Option<i32>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Int32Array>())
}

/// The numbers 1000 to 1009, the sixth of them null.
fn numbers() -> Sample {
    let value = |row: i32| (row != 5).then_some(1000 + row);
    Sample::new(vec![("a", int32((0..10).map(value)))])
}

fn texts() -> Sample {
    let texts = StringArray::from(vec![Some("first"), None, Some("second"), Some("")]);
    Sample::new(vec![("s", Arc::new(texts))])
}

#[test]
fn sealing_an_unchanged_file_changes_nothing() {
    for mut sample in [numbers(), texts()] {
        let (bytes, crc) = (sample.bytes.clone(), sample.written.metadata_crc32c);
        sample.seal();
        assert!(sample.bytes == bytes && sample.written.metadata_crc32c == crc);
        let report = sample.verify().unwrap();
        assert!(report.problems.is_empty() && report.is_covered);
    }
}

#[test]
fn statistics_that_do_not_bound_the_values() {
    let change = |old: i32, new: i32| {
        let mut sample = numbers();
        let statistics = sample.statistics();
        sample.replace(statistics, &old.to_le_bytes(), &new.to_le_bytes());
        sample
    };
    let too_large = "page 0: a value lies outside of the minimum of the statistics";
    change(1000, 1001).expect(FileCheck::Statistics, too_large);
    let too_small = "page 0: a value lies outside of the maximum of the statistics";
    change(1009, 1008).expect(FileCheck::Statistics, too_small);
    // Wider bounds are no damage.
    let mut wider = change(1000, 999);
    wider.seal();
    assert!(wider.verify().unwrap().problems.is_empty());
}

#[test]
fn statistics_that_count_other_nulls() {
    let mut sample = numbers();
    let statistics = sample.statistics();
    assert_eq!(
        sample.bytes[statistics..statistics + 8],
        1_i64.to_le_bytes()
    );
    sample.bytes[statistics] = 2;
    let reason = "`a`, page 0: the statistics count 2 nulls, the page holds 1";
    sample.expect(FileCheck::Statistics, reason);
}

#[test]
fn text_that_is_no_utf_8() {
    let mut sample = texts();
    sample.bytes[1] = 0xff;
    sample.expect(FileCheck::Pages, "`s`");
}

#[test]
fn string_offsets_that_fall_or_point_elsewhere() {
    for offset in [3_i64, -1, 12, 1 << 40] {
        let mut sample = texts();
        // "first" ends, and "second" begins, at 5.
        let table = sample.page_table();
        let old = [5_i64.to_le_bytes(), 5_i64.to_le_bytes()].concat();
        assert!(sample.bytes[..table].windows(16).any(|bytes| bytes == old));
        let new = [5_i64.to_le_bytes(), offset.to_le_bytes()].concat();
        sample.replace(0, &old, &new);
        sample.expect(FileCheck::Pages, "`s`");
    }
}

#[test]
fn list_offsets_that_fall_or_point_elsewhere() {
    let lists = || {
        let lists = [
            Some(vec![Some(1), Some(2)]),
            Some(vec![Some(3)]),
            None,
            Some(vec![]),
        ];
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
        Sample::new(vec![("l", Arc::new(lists))])
    };
    let offsets = [0_i32, 2, 3, 3, 3];
    for (at, offset) in [(0, -1), (1, -1), (1, 4), (3, 2), (4, 9)] {
        let mut sample = lists();
        let bytes = |offsets: [i32; 5]| offsets.map(i32::to_le_bytes).concat();
        let mut wrong = offsets;
        wrong[at] = offset;
        sample.replace(0, &bytes(offsets), &bytes(wrong));
        sample.expect(FileCheck::Pages, "`l`");
    }
}

#[test]
fn a_dictionary_key_beyond_the_values() {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["x", "y", "z"]));
    let keys = Int8Array::from(vec![Some(0), Some(2), None, Some(1)]);
    let column = DictionaryArray::try_new(keys, Arc::clone(&values)).unwrap();
    let mut sample = Sample::new(vec![("d", Arc::new(column))]);
    sample.dictionaries = [(0, values)].into();
    assert_eq!(sample.bytes[..4], [0, 2, 0, 1]);
    sample.bytes[1] = 3;
    sample.expect(FileCheck::Pages, "`d`");
}

#[test]
fn a_page_of_another_length_or_elsewhere() {
    for (word, value) in [(8, 9_u64), (8, 1 << 40), (0, 1 << 20), (0, 24)] {
        let mut sample = numbers();
        let at = sample.page_table() + word;
        sample.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        sample.expect(FileCheck::Pages, "`a`");
    }
}

#[test]
fn a_column_of_another_type_than_the_table_thinks() {
    let mut sample = numbers();
    let manifest = sample.metadata().1.manifest_position as usize;
    let end = sample.metadata().0;
    let at = manifest
        + sample.bytes[manifest..end]
            .windows(5)
            .position(|it| it == b"int32")
            .unwrap();
    sample.bytes[at..at + 5].copy_from_slice(b"int16");
    let reason = "column `a` is int32 for the table and int16 in the file";
    sample.expect(FileCheck::Schema, reason);
}

#[test]
fn a_column_that_the_file_does_not_know() {
    let sample = numbers();
    let other = Sample::new(vec![("a", int32([Some(1)])), ("b", int32([Some(2)]))]);
    let reader = open_bytes(sample.bytes.clone(), true, &sample.written).unwrap();
    let report = block_on(reader.verify(&other.schema, &Dictionaries::new()));
    let first = &report.problems[0];
    assert_eq!(first.check, FileCheck::Schema);
    assert!(
        first
            .error
            .to_string()
            .contains("column `b`, field 1, is not in the embedded schema")
    );
    assert!(
        report
            .problems
            .iter()
            .all(|problem| !problem.error.to_string().contains("`a`"))
    );
}

/// Whatever byte of the file is hit: only those that have no meaning go unnoticed, and they are gaps of zeros.
#[test]
fn every_byte_that_has_a_meaning_is_looked_at() {
    let longs = Int64Array::from_iter_values((0..100).map(|row| row * 7919));
    let lists = (0..100).map(|row| (row % 3 > 0).then(|| vec![(row % 2 > 0).then_some(row); 2]));
    let texts = (0..100).map(|row| (row % 4 > 0).then(|| "text".repeat(row % 3)));
    let sample = Sample::new(vec![
        ("dropped", Arc::new(longs)),
        (
            "lists",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        ),
        ("texts", Arc::new(texts.collect::<StringArray>())),
    ]);
    // The table has dropped the first column: its bytes are looked at all the same.
    let mut live = (*sample.schema).clone();
    live.fields.remove(0);
    let mut unnoticed = 0;
    for position in 0..sample.bytes.len() {
        let mut bytes = sample.bytes.clone();
        bytes[position] ^= 1 << (position % 8);
        let Ok(reader) = open_bytes(bytes, true, &sample.written) else {
            continue;
        };
        let report = block_on(reader.verify(&live, &sample.dictionaries));
        if report.problems.is_empty() {
            assert_eq!(
                sample.bytes[position], 0,
                "byte {position} was not looked at"
            );
            unnoticed += 1;
        }
    }
    // Three columns of fixed width begin at multiples of 64, and the footer accepts a lower minor version.
    assert!(unnoticed < 3 * 64, "{unnoticed} bytes were not looked at");
}
