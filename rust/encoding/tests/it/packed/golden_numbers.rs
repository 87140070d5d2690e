//! Golden pages of numbers, booleans and constants, whose bytes must never change. `golden_numbers.txt` has a line for each
//! page: its name, and its bytes in hexadecimal.

use std::fmt::Write as _;
use std::path::Path;

use super::*;

/// The golden pages: name, kind and bytes of each.
pub(super) fn corpus() -> Vec<(&'static str, Kind, Vec<u8>)> {
    let steps: Vec<u64> = (0..1030).map(|it| 1000 + 7 * it + it % 3).collect();
    let hours: Vec<u64> = (0..1030)
        .map(|it| 3600 * (it / 1024 * 5000 + it % 3))
        .collect();
    let outliers: Vec<u64> = (0..40)
        .map(|it| if it == 20 { 1 << 40 } else { it % 2 })
        .collect();
    let runs: Vec<u64> = (0..1030).map(|it| it / 400 * 99).collect();
    let few: Vec<u64> = (0..1030).map(|it| it * it % 5 * 1_000_000_007).collect();
    let mixed = [u64::MAX, 0, 1 << 63, 5];
    let eight = Kind::Numbers { width: 8 };
    let four = Kind::Numbers { width: 4 };
    let sixteen = Kind::Numbers { width: 16 };
    let mut sparse = [0; 130];
    sparse[17] = 8;
    let mut halves = [0; 130];
    halves[60..].fill(0xff);
    let pages = [
        ("plain", eight, encode::plain(&mixed, 8)),
        (
            "plain-fixed",
            Kind::Fixed { width: 3 },
            encode::plain_bytes(b"abcdef", 3),
        ),
        ("constant", sixteen, encode::constant(u64::MAX, 16, 3000)),
        (
            "constant-text",
            Kind::Texts,
            encode::constant_bytes(b"pilum", 1500).unwrap(),
        ),
        ("for", eight, encode::frame(&[100, 103, 101, 100, 107], 8)),
        ("for-bases", eight, encode::frame(&hours, 8)),
        ("for-exceptions", eight, encode::frame(&outliers, 8)),
        ("for-extremes", eight, encode::frame(&mixed, 8)),
        ("delta", eight, encode::delta(&steps, 8).unwrap()),
        (
            "delta-sequence",
            four,
            encode::delta(&(5..1100).collect::<Vec<_>>(), 4).unwrap(),
        ),
        ("run", four, encode::run(&runs, 4)),
        ("dictionary", eight, encode::dictionary(&few, 8).unwrap()),
        (
            "dictionary-runs",
            eight,
            encode::dictionary(&runs, 8).unwrap(),
        ),
        ("wide", sixteen, encode::wide(&[i128::MIN, 1 << 70, -1])),
        (
            "bits-bitmap",
            Kind::Bits,
            encode::bits(&[0x5a, 0x33, 0x01], 17).unwrap(),
        ),
        (
            "bits-places",
            Kind::Bits,
            encode::bits(&sparse, 1040).unwrap(),
        ),
        (
            "bits-changes",
            Kind::Bits,
            encode::bits(&halves, 1040).unwrap(),
        ),
    ];
    let page_of = |node: &EncodedNode, kind| {
        let text = if kind == Kind::Texts { 7500 } else { 0 };
        write_page(node, Mode::Fast, text).unwrap()
    };
    let pages = pages.map(|(name, kind, node)| (name, kind, page_of(&node, kind)));
    pages.into()
}

#[test]
fn bytes_of_each_encoding_never_change() {
    let mut made = String::new();
    for (name, _, page) in corpus() {
        write!(made, "{name} ").unwrap();
        for byte in page {
            write!(made, "{byte:02x}").unwrap();
        }
        made.push('\n');
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/packed/golden_numbers.txt");
    if std::env::var_os("PILUM_REGENERATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (golden, made) in golden.lines().zip(made.lines()) {
        assert_eq!(golden, made);
    }
    assert_eq!(golden.lines().count(), made.lines().count());
}
