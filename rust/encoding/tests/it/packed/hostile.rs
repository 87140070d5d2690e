//! Packed pages of an enemy: no panic, no memory that their bytes do not justify, and `Corrupt` where a field is wrong.

use std::path::Path;

use pilum_encoding::Error;
use pilum_testing::{Random, Target, fuzz};

use super::*;

/// Cases of each target without `PILUM_FUZZ_SECONDS`.
const CASES: u64 = 1500;

/// Reads a page of either kind whole, and some values of each block.
fn read(page: &[u8], kind: Kind) -> Result<(), Error> {
    let slots = page
        .get(4..8)
        .map_or(0, |it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]));
    let head = head_length(page, page.len() as u64)?;
    let parsed = PackedPage::parse(page, page.len() as u64, kind, u64::from(slots))?;
    let mut bodies = Bodies::of_bytes(&page[head..]);
    // A page of few bytes can have very many values: some of the blocks.
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

/// Makes the lengths in the header right again.
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

fn feed(name: &str, kind: Kind, corpus: Vec<Vec<u8>>) {
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

/// Pages of text in one encoding, and behind zstd.
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
    feed("packed-raw", Kind::Texts, text_pages(Encoding::Raw));
}

#[test]
fn fuzz_packed_fsst() {
    feed("packed-fsst", Kind::Texts, text_pages(Encoding::Fsst));
}

#[test]
fn fuzz_packed_pair() {
    feed("packed-pair", Kind::Texts, text_pages(Encoding::Pair));
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
    feed("packed-chars", Kind::Texts, pages);
}

#[test]
fn fuzz_packed_front() {
    feed("packed-front", Kind::Texts, text_pages(Encoding::Front));
}

#[test]
fn fuzz_packed_binary_scale() {
    feed(
        "packed-binary-scale",
        Kind::Numbers { width: 8 },
        float_pages(Encoding::BinaryScale),
    );
}

#[test]
fn fuzz_packed_alp() {
    feed(
        "packed-alp",
        Kind::Numbers { width: 8 },
        float_pages(Encoding::Alp),
    );
}

#[test]
fn fuzz_packed_alp_rd() {
    feed(
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
    feed("packed-planes", Kind::Numbers { width: 8 }, pages);
}

#[test]
fn fuzz_packed_coded() {
    let mut pages = Vec::new();
    for len in [300, 1500, 9000] {
        let words: Vec<u64> = (0..len).map(|it| it / 40 % 3 * 1000).collect();
        let node = encode::coded(&encode::frame(&words, 8)).unwrap();
        pages.extend(node.map(|it| write_page(&it, Mode::Small, 0).unwrap()));
    }
    feed("packed-coded", Kind::Numbers { width: 8 }, pages);
}

/// A page of text in one encoding, the head of its root at 32 + 24 nodes.
fn page_of(encoding: Encoding, values: &[&str]) -> Vec<u8> {
    let values: Vec<Vec<u8>> = values.iter().map(|it| it.as_bytes().to_vec()).collect();
    let (bytes, offsets) = texts::joined(&values);
    let texts = TextValues::new(&bytes, &offsets).unwrap();
    let node = encode::texts_as(&texts, encoding).unwrap().unwrap();
    write_page(&node, Mode::Fast, bytes.len() as u64).unwrap()
}

fn refused(page: &[u8], what: &str) {
    match read(page, Kind::Texts) {
        Err(Error::Corrupt { what: message, .. }) => {
            assert!(message.contains(what), "{message}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn wrong_fields_of_text_are_named() {
    // Header, node table of two nodes: the head of the root begins here.
    const HEAD: usize = 32 + 2 * 24;
    let words = ["abcabc", "abc", "abcabcabc"];
    let sound = page_of(Encoding::Fsst, &words);
    assert_eq!(read(&sound, Kind::Texts), Ok(()));
    let changed = |place: usize, byte: u8| {
        let mut page = sound.clone();
        page[HEAD + place] = byte;
        page
    };
    refused(&changed(4, 0), "symbol 0 has 0 bytes");
    refused(&changed(4, 9), "symbol 0 has 9 bytes");
    refused(&changed(1, 3), "starts of 3 bytes");
    refused(&changed(2, 1), "not 0");
    let mut page = sound.clone();
    // An escape without its byte, in the last byte of the codes.
    let codes = page.len() - 2;
    page[codes - 1..].fill(255);
    let message = read(&page, Kind::Texts).unwrap_err().to_string();
    assert!(message.contains("block 0"), "{message}");

    let sound = page_of(Encoding::Chars, &words);
    assert_eq!(read(&sound, Kind::Texts), Ok(()));
    let mut page = sound.clone();
    page[HEAD + 8..HEAD + 10].copy_from_slice(b"ba");
    refused(&page, "alphabet");
    let mut page = sound.clone();
    page[HEAD + 1] = 7;
    refused(&page, "alphabet");

    let sound = page_of(Encoding::Pair, &words);
    assert_eq!(read(&sound, Kind::Texts), Ok(()));
    let mut page = sound.clone();
    page[HEAD + 8] = 17;
    refused(&page, "a token of 17 bytes");
    let mut page = sound.clone();
    page[HEAD..HEAD + 2].copy_from_slice(&4097_u16.to_le_bytes());
    refused(&page, "4097 tokens");
    let mut page = sound;
    let first_code = page.len() - 1;
    page[first_code] = 255;
    let message = read(&page, Kind::Texts).unwrap_err().to_string();
    assert!(message.contains("block 0"), "{message}");
}

#[test]
fn planes_that_unpack_to_more_than_their_values_are_refused() {
    let words: Vec<u64> = (0..16_384_u64).map(|it| it % 7).collect();
    let node = encode::planes(&words, 8).unwrap();
    let sound = write_page(&node, Mode::Small, 0).unwrap();
    assert_eq!(read(&sound, Kind::Numbers { width: 8 }), Ok(()));
    // The frame of a longer plane in the place of the right one.
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
