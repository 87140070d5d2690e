//! The worked example of a packed page in `docs/format.md`: its bytes must never change.

use super::*;
use crate::document::{hexdump, hold};

fn page_of(node: &EncodedNode) -> Vec<u8> {
    write_page(node, Mode::Fast, 0).unwrap()
}

#[test]
fn the_worked_page_has_the_82_bytes_of_the_format_document() {
    let page = page_of(&encode::frame(&[100, 103, 101, 100, 107], 8));
    let expected = "504b4431 05000000 01000000 50000000 02000000 00000000 00000000 00000000
        02080000 05000000 38000000 18000000 00000000 02000000
        64000000 00000000 01000000 00000000 03000000 00000000 5870";
    let hex: String = page.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected.split_whitespace().collect::<String>());
    assert_eq!(page.len(), 82);
    hold("hexdump packed page", &hexdump(&page));
    let values = decoded(&page, Kind::Numbers { width: 8 }, 5);
    let expected = [100_u64, 103, 101, 100, 107].map(u64::to_le_bytes);
    assert_eq!(values, expected.concat());
}
