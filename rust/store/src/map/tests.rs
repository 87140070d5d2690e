use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;

fn mapped(path: &Path) -> Arc<Map> {
    let file = File::open(path).unwrap();
    let byte_len = usize::try_from(file.metadata().unwrap().len()).unwrap();
    Arc::new(Map::open(&file, byte_len).unwrap())
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
    assert!(map.prefetch(&(0..10_001)).is_err());
    assert!(releasing_slice(&map, 0..10_001).is_none());
}

#[cfg(target_os = "linux")]
#[test]
fn bytes_that_are_gone_are_an_error_of_prefetch_and_not_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let map = mapped(&path);
    map.prefetch(&(0..1 << 20)).unwrap();
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(4096)
        .unwrap();
    let error = map.prefetch(&(0..1 << 20)).unwrap_err();
    assert!(error.raw_os_error().is_some(), "{error:?}");
    // What is left can still be had.
    assert_eq!(whole(&map)[4095], 7);
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
    assert!(map.prefetch(&reversed).is_err());
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
    // In a process of its own: the memory of other tests is not our subject.
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
        map.prefetch(&range).unwrap();
        let bytes = releasing_slice(&map, range).unwrap();
        sum += bytes.iter().map(|&b| u64::from(b)).sum::<u64>();
        peak = peak.max(resident_bytes("VmRSS").saturating_sub(before));
    }
    assert_eq!(sum, FILE_BYTES >> 20);
    assert!(peak < 2 * STEP, "{} MiB stayed resident", peak >> 20);
    // The same without letting go: the measure does see what stays.
    let kept = whole(&map);
    let touched: u64 = kept.iter().step_by(4096).map(|&b| u64::from(b)).sum();
    assert!(touched > 0);
    assert!(resident_bytes("VmRSS").saturating_sub(before) > 200 << 20);
}
