//! Text in every encoding that can represent it; the numbers of values are around the boundaries of blocks and groups.

use pilum_testing::Random;
use proptest::prelude::*;

use super::*;

pub(super) const TEXT_ENCODINGS: [Encoding; 5] = [
    Encoding::Raw,
    Encoding::Fsst,
    Encoding::Pair,
    Encoding::Chars,
    Encoding::Front,
];

/// The values one after the other, and the offset of each.
pub(super) fn joined(values: &[Vec<u8>]) -> (Vec<u8>, Vec<u32>) {
    let mut offsets = vec![0];
    let mut bytes = Vec::new();
    for value in values {
        bytes.extend_from_slice(value);
        offsets.push(bytes.len() as u32);
    }
    (bytes, offsets)
}

/// Takes some values of each block of a page, and returns each with its number in the page. `choose` gets the number of values of
/// a block, and returns the positions to take.
pub(super) fn taken(
    page: &[u8],
    slots: usize,
    mut choose: impl FnMut(usize) -> Vec<u16>,
) -> Vec<(usize, Vec<u8>)> {
    let parsed = PackedPage::parse(page, page.len() as u64, Kind::Texts, slots as u64).unwrap();
    let mut bodies = Bodies::of_bytes(&page[parsed.head_length()..]);
    let mut values = Vec::new();
    for block in 0..parsed.num_blocks() {
        let places = choose(parsed.block_len(block));
        let mut out = TextOut::with_limit(1 << 30);
        parsed
            .take_texts(block, &places, &mut bodies, &mut out)
            .unwrap();
        let places = places.iter().map(|it| block * BLOCK + usize::from(*it));
        values.extend(places.zip(split(&out)));
    }
    values
}

/// The texts that decoding appended to `out`, one by one.
fn split(out: &TextOut) -> Vec<Vec<u8>> {
    let mut rest = out.bytes.as_slice();
    let values = out.lengths.iter().map(|length| {
        let (value, others) = rest.split_at(*length as usize);
        rest = others;
        value.to_vec()
    });
    values.collect()
}

/// Decodes all values of a page. Decodes each block a second time, from a copy of the page that has only the head and the byte
/// ranges that `plan` returns for this block, and compares the two results.
pub(super) fn texts_of(page: &[u8], slots: usize) -> Vec<Vec<u8>> {
    let parse = || PackedPage::parse(page, page.len() as u64, Kind::Texts, slots as u64).unwrap();
    let parsed = parse();
    let mut bodies = Bodies::of_bytes(&page[parsed.head_length()..]);
    let mut out = TextOut::with_limit(1 << 30);
    let mut planned = vec![0xaa; page.len()];
    for block in 0..parsed.num_blocks() {
        let (from, first) = (out.bytes.len(), out.lengths.len());
        parsed.decode_texts(block, &mut bodies, &mut out).unwrap();
        let fresh = parse();
        let mut ranges = Vec::new();
        fresh.plan(block, &mut ranges);
        let ranges = ranges.iter().map(|it| it.start as usize..it.end as usize);
        let ranges: Vec<_> = ranges.collect();
        for range in ranges.iter().cloned() {
            planned[range.clone()].copy_from_slice(&page[range]);
        }
        let mut alone = TextOut::with_limit(1 << 30);
        let mut only = Bodies::of_bytes(&planned[parsed.head_length()..]);
        fresh.decode_texts(block, &mut only, &mut alone).unwrap();
        let what = || format!("block {block} of {}", parsed.describe());
        assert_eq!(out.lengths[first..], alone.lengths, "{}", what());
        assert!(out.bytes[from..] == alone.bytes, "{}", what());
        for range in ranges {
            planned[range].fill(0xaa);
        }
    }
    split(&out)
}

/// Checks that each encoding that can represent these texts gives them back, with `coded` and without.
fn assert_round_trips(values: &[Vec<u8>]) {
    let (bytes, offsets) = joined(values);
    let texts = TextValues::new(&bytes, &offsets).unwrap();
    let mut nodes = vec![encode::texts(&texts).unwrap()];
    nodes.push(encode::sorted_texts(&texts).unwrap());
    for encoding in TEXT_ENCODINGS {
        nodes.extend(encode::texts_as(&texts, encoding).unwrap());
    }
    let coded: Vec<_> = nodes
        .iter()
        .filter_map(|it| encode::coded(it).unwrap())
        .collect();
    nodes.extend(coded);
    for node in nodes {
        assert_node_holds(&node, values, bytes.len());
    }
}

/// Checks that the page of a node has these values, as a whole and by position.
fn assert_node_holds(node: &EncodedNode, values: &[Vec<u8>], text_length: usize) {
    let page = write_page(node, Mode::Fast, text_length as u64).unwrap();
    assert_eq!(page.len(), HEADER_BYTES + node.byte_len());
    let name = format!("{} values: {:?}", values.len(), node.encoding);
    assert!(texts_of(&page, values.len()) == values, "{name}");
    let mut random = Random(7);
    let some = |len: usize| {
        let mut places: Vec<u16> = (0..7).map(|_| random.below(len) as u16).collect();
        places.extend([0, len as u16 - 1]);
        places.sort_unstable();
        places
    };
    for (value, text) in taken(&page, values.len(), some) {
        assert!(text == values[value], "{name}: value {value}");
    }
}

/// A text of up to six random words, similar to the comments of TPC-H.
pub(super) fn comment(random: &mut Random) -> Vec<u8> {
    const ADVERBS: [&str; 8] = [
        "carefully",
        "furiously",
        "quickly",
        "slyly",
        "blithely",
        "ruthlessly",
        "daringly",
        "never",
    ];
    const ADJECTIVES: [&str; 8] = [
        "final", "ironic", "regular", "special", "pending", "bold", "express", "unusual",
    ];
    const NOUNS: [&str; 12] = [
        "accounts",
        "packages",
        "deposits",
        "requests",
        "foxes",
        "theodolites",
        "instructions",
        "pinto beans",
        "dependencies",
        "excuses",
        "platelets",
        "asymptotes",
    ];
    const VERBS: [&str; 10] = [
        "sleep",
        "wake",
        "haggle",
        "nag",
        "cajole",
        "detect",
        "integrate",
        "boost",
        "doze",
        "use",
    ];
    let mut text = String::new();
    for _ in 0..=random.below(6) {
        let words: &[&str] = match random.below(4) {
            0 => &ADVERBS,
            1 => &ADJECTIVES,
            2 => &NOUNS,
            _ => &VERBS,
        };
        text.push_str(random.pick::<&str>(words));
        text.push_str(if random.one_in(5) { ". " } else { " " });
    }
    let from = random.below(text.len().min(6));
    text.as_bytes()[from..].to_vec()
}

pub(super) fn hexadecimal(random: &mut Random) -> Vec<u8> {
    format!("{:016x}", random.any()).into_bytes()
}

/// Columns of `len` texts, one column for each shape that the encoders treat differently.
fn shapes(len: usize, random: &mut Random) -> Vec<Vec<Vec<u8>>> {
    let mut make = |one: &mut dyn FnMut(&mut Random, usize) -> Vec<u8>| -> Vec<Vec<u8>> {
        (0..len).map(|index| one(random, index)).collect()
    };
    vec![
        make(&mut |_, _| Vec::new()),
        make(&mut |_, _| b"always the same".to_vec()),
        make(&mut |random, _| hexadecimal(random)),
        make(&mut |random, _| hexadecimal(random)[..random.below(17)].to_vec()),
        make(&mut |random, _| comment(random)),
        make(&mut |random, _| vec![0xff; random.below(20)]),
        make(&mut |random, _| (0..random.below(30)).map(|_| random.any() as u8).collect()),
        make(&mut |random, _| "grün €5 日本 🦀 ".repeat(random.below(4)).into_bytes()),
        make(&mut |random, _| format!("city {}", random.below(50)).into_bytes()),
        make(&mut |_, index| format!("https://example.org/a/{index:08}").into_bytes()),
        make(&mut |_, index| {
            if index % 700 == 3 {
                vec![b'x'; 5000]
            } else {
                b"y".to_vec()
            }
        }),
    ]
}

#[test]
fn texts_of_every_size_and_shape_round_trip() {
    let mut random = Random(21);
    for len in [0, 1, 31, 32, 33, 1023, 1024, 1025, 2047] {
        for values in shapes(len, &mut random) {
            assert_round_trips(&values);
        }
    }
}

#[test]
fn pages_of_64_ki_values_and_texts_of_1_mib_round_trip() {
    let mut random = Random(22);
    for len in [65_535, 65_536, 65_537] {
        let values: Vec<_> = (0..len).map(|_| comment(&mut random)).collect();
        let (bytes, offsets) = joined(&values);
        let texts = TextValues::new(&bytes, &offsets).unwrap();
        let node = encode::texts(&texts).unwrap();
        assert_eq!(node.encoding, Encoding::Pair);
        assert_node_holds(&node, &values, bytes.len());
    }
    let long: Vec<u8> = (0..1 << 20).map(|_| random.any() as u8).collect();
    let mut values = vec![b"short".to_vec(), long, Vec::new()];
    values.push(b"abc".repeat(1 << 18));
    assert_round_trips(&values);
}

#[test]
fn the_same_texts_are_encoded_to_the_same_bytes() {
    let mut random = Random(23);
    for values in shapes(3000, &mut random) {
        let (bytes, offsets) = joined(&values);
        let texts = TextValues::new(&bytes, &offsets).unwrap();
        assert_eq!(
            encode::texts(&texts).unwrap(),
            encode::texts(&texts).unwrap()
        );
    }
}

#[test]
fn the_encoder_chooses_by_the_shape_of_the_texts() {
    let mut random = Random(24);
    let mut chosen = |one: &mut dyn FnMut(&mut Random, usize) -> Vec<u8>| {
        let values: Vec<_> = (0..20_000).map(|index| one(&mut random, index)).collect();
        let (bytes, offsets) = joined(&values);
        let node = encode::texts(&TextValues::new(&bytes, &offsets).unwrap()).unwrap();
        (node.encoding, node.byte_len() * 100 / bytes.len().max(1))
    };
    assert_eq!(
        chosen(&mut |random, _| hexadecimal(random)),
        (Encoding::Chars, 50)
    );
    let comments = chosen(&mut |random, _| comment(random));
    assert!(
        comments.0 == Encoding::Pair && comments.1 < 40,
        "{comments:?}"
    );
    let cities = chosen(&mut |random, _| format!("city {}", random.below(50)).into_bytes());
    assert!(
        cities.0 == Encoding::Dictionary && cities.1 < 12,
        "{cities:?}"
    );
    let noise = chosen(&mut |random, _| (0..16).map(|_| random.any() as u8).collect());
    assert_eq!(noise.0, Encoding::Raw);
    let names = chosen(&mut |_, index| format!("https://example.org/a/{index:08}").into_bytes());
    assert!(
        names.0 == Encoding::Pair || names.0 == Encoding::Fsst,
        "{names:?}"
    );
}

#[test]
fn sorted_texts_share_their_prefixes() {
    let values: Vec<_> = (0..5000)
        .map(|index| format!("https://example.org/a/{index:08}").into_bytes())
        .collect();
    let (bytes, offsets) = joined(&values);
    let node = encode::sorted_texts(&TextValues::new(&bytes, &offsets).unwrap()).unwrap();
    assert_eq!(node.encoding, Encoding::Front);
    assert!(
        node.byte_len() * 10 < bytes.len(),
        "{} of {}",
        node.byte_len(),
        bytes.len()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_texts_round_trip(values in prop::collection::vec(prop::collection::vec(0_u8..=255, 0..40), 0..80), alphabet in 1_u8..=255) {
        let values: Vec<Vec<u8>> = values;
        let narrow: Vec<Vec<u8>> = values.iter().map(|it| it.iter().map(|byte| byte % alphabet).collect()).collect();
        assert_round_trips(&values);
        assert_round_trips(&narrow);
    }
}
