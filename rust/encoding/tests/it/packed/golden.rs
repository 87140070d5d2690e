//! Golden pages: one small page for each encoding of text and floats, and for those with zstd. Their bytes must never change.

use super::*;

/// Checks that a page has these bytes, given in hexadecimal with any white space.
fn assert_bytes(page: &[u8], expected: &str) {
    let hex: String = page.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected.split_whitespace().collect::<String>());
}

fn text_page(encoding: Encoding, values: &[&str]) -> Vec<u8> {
    let values: Vec<Vec<u8>> = values.iter().map(|it| it.as_bytes().to_vec()).collect();
    let (bytes, offsets) = texts::joined(&values);
    let texts = TextValues::new(&bytes, &offsets).unwrap();
    let node = encode::texts_as(&texts, encoding).unwrap().unwrap();
    let page = write_page(&node, Mode::Fast, bytes.len() as u64).unwrap();
    assert!(texts::texts_of(&page, values.len()) == values);
    page
}

fn float_page(encoding: Encoding, values: &[f64]) -> Vec<u8> {
    let words: Vec<u64> = values.iter().map(|it| it.to_bits()).collect();
    let node = encode::floats_as(&words, 8, encoding).unwrap();
    let page = write_page(&node, Mode::Fast, 0).unwrap();
    let expected: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
    let decoded = decoded(&page, Kind::Numbers { width: 8 }, values.len());
    assert!(decoded == expected);
    page
}

const WORDS: [&str; 4] = ["cabbage", "", "cab", "bag"];

#[test]
fn a_page_of_raw_text_has_these_bytes() {
    assert_bytes(
        &text_page(Encoding::Raw, &WORDS),
        "504b4431 04000000 02000000 70000000 0f000000 00000000 0d000000 00000000
        0a000001 04000000 50000000 04000000 00000000 0d000000 02040000 04000000
        58000000 18000000 0d000000 02000000 00000000 00000000 00000000 00000000
        01000000 00000000 03000000 00000000 63616262 61676563 61626261 67c706",
    );
}

#[test]
fn a_page_of_fsst_symbols_has_these_bytes() {
    assert_bytes(
        &text_page(Encoding::Fsst, &WORDS),
        "504b4431 04000000 02000000 80000000 0b000000 00000000 0d000000 00000000
        0b000001 04000000 50000000 16000000 00000000 09000000 02040000 04000000
        68000000 18000000 09000000 02000000 05020000 01010102 02626765 62616361
        00000000 00000000 00000000 00000000 01000000 00000000 03000000 00000000
        04000301 02040003 01c706",
    );
}

#[test]
fn a_page_of_pair_tokens_has_these_bytes() {
    assert_bytes(
        &text_page(Encoding::Pair, &WORDS),
        "504b4431 04000000 02000000 88000000 0b000000 00000000 0d000000 00000000
        0c000001 04000000 50000000 1a000000 00000000 09000000 02040000 04000000
        70000000 18000000 09000000 02000000 05000200 09000000 01010102 02626567
        63616261 00000000 00000000 00000000 00000000 00000000 01000000 00000000
        03000000 00000000 03000402 01030004 02c706",
    );
}

#[test]
fn a_page_of_text_over_an_alphabet_has_these_bytes() {
    assert_bytes(
        &text_page(Encoding::Chars, &WORDS),
        "504b4431 04000000 02000000 80000000 07000000 00000000 0d000000 00000000
        0d000001 04000000 50000000 14000000 00000000 05000000 02040000 04000000
        68000000 18000000 05000000 02000000 05030100 00000000 61626365 67000000
        00000000 00000000 00000000 00000000 01000000 00000000 03000000 00000000
        42024e48 40c706",
    );
    // If all values have the same length, the page stores no starts of blocks: readers compute them.
    assert_bytes(
        &text_page(Encoding::Chars, &["0a", "ff"]),
        "504b4431 02000000 02000000 68000000 01000000 00000000 04000000 00000000
        0d000001 02000000 50000000 0c000000 00000000 01000000 01040000 02000000
        60000000 04000000 01000000 00000000 03020000 02000000 30616600 00000000
        02000000 00000000 a4",
    );
}

#[test]
fn a_page_of_sorted_text_has_these_bytes() {
    assert_bytes(
        &text_page(Encoding::Front, &["bag", "bags", "cab", "cabbage"]),
        "504b4431 04000000 04000000 b8000000 0d000000 00000000 11000000 00000000
        0e000002 04000000 80000000 00000000 00000000 00000000 02040000 04000000
        80000000 18000000 00000000 01000000 0a000001 04000000 98000000 04000000
        01000000 0b000000 02040000 04000000 a0000000 18000000 0c000000 01000000
        00000000 00000000 03000000 00000000 01000000 00000000 00000000 00000000
        01000000 00000000 01000000 00000000 02000000 00000000 0a626167 73636162
        62616765 e2",
    );
}

/// Eleven multiples of 0.25, and -0.0, which a scaled integer cannot represent and which becomes an exception.
fn quarters() -> Vec<f64> {
    let mut values: Vec<f64> = (1..12).map(|it| f64::from(it) / 4.0).collect();
    values.insert(2, -0.0);
    values
}

/// Checks the page of [`quarters`] in an encoding that turns floats into multiples of an integer. The number of the encoding, and
/// `unit`, which is the base and the divisor of the frame of reference below, are given in hexadecimal.
fn assert_page_of_quarters(encoding: Encoding, number: &str, unit: &str) {
    assert_bytes(
        &float_page(encoding, &quarters()),
        &format!(
            "504b4431 0c000000 02000000 70000000 10000000 00000000 00000000 00000000
            {number}080001 0c000000 50000000 06000000 00000000 0a000000 02080000 0c000000
            58000000 18000000 0a000000 06000000 02000100 01000000 {unit}000000 00000000
            {unit}000000 00000000 04000000 00000000 02000000 00000000 00801021 436587a9",
        ),
    );
}

#[test]
fn a_page_of_floats_with_a_binary_scale_has_these_bytes() {
    assert_page_of_quarters(Encoding::BinaryScale, "07", "01");
}

#[test]
fn a_page_of_floats_as_decimals_has_these_bytes() {
    assert_page_of_quarters(Encoding::Alp, "08", "19");
}

#[test]
fn a_page_of_floats_in_two_parts_has_these_bytes() {
    let values: Vec<f64> = (0..12)
        .map(|it| {
            if it == 5 {
                1e300
            } else {
                1.0 + f64::from(it) / 16.0
            }
        })
        .collect();
    assert_bytes(
        &float_page(Encoding::AlpRd, &values),
        "504b4431 0c000000 03000000 b8000000 40000000 00000000 00000000 00000000
        09080002 0c000000 68000000 12000000 00000000 00000000 02080000 0c000000
        80000000 18000000 00000000 05000000 02080000 0c000000 98000000 1a000000
        05000000 3b000000 31070000 f81ff91f fb1ffc1f fd1ffa1f 1b3f0000 00000000
        00000000 00000000 01000000 00000000 03000000 00000000 00000000 00000000
        04000000 00000000 0f000400 00000000 06000000 00000000 40524b1b 09000000
        00000000 000038eb 00000000 00000000 00000000 01000000 00800300 00000080
        05000044 1ef20700 00000080 09000000 00800b00 00000080",
    );
}

/// A page of the 1,100 integers 0, 500, 1000, 0, 500, .. in the encoding `planes`.
const PLANES: &str = "504b4431 4c040000 01010000 58000000 13000000 00000000 00000000 00000000
    10080000 4c040000 38000000 1c000000 00000000 13000000 00010000 00000000
    00000000 00000000 f4010000 00000000 13000000 00000000 28b52ffd 00085500
    00180001 02010046 f8bb21";

/// A page of the same integers in the encoding `for`, compressed by `coded`.
const CODED: &str = "504b4431 4c040000 02010000 78000000 18000000 00000000 00000000 00000000
    11080001 4c040000 50000000 0c000000 00000000 18000000 02080000 4c040000
    60000000 18000000 00000000 13010000 13010000 00000100 18000000 00000000
    00000000 00000000 f4010000 00000000 02000000 00000000 28b52ffd 00007d00
    00301861 86499224 02000019 7a293704";

#[test]
fn pages_with_zstd_decode_from_these_bytes() {
    // Another release of zstd may compress to other bytes, so the test checks only that these pages are decoded.
    let words: Vec<u64> = (0..1100).map(|it| it % 3 * 500).collect();
    let expected: Vec<u8> = words.iter().flat_map(|it| it.to_le_bytes()).collect();
    for hex in [PLANES, CODED] {
        let hex: String = hex.split_whitespace().collect();
        let page: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
        assert!(decoded(&page, Kind::Numbers { width: 8 }, words.len()) == expected);
    }
}
