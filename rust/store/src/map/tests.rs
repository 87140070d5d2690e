//! Mapped reads, and files that shrink while they are mapped.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;

fn mapped(path: &Path) -> Arc<Map> {
    let file = File::open(path).unwrap();
    let metadata = file.metadata().unwrap();
    let map = Map::open(&file, path.to_path_buf(), &metadata).unwrap();
    Arc::new(map.expect("this kernel has MADV_POPULATE_READ"))
}

fn cut(path: &Path, byte_len: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(byte_len).unwrap();
}

fn one(range: Range<u64>) -> [Range<u64>; 1] {
    [range]
}

#[test]
fn a_map_outlives_its_file_and_the_replacement_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, b"old bytes").unwrap();
    let map = mapped(&path);
    let slice = whole(&map).slice(4..9);
    drop(map);
    fs::write(folder.path().join("g"), b"NEW BYTES").unwrap();
    fs::rename(folder.path().join("g"), &path).unwrap();
    assert_eq!(slice, "bytes");
    fs::remove_file(&path).unwrap();
    assert_eq!(slice, "bytes");
}

#[test]
fn growth_after_mapping_is_not_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, vec![7; 10_000]).unwrap();
    let map = mapped(&path);
    OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(&[8; 100_000])
        .unwrap();
    assert_eq!(whole(&map), vec![7; 10_000]);
    assert!(map.prefetch(&one(0..10_001)).is_err());
    assert!(releasing_slice(&map, 0..10_001).is_none());
}

#[test]
fn a_file_cut_short_is_an_error_of_prefetch_whatever_the_range() {
    let folder = tempfile::tempdir().unwrap();
    // Cut at a page, inside of one, by a single byte, and to nothing.
    for (byte_len, left) in [
        (1 << 20, 4096),
        (1 << 20, 500_000),
        (9_000, 8_999),
        (100, 0),
    ] {
        let path = folder.path().join(format!("{byte_len}-{left}"));
        fs::write(&path, vec![7; byte_len]).unwrap();
        let byte_len = byte_len as u64;
        let map = mapped(&path);
        map.prefetch(&one(0..1)).unwrap();
        cut(&path, left);
        let last = byte_len - 1..byte_len;
        for range in [last, 0..byte_len, left..byte_len, 0..1] {
            let error = map.prefetch(&one(range.clone())).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{range:?}");
            let told = error.to_string();
            assert!(
                told.contains(&format!("{byte_len} to {left} bytes")),
                "{told}"
            );
        }
    }
}

#[test]
fn pages_that_cannot_be_read_are_an_error_of_prefetch_and_not_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let map = mapped(&path);
    // The name leads elsewhere now, so that the size of the mapped file is not seen: only the kernel knows.
    fs::hard_link(&path, folder.path().join("g")).unwrap();
    fs::remove_file(&path).unwrap();
    cut(&folder.path().join("g"), 4096);
    for range in [8192..8193, 0..1 << 20, 1_000_000..1_000_001] {
        let error = map.prefetch(&one(range.clone())).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT), "{range:?}");
    }
    // The page that is left was mapped with the file.
    assert_eq!(whole(&map)[4095], 7);
}

#[test]
fn a_deleted_or_replaced_file_can_still_be_prefetched() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("f"), folder.path().join("g"));
    fs::write(&path, vec![7; 100_000]).unwrap();
    let map = mapped(&path);
    fs::write(&other, "short").unwrap();
    fs::rename(&other, &path).unwrap();
    map.prefetch(&one(70_000..70_001)).unwrap();
    fs::remove_file(&path).unwrap();
    map.prefetch(&one(0..100_000)).unwrap();
    assert_eq!(whole(&map), vec![7; 100_000]);
}

#[test]
fn blocks_are_prefetched_once_until_they_are_released() {
    const BLOCK: u64 = BLOCK_BYTES as u64;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, vec![7; 10 * BLOCK_BYTES + 5]).unwrap();
    let map = mapped(&path);
    let blocks = || -> Vec<usize> { (0..11).filter(|it| map.has_block(*it)).collect() };
    assert_eq!(blocks(), [0; 0]);
    map.prefetch(&[BLOCK + 1..BLOCK + 2, 5..5]).unwrap();
    assert_eq!(blocks(), [1], "a small range brings its block");
    map.prefetch(&one(3 * BLOCK - 1..3 * BLOCK + 1)).unwrap();
    assert_eq!(blocks(), [1, 2, 3]);
    map.prefetch(&one(4 * BLOCK + 1..7 * BLOCK - 1)).unwrap();
    assert_eq!(
        blocks(),
        [1, 2, 3, 5],
        "a large one the blocks inside of it"
    );
    map.prefetch(&one(8 * BLOCK..10 * BLOCK + 5)).unwrap();
    assert_eq!(
        blocks(),
        [1, 2, 3, 5, 8, 9, 10],
        "the last block is shorter"
    );
    map.release(&(BLOCK + 4096..3 * BLOCK));
    assert_eq!(blocks(), [3, 5, 8, 9, 10]);
    map.release(&(0..10 * BLOCK + 5));
    assert_eq!(blocks(), [0; 0]);
    map.prefetch(&one(0..10 * BLOCK + 5)).unwrap();
    assert_eq!(blocks().len(), 11);
}

#[test]
fn odd_ranges_are_released_without_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    let bytes: Vec<u8> = (0..300_001u32)
        .map(|i| u8::try_from(i % 251).unwrap())
        .collect();
    fs::write(&path, &bytes).unwrap();
    let map = mapped(&path);
    let all = whole(&map);
    for range in [
        0..0,
        0..1,
        1..4095,
        4095..4097,
        1..300_001,
        299_999..300_001,
        0..300_001,
    ] {
        map.release(&range);
        assert_eq!(all, bytes);
    }
    map.release(&(5..300_002)); // out of bounds: nothing
    map.release(&(u64::MAX..u64::MAX));
    let reversed = Range { start: 9, end: 3 };
    map.release(&reversed);
    assert!(map.prefetch(&one(reversed)).is_err());
    assert_eq!(all, bytes);
}

#[test]
fn slices_of_a_released_slice_keep_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, vec![9; 4 << 20]).unwrap();
    let map = mapped(&path);
    let large = releasing_slice(&map, 1..3 << 20).unwrap();
    let small = large.slice(5..10);
    let other = releasing_slice(&map, 1..3 << 20).unwrap();
    drop(large);
    drop(other);
    drop(map);
    assert_eq!(small, vec![9; 5]);
}

/// A line of the kernel's account of this process.
#[cfg(target_os = "linux")]
fn resident_bytes(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

#[cfg(target_os = "linux")]
#[test]
fn streaming_a_large_file_keeps_little_of_it_resident() {
    const FILE_BYTES: u64 = 256 << 20;
    const STEP: u64 = 4 << 20;
    const ALONE: &str = "PILUM_TEST_MAP_ALONE";
    // In a process of its own, which has no memory of other tests.
    if std::env::var_os(ALONE).is_none() {
        let name = "map::tests::streaming_a_large_file_keeps_little_of_it_resident";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child
            .args(["--exact", name])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && shown.contains("1 passed"),
            "{shown}"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    // Sparse, with a byte in every MiB.
    let mut file = File::create(&path).unwrap();
    for mib in 0..FILE_BYTES >> 20 {
        file.write_all_at(&[1], mib << 20).unwrap();
    }
    file.seek(SeekFrom::Start(0)).unwrap();
    file.set_len(FILE_BYTES).unwrap();
    let map = mapped(&path);
    let before = resident_bytes("VmRSS");
    let (mut sum, mut peak) = (0u64, 0u64);
    for step in 0..FILE_BYTES / STEP {
        let start = step * STEP;
        let range = start..start + STEP;
        map.prefetch(&one(range.clone())).unwrap();
        let bytes = releasing_slice(&map, range).unwrap();
        sum += bytes.iter().map(|&b| u64::from(b)).sum::<u64>();
        peak = peak.max(resident_bytes("VmRSS").saturating_sub(before));
    }
    assert_eq!(sum, FILE_BYTES >> 20);
    assert!(peak < 2 * STEP, "{} MiB stayed resident", peak >> 20);
    // Without releasing, the measurement shows the resident memory.
    let kept = whole(&map);
    let touched: u64 = kept.iter().step_by(4096).map(|&b| u64::from(b)).sum();
    assert!(touched > 0);
    assert!(resident_bytes("VmRSS").saturating_sub(before) > 200 << 20);
}
