//! Fuzzing of packed pages: a damaged page gives an error or values, never a panic, and decoding stays within its memory limit.

use std::path::Path;

use pilum_testing::{Random, Target, fuzz};

use super::golden_numbers::corpus;
use super::*;

const CASES: u64 = 20_000;

/// The kind of page that the first byte of a fuzz input selects; the rest of the input is the page.
fn kind_of(byte: u8) -> Kind {
    match byte % 8 {
        0 => Kind::Numbers { width: 1 },
        1 => Kind::Numbers { width: 2 },
        2 => Kind::Numbers { width: 4 },
        3 => Kind::Numbers { width: 8 },
        4 => Kind::Numbers { width: 16 },
        5 => Kind::Fixed { width: 3 },
        6 => Kind::Texts,
        _ => Kind::Bits,
    }
}

fn byte_of(kind: Kind) -> u8 {
    (0..8).find(|&byte| kind_of(byte) == kind).unwrap()
}

/// Bytes of text to which the test limits one read of a block.
const MOST_TEXT: usize = 1 << 20;

fn read(input: &[u8], random: &mut Random) -> bool {
    let Some((&kind, page)) = input.split_first() else {
        return false;
    };
    let Some(slots) = page.get(4..8) else {
        return false;
    };
    let slots = u32::from_le_bytes(slots.try_into().unwrap());
    let parsed = PackedPage::parse(page, page.len() as u64, kind_of(kind), slots.into());
    let Ok(parsed) = parsed else {
        return false;
    };
    let mut bodies = Bodies::of_bytes(&page[parsed.head_length()..]);
    let num_blocks = parsed.num_blocks();
    let mut is_sound = true;
    for block in [0, 1, random.below(num_blocks), num_blocks.saturating_sub(1)] {
        if block < num_blocks {
            parsed.plan(block, &mut Vec::new());
            is_sound &= read_block(&parsed, block, &mut bodies, random);
        }
    }
    is_sound
}

/// Decodes a block as a whole, and some of its values by position, and checks that both agree. Returns whether the block is
/// valid.
fn read_block(
    parsed: &PackedPage,
    block: usize,
    bodies: &mut Bodies<'_>,
    random: &mut Random,
) -> bool {
    let len = parsed.block_len(block);
    let mut places: Vec<u16> = (0..len.min(5)).map(|_| random.below(len) as u16).collect();
    places.sort_unstable();
    let mut texts = TextOut::with_limit(MOST_TEXT);
    let mut taken_texts = TextOut::with_limit(MOST_TEXT);
    if parsed.decode_texts(block, bodies, &mut texts).is_ok() {
        parsed
            .take_texts(block, &places, bodies, &mut taken_texts)
            .unwrap();
        assert_eq!(texts.lengths.len(), len);
        let lengths: usize = texts.lengths.iter().map(|&it| it as usize).sum();
        assert_eq!(texts.bytes.len(), lengths);
        let mut taken = taken_texts.bytes.as_slice();
        for &place in &places {
            let place = usize::from(place);
            let start: usize = texts.lengths[..place].iter().map(|&it| it as usize).sum();
            let text = &texts.bytes[start..start + texts.lengths[place] as usize];
            assert!(taken.starts_with(text));
            taken = &taken[text.len()..];
        }
        return true;
    }
    let mut whole = Vec::new();
    if parsed.decode_block(block, bodies, &mut whole).is_err() {
        let _ = parsed.take(block, &places, bodies, &mut Vec::new());
        return false;
    }
    let mut taken = Vec::new();
    parsed.take(block, &places, bodies, &mut taken).unwrap();
    if len > 0 && whole.len() >= len {
        let width = whole.len() / len;
        for (place, value) in places.iter().zip(taken.chunks(width)) {
            let start = usize::from(*place) * width;
            // `decode_block` packs eight booleans in a byte, and `take` gives a byte for each: these are not compared.
            assert!(whole.len() < len * width || value == &whole[start..start + width]);
        }
    }
    true
}

/// Sets a field of the header, the node table or a head to a value at which arithmetic may overflow.
fn damage(input: &mut [u8], random: &mut Random) {
    let head = input
        .get(13..17)
        .map_or(80, |it| u32::from_le_bytes(it.try_into().unwrap()) as usize);
    let at = 1 + random.below(head.min(input.len()).max(1));
    let width = [1, 2, 4, 8][random.below(4)];
    let Some(field) = input.get_mut(at..at + width) else {
        return;
    };
    let mut word = [0; 8];
    word[..width].copy_from_slice(field);
    let word = u64::from_le_bytes(word);
    let word = match random.below(5) {
        0 => 0,
        1 => u64::MAX,
        2 => word.wrapping_add(1),
        3 => word.wrapping_sub(1),
        _ => random.edge(),
    };
    field.copy_from_slice(&word.to_le_bytes()[..width]);
}

/// Sets the body length in the header to that of the input, so that a damaged page passes this check and reaches the decoders.
fn mend(input: &mut [u8]) {
    let page = input.len().saturating_sub(1);
    if let Some(lengths) = input.get_mut(13..21) {
        let head = u32::from_le_bytes(lengths[..4].try_into().unwrap()) as usize;
        if let Some(body) = page.checked_sub(head) {
            lengths[4..].copy_from_slice(&(body as u32).to_le_bytes());
        }
    }
}

fn inputs() -> Vec<Vec<u8>> {
    let with_kind = |(_, kind, page): (_, Kind, Vec<u8>)| {
        let mut input = vec![byte_of(kind)];
        input.extend(page);
        input
    };
    corpus().into_iter().map(with_kind).collect()
}

#[test]
fn fuzz_packed_pages() {
    let target = Target {
        name: "packed",
        corpus: inputs(),
        damage: &|input, random| damage(input, random),
        mend: &|input| mend(input),
        decode: &read,
    };
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    fuzz(&target, &kept, CASES);
}

#[test]
fn a_page_with_any_damaged_byte_of_its_head_is_read_without_panic() {
    let mut random = Random(1);
    for input in inputs() {
        let head = u32::from_le_bytes(input[13..17].try_into().unwrap()) as usize;
        assert!(read(&input, &mut random));
        for at in 1..=head.min(600) {
            for value in [
                0,
                0xff,
                input[at].wrapping_add(1),
                input[at].wrapping_sub(1),
            ] {
                let mut damaged = input.clone();
                damaged[at] = value;
                let _ = read(&damaged, &mut random);
            }
        }
        for len in 0..input.len().min(400) {
            assert!(!read(&input[..len], &mut random), "cut at {len}");
        }
    }
}
