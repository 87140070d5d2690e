//! Packed pages that an attacker made: decoding does not panic, allocates no more memory than the size of the page justifies, and
//! ends with `Corrupt` if a field is wrong.

use std::path::Path;

use pilum_encoding::Error;
use pilum_testing::{Random, Target, fuzz};

use super::*;

/// Damaged pages that each fuzz target tries when `PILUM_FUZZ_SECONDS` is not set.
const CASES: u64 = 1500;

/// Parses a page, decodes at most 32 of its blocks, and takes three values of each of these.
fn read(page: &[u8], kind: Kind) -> Result<(), Error> {
    let slots = page
        .get(4..8)
        .map_or(0, |it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]));
    let head = head_length(page, page.len() as u64)?;
    let parsed = PackedPage::parse(page, page.len() as u64, kind, u64::from(slots))?;
    let mut bodies = Bodies::of_bytes(&page[head..]);
    // A page of few bytes can have very many values, so this does not decode every block.
    let step = parsed.num_blocks() / 32 + 1;
    for block in (0..parsed.num_blocks()).step_by(step) {
        let last = parsed.block_len(block) as u16 - 1;
        parsed.plan(block, &mut Vec::new());
        if kind == Kind::Texts {
            let mut out = TextOut::with_limit(4 << 20);
            parsed.decode_texts(block, &mut bodies, &mut out)?;
            parsed.take_texts(block, &[0, last / 2, last], &mut bodies, &mut out)?;
        } else {
            let mut out = Vec::new();
            parsed.decode_block(block, &mut bodies, &mut out)?;
            parsed.take(block, &[0, last / 2, last], &mut bodies, &mut out)?;
        }
    }
    Ok(())
}

/// Damages the header, the node table and the heads more often than the bodies.
fn damage(page: &mut [u8], random: &mut Random) {
    let head = page
        .get(12..16)
        .map_or(0, |it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]));
    let head = (head as usize).min(page.len());
    if head == 0 {
        return;
    }
    let at = random.below(head);
    let word = random.edge().to_le_bytes();
    let end = (at + [1, 1, 2, 4, 8][random.below(5)]).min(page.len());
    page[at..end].copy_from_slice(&word[..end - at]);
}

/// Restores the magic bytes and the body length in the header, so that the damaged page reaches the decoders.
fn mend(page: &mut [u8]) {
    if page.len() < HEADER_BYTES {
        return;
    }
    page[..4].copy_from_slice(b"PKD1");
    let head = u32::from_le_bytes([page[12], page[13], page[14], page[15]]) as usize;
    if head <= page.len() {
        let body = (page.len() - head) as u32;
        page[16..20].copy_from_slice(&body.to_le_bytes());
    }
}

fn run_target(name: &str, kind: Kind, corpus: Vec<Vec<u8>>) {
    let target = Target {
        name,
        corpus,
        damage: &|page, random| damage(page, random),
        mend: &|page| mend(page),
        decode: &|page, _| read(page, kind).is_ok(),
    };
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    fuzz(&target, &kept, CASES);
}

/// Pages of text in one encoding, with zstd and without.
fn text_pages(encoding: Encoding) -> Vec<Vec<u8>> {
    let mut random = Random(5);
    let mut pages = Vec::new();
    for len in [0, 5, 300, 1500] {
        for is_hexadecimal in [false, true] {
            let mut values: Vec<_> = (0..len)
                .map(|_| match is_hexadecimal {
                    true => texts::hexadecimal(&mut random),
                    false => texts::comment(&mut random),
                })
                .collect();
            values.sort_unstable();
            let (bytes, offsets) = texts::joined(&values);
            let texts = TextValues::new(&bytes, &offsets).unwrap();
            let Some(node) = encode::texts_as(&texts, encoding).unwrap() else {
                panic!("{encoding:?}")
            };
            let coded = encode::coded(&node).unwrap();
            for node in [Some(node), coded].into_iter().flatten() {
                pages.push(write_page(&node, Mode::Small, bytes.len() as u64).unwrap());
            }
        }
    }
    pages
}

fn float_pages(encoding: Encoding) -> Vec<Vec<u8>> {
    let mut random = Random(6);
    let mut pages = Vec::new();
    for len in [0, 5, 300, 1500] {
        let words: Vec<u64> = (0..len)
            .map(|index| match index % 30 {
                7 => f64::NAN.to_bits(),
                _ => ((random.any() % 1000) as f64 / 4.0).to_bits(),
            })
            .collect();
        if let Some(node) = encode::floats_as(&words, 8, encoding) {
            pages.push(write_page(&node, Mode::Fast, 0).unwrap());
        }
    }
    pages
}

#[test]
fn fuzz_packed_raw() {
    run_target("packed-raw", Kind::Texts, text_pages(Encoding::Raw));
}

#[test]
fn fuzz_packed_fsst() {
    run_target("packed-fsst", Kind::Texts, text_pages(Encoding::Fsst));
}

#[test]
fn fuzz_packed_pair() {
    run_target("packed-pair", Kind::Texts, text_pages(Encoding::Pair));
}

#[test]
fn fuzz_packed_chars() {
    let mut random = Random(8);
    let mut pages = text_pages(Encoding::Chars);
    let values: Vec<_> = (0..1500)
        .map(|_| texts::hexadecimal(&mut random)[..random.below(17)].to_vec())
        .collect();
    let (bytes, offsets) = texts::joined(&values);
    let texts = TextValues::new(&bytes, &offsets).unwrap();
    let node = encode::texts_as(&texts, Encoding::Chars).unwrap().unwrap();
    pages.push(write_page(&node, Mode::Fast, bytes.len() as u64).unwrap());
    run_target("packed-chars", Kind::Texts, pages);
}

#[test]
fn fuzz_packed_front() {
    run_target("packed-front", Kind::Texts, text_pages(Encoding::Front));
}

#[test]
fn fuzz_packed_binary_scale() {
    run_target(
        "packed-binary-scale",
        Kind::Numbers { width: 8 },
        float_pages(Encoding::BinaryScale),
    );
}

#[test]
fn fuzz_packed_alp() {
    run_target(
        "packed-alp",
        Kind::Numbers { width: 8 },
        float_pages(Encoding::Alp),
    );
}

#[test]
fn fuzz_packed_alp_rd() {
    run_target(
        "packed-alp-rd",
        Kind::Numbers { width: 8 },
        float_pages(Encoding::AlpRd),
    );
}

#[test]
fn fuzz_packed_planes() {
    let mut random = Random(9);
    let mut pages = Vec::new();
    for len in [0, 5, 1500, 17_000] {
        let words: Vec<u64> = (0..len)
            .map(|it| it / 9 * 3600 + random.any() % 3)
            .collect();
        let node = encode::planes(&words, 8).unwrap();
        pages.push(write_page(&node, Mode::Small, 0).unwrap());
        let words: Vec<u64> = (0..len).map(|it| it % 5 * 100_000).collect();
        let node = encode::planes(&words, 8).unwrap();
        pages.push(write_page(&node, Mode::Small, 0).unwrap());
    }
    run_target("packed-planes", Kind::Numbers { width: 8 }, pages);
}

#[test]
fn fuzz_packed_coded() {
    let mut pages = Vec::new();
    for len in [300, 1500, 9000] {
        let words: Vec<u64> = (0..len).map(|it| it / 40 % 3 * 1000).collect();
        let node = encode::coded(&encode::frame(&words, 8)).unwrap();
        pages.extend(node.map(|it| write_page(&it, Mode::Small, 0).unwrap()));
    }
    run_target("packed-coded", Kind::Numbers { width: 8 }, pages);
}

/// A page of text in one encoding. The head of its root node begins after the header of 32 bytes and the node table, which has
/// 24 bytes for each node.
fn page_of(encoding: Encoding, values: &[&str]) -> Vec<u8> {
    let values: Vec<Vec<u8>> = values.iter().map(|it| it.as_bytes().to_vec()).collect();
    let (bytes, offsets) = texts::joined(&values);
    let texts = TextValues::new(&bytes, &offsets).unwrap();
    let node = encode::texts_as(&texts, encoding).unwrap().unwrap();
    write_page(&node, Mode::Fast, bytes.len() as u64).unwrap()
}

fn assert_refused(page: &[u8], what: &str) {
    match read(page, Kind::Texts) {
        Err(Error::Corrupt { what: message, .. }) => {
            assert!(message.contains(what), "{message}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn errors_name_the_wrong_field_of_a_text_page() {
    // The head of the root begins after the header and the node table, which has two nodes.
    const HEAD: usize = 32 + 2 * 24;
    let words = ["abcabc", "abc", "abcabcabc"];
    let sound = page_of(Encoding::Fsst, &words);
    assert_eq!(read(&sound, Kind::Texts), Ok(()));
    let changed = |place: usize, byte: u8| {
        let mut page = sound.clone();
        page[HEAD + place] = byte;
        page
    };
    assert_refused(&changed(4, 0), "symbol 0 has 0 bytes");
    assert_refused(&changed(4, 9), "symbol 0 has 9 bytes");
    assert_refused(&changed(1, 3), "starts of 3 bytes");
    assert_refused(&changed(2, 1), "not 0");
    let mut page = sound.clone();
    // The last code is an escape, and the literal byte that must follow an escape is missing.
    let codes = page.len() - 2;
    page[codes - 1..].fill(255);
    let message = read(&page, Kind::Texts).unwrap_err().to_string();
    assert!(message.contains("block 0"), "{message}");

    let sound = page_of(Encoding::Chars, &words);
    assert_eq!(read(&sound, Kind::Texts), Ok(()));
    let mut page = sound.clone();
    page[HEAD + 8..HEAD + 10].copy_from_slice(b"ba");
    assert_refused(&page, "alphabet");
    let mut page = sound.clone();
    page[HEAD + 1] = 7;
    assert_refused(&page, "alphabet");

    let sound = page_of(Encoding::Pair, &words);
    assert_eq!(read(&sound, Kind::Texts), Ok(()));
    let mut page = sound.clone();
    page[HEAD + 8] = 17;
    assert_refused(&page, "a token of 17 bytes");
    let mut page = sound.clone();
    page[HEAD..HEAD + 2].copy_from_slice(&4097_u16.to_le_bytes());
    assert_refused(&page, "4097 tokens");
    let mut page = sound;
    let first_code = page.len() - 1;
    page[first_code] = 255;
    let message = read(&page, Kind::Texts).unwrap_err().to_string();
    assert!(message.contains("block 0"), "{message}");
}

#[test]
fn planes_that_unpack_to_more_values_than_announced_are_refused() {
    let words: Vec<u64> = (0..16_384_u64).map(|it| it % 7).collect();
    let node = encode::planes(&words, 8).unwrap();
    let sound = write_page(&node, Mode::Small, 0).unwrap();
    assert_eq!(read(&sound, Kind::Numbers { width: 8 }), Ok(()));
    // The node announces one value less than its compressed planes contain.
    let longer: Vec<u64> = (0..16_384_u64).map(|it| it % 7).chain([0; 9]).collect();
    let other = encode::planes(&longer[9..], 8).unwrap();
    let mut node = node;
    node.values -= 1;
    let page = write_page(&node, Mode::Small, 0).unwrap();
    let message = read(&page, Kind::Numbers { width: 8 })
        .unwrap_err()
        .to_string();
    assert!(message.contains("planes"), "{message}");
    assert!(!other.body.is_empty());
}
