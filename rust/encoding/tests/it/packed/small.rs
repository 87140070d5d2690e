//! Encodings that compress with zstd: `planes` of integers, and `coded`, which compresses the body of another node in parts of
//! 64 KiB.

use pilum_testing::Random;

use super::*;

fn bytes_of(words: &[u64], width: u8) -> Vec<u8> {
    let low = words.iter().map(|it| it.to_le_bytes());
    low.flat_map(|it| it[..usize::from(width)].to_vec())
        .collect()
}

/// Checks that `planes`, and `coded` where it applies, give back these integers. Returns the number of `coded` nodes.
fn assert_round_trips(words: &[u64], width: u8) -> usize {
    let planes = encode::planes(words, width).unwrap();
    let frame = encode::frame(words, width);
    let delta = encode::delta(words, width);
    let mut nodes: Vec<_> = [Some(frame), delta]
        .iter()
        .flatten()
        .filter_map(|it| encode::coded(it).unwrap())
        .collect();
    let coded = nodes.len();
    nodes.push(planes);
    let kind = Kind::Numbers { width };
    let expected = bytes_of(words, width);
    for node in nodes {
        let page = write_page(&node, Mode::Small, 0).unwrap();
        assert_eq!(page.len(), HEADER_BYTES + node.byte_len());
        let name = format!("{} values: {:?}", words.len(), node.encoding);
        assert!(decoded(&page, kind, words.len()) == expected, "{name}");
        numbers::assert_takes(&page, kind, &expected, usize::from(width));
    }
    coded
}

#[test]
fn integers_compressed_with_zstd_round_trip() {
    let mut random = Random(41);
    let mut coded = 0;
    for size in [0, 1, 33, 1023, 1024, 1025, 16_383, 16_384, 16_385, 40_000] {
        let mut make = |one: &mut dyn FnMut(&mut Random, u64) -> u64| -> Vec<u64> {
            (0..size).map(|index| one(&mut random, index)).collect()
        };
        let shapes = [
            make(&mut |random, _| random.any()),
            make(&mut |random, _| random.any() % 7),
            make(&mut |_, _| 42),
            make(&mut |random, index| {
                1_357_000_000 + index / 40 * 3600 + 3600 * (random.any() % 3)
            }),
            make(&mut |_, index| index.wrapping_mul(1000).wrapping_neg()),
            make(&mut |_, index| (index / 9 % 5) * 10_000_000),
            make(&mut |random, _| {
                if random.one_in(50) {
                    i64::MIN.cast_unsigned()
                } else {
                    i64::MAX as u64
                }
            }),
        ];
        for words in shapes {
            coded += assert_round_trips(&words, 8);
            // The encoders take narrow integers sign-extended to 64 bits.
            let narrow: Vec<u64> = words
                .iter()
                .map(|it| i64::from(*it as i16).cast_unsigned())
                .collect();
            coded += assert_round_trips(&narrow, 2);
        }
    }
    assert!(coded > 20, "{coded}");
}

#[test]
fn planes_of_similar_integers_have_less_than_half_the_bytes_of_for() {
    let words: Vec<u64> = (0..65_536_u64)
        .map(|it| (it / 7 % 13) * 1000 + it / 5000)
        .collect();
    let planes = encode::planes(&words, 8).unwrap().byte_len();
    let packed = encode::frame(&words, 8).byte_len();
    assert!(planes * 2 < packed, "{planes} {packed}");
}

#[test]
fn a_block_in_two_compressed_parts_round_trips() {
    // Codes of 11 bits: no block ends at the end of a compressed part of 64 KiB.
    let words: Vec<u64> = (0..200_000_u64).map(|it| it * it % 1999).collect();
    let mut low = words.clone();
    low.iter_mut()
        .for_each(|it| *it = *it % 3 + (*it / 1990) * 1990);
    assert_eq!(assert_round_trips(&low, 8), 2);
}
