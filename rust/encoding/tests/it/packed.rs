//! Each encoding alone: every node comes back whole, block by block and value by value, and its bytes are stated.

use pilum_encoding::packed::*;

mod floats;
mod fuzz;
mod golden;
mod golden_numbers;
mod hostile;
mod numbers;
mod property;
mod small;
mod texts;
mod worked;

/// The values of a page, decoded from its bytes.
fn decoded(page: &[u8], kind: Kind, slots: usize) -> Vec<u8> {
    let parsed = PackedPage::parse(page, page.len() as u64, kind, slots as u64).unwrap();
    let mut bodies = Bodies::of_bytes(&page[parsed.head_length()..]);
    let mut out = Vec::new();
    for block in 0..parsed.num_blocks() {
        let start = out.len();
        parsed.decode_block(block, &mut bodies, &mut out).unwrap();
        let mut alone = Vec::new();
        // A block decodes from the ranges that were planned, and from nothing else.
        let mut planned = vec![0xaa; page.len()];
        let fresh = PackedPage::parse(page, page.len() as u64, kind, slots as u64).unwrap();
        let mut ranges = Vec::new();
        fresh.plan(block, &mut ranges);
        for range in ranges {
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            planned[range.clone()].copy_from_slice(&page[range]);
        }
        let mut only = Bodies::of_bytes(&planned[parsed.head_length()..]);
        fresh.decode_block(block, &mut only, &mut alone).unwrap();
        assert_eq!(
            out[start..],
            alone,
            "block {block} of {}",
            parsed.describe()
        );
    }
    assert_eq!(parsed.num_values(), slots);
    out
}
