//! Packed pages: each encoding must give back the values that were encoded, as a page, by block and by value.

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

/// Decodes all values of a page. Decodes each block a second time, from a copy of the page that has only the head and the byte
/// ranges that `plan` returns for this block, and compares the two results.
fn decoded(page: &[u8], kind: Kind, slots: usize) -> Vec<u8> {
    let parsed = PackedPage::parse(page, page.len() as u64, kind, slots as u64).unwrap();
    let mut bodies = Bodies::of_bytes(&page[parsed.head_length()..]);
    let mut out = Vec::new();
    for block in 0..parsed.num_blocks() {
        let start = out.len();
        parsed.decode_block(block, &mut bodies, &mut out).unwrap();
        let mut alone = Vec::new();
        // Bytes outside of the planned ranges are garbage, so a read of one of them would change the values.
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
