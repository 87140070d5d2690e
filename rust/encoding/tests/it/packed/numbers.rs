//! Numbers in every encoding that can represent them; the numbers of values are around the boundaries of blocks.

use pilum_testing::Random;

use super::*;

const SIZES: [usize; 11] = [0, 1, 2, 31, 32, 33, 1023, 1024, 1025, 2047, 5000];

/// Checks that each encoding that can represent these integers gives them back, as a page and by value.
pub(super) fn assert_round_trips(values: &[u64], width: u8) {
    let mut nodes = vec![
        Some(encode::plain(values, width)).filter(|_| width <= 8),
        Some(encode::frame(values, width)),
        encode::delta(values, width),
        Some(encode::run(values, width)).filter(|_| !values.is_empty()),
        encode::dictionary(values, width),
    ];
    if let [first, rest @ ..] = values
        && rest.iter().all(|it| it == first)
    {
        nodes.push(Some(encode::constant(*first, width, values.len())));
    }
    let expected: Vec<u8> = values
        .iter()
        .flat_map(|value| {
            let wide = i128::from(value.cast_signed()).to_le_bytes();
            wide[..usize::from(width)].to_vec()
        })
        .collect();
    let kind = Kind::Numbers { width };
    for node in nodes.into_iter().flatten() {
        let page = write_page(&node, Mode::Fast, 0).unwrap();
        assert_eq!(page.len(), HEADER_BYTES + node.byte_len());
        let name = format!("{} values: {:?}", values.len(), node.encoding);
        assert!(decoded(&page, kind, values.len()) == expected, "{name}");
        assert_takes(&page, kind, &expected, usize::from(width));
    }
}

/// Checks that `take` gives the same values of each block as the page has: the first, the last and some random ones.
pub(super) fn assert_takes(page: &[u8], kind: Kind, expected: &[u8], width: usize) {
    let slots = (expected.len() / width) as u64;
    let parsed = PackedPage::parse(page, page.len() as u64, kind, slots).unwrap();
    let mut bodies = Bodies::of_bytes(&page[parsed.head_length()..]);
    let mut random = Random(7);
    for block in 0..parsed.num_blocks() {
        let len = parsed.block_len(block);
        let mut places: Vec<u16> = (0..9).map(|_| random.below(len) as u16).collect();
        places.extend([0, len as u16 - 1]);
        places.sort_unstable();
        let mut out = Vec::new();
        parsed.take(block, &places, &mut bodies, &mut out).unwrap();
        for (place, value) in places.iter().zip(out.chunks(width)) {
            let at = (block * BLOCK + usize::from(*place)) * width;
            assert_eq!(value, &expected[at..at + width], "{}", parsed.describe());
        }
    }
}

#[test]
fn integers_of_every_size_and_shape_round_trip() {
    let mut random = Random(3);
    for size in SIZES {
        let len = size as u64;
        assert_round_trips(&(0..len).collect::<Vec<_>>(), 8);
        assert_round_trips(
            &(0..len).map(|it| 1_000_000 - 7 * it).collect::<Vec<_>>(),
            8,
        );
        assert_round_trips(&vec![42; size], 8);
        assert_round_trips(&(0..len).map(|it| it / 300).collect::<Vec<_>>(), 8);
        assert_round_trips(&(0..size).map(|_| random.any()).collect::<Vec<_>>(), 8);
        assert_round_trips(
            &(0..size)
                .map(|_| 3600 * (random.any() % 50))
                .collect::<Vec<_>>(),
            8,
        );
        assert_round_trips(&(0..size).map(|_| random.edge()).collect::<Vec<_>>(), 8);
        // Rare large values, at and near the boundaries of blocks.
        let outlier = |it: u64| {
            if it.is_multiple_of(1023) {
                u64::MAX / 3
            } else {
                it % 5
            }
        };
        assert_round_trips(&(0..len).map(outlier).collect::<Vec<_>>(), 8);
        let ends = |it: u64| {
            if it.is_multiple_of(2) {
                i64::MIN
            } else {
                i64::MAX
            }
        };
        assert_round_trips(
            &(0..len)
                .map(|it| ends(it).cast_unsigned())
                .collect::<Vec<_>>(),
            8,
        );
    }
}

#[test]
fn integers_of_every_bit_width_round_trip() {
    let mut random = Random(5);
    for bits in 0..=64_u32 {
        for size in [1000, 1024, 2048 + 17] {
            let mask = if bits == 0 {
                0
            } else {
                u64::MAX >> (64 - bits)
            };
            assert_round_trips(
                &(0..size).map(|_| random.any() & mask).collect::<Vec<_>>(),
                8,
            );
        }
    }
}

#[test]
fn integers_of_narrow_and_wide_types_round_trip() {
    let mut random = Random(9);
    for size in SIZES {
        for width in [1_u8, 2, 4, 16] {
            let bits = u32::from(width.min(8)) * 8;
            let signed: Vec<u64> = (0..size)
                .map(|_| (random.any().cast_signed() >> (64 - bits)).cast_unsigned())
                .collect();
            assert_round_trips(&signed, width);
            let small: Vec<u64> = signed.iter().map(|it| it % 7).collect();
            assert_round_trips(&small, width);
        }
    }
}

#[test]
fn integers_of_128_bits_round_trip() {
    let mut random = Random(11);
    for size in SIZES {
        let values: Vec<i128> = (0..size)
            .map(|_| (i128::from(random.any().cast_signed()) << 64) | i128::from(random.any()))
            .chain([i128::MIN, i128::MAX, -1, 0])
            .collect();
        let expected: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        let kind = Kind::Numbers { width: 16 };
        for node in [encode::wide(&values), encode::plain_bytes(&expected, 16)] {
            let page = write_page(&node, Mode::Fast, 0).unwrap();
            assert!(decoded(&page, kind, values.len()) == expected);
            assert_takes(&page, kind, &expected, 16);
        }
    }
}

#[test]
fn booleans_round_trip_in_every_form() {
    let mut random = Random(13);
    let mut forms = [0; 3];
    for size in SIZES {
        for one_in in [1, 2, 100, 1000, usize::MAX] {
            for run in [1, 50, 3000] {
                for is_inverted in [false, true] {
                    let mut bits = Vec::new();
                    while bits.len() < size {
                        let bit = random.one_in(one_in) != is_inverted;
                        bits.resize(bits.len() + run, bit);
                    }
                    let mut bitmap = vec![0; size.div_ceil(8)];
                    for place in (0..size).filter(|&it| bits[it]) {
                        bitmap[place / 8] |= 1_u8 << (place % 8);
                    }
                    let node = encode::bits(&bitmap, size).unwrap();
                    forms[usize::from(node.parameter)] += 1;
                    let page = write_page(&node, Mode::Fast, 0).unwrap();
                    assert_eq!(decoded(&page, Kind::Bits, size), bitmap);
                }
            }
        }
    }
    assert!(forms.iter().all(|&form| form > 0), "{forms:?}");
}

#[test]
fn an_int8_column_with_all_256_values_round_trips() {
    // A dictionary of all bit patterns of a byte: its packed entries take as many bytes as plain ones.
    let values: Vec<u64> = (0..600)
        .map(|it| i64::from((it % 256) as u8 as i8).cast_unsigned())
        .collect();
    assert_round_trips(&values, 1);
    let zero_extended: Vec<u64> = values.iter().map(|it| it & 0xff).collect();
    assert_round_trips(&zero_extended, 1);
}

#[test]
fn an_arithmetic_sequence_needs_no_bytes_in_its_blocks() {
    let values: Vec<u64> = (0..65_536).map(|it| 5 + 3 * it).collect();
    let node = encode::delta(&values, 8).unwrap();
    assert_eq!((node.byte_len(), node.body.len()), (48, 0));
}

#[test]
fn a_common_divisor_and_a_base_per_block_make_the_body_smaller() {
    // Slowly rising multiples of 3600: the values of a block are within about ten multiples, so four bits are enough for each.
    let values: Vec<u64> = (0..65_536).map(|it| 3600 * (it / 128 + it % 3)).collect();
    let node = encode::frame(&values, 8);
    assert!(node.body.len() <= 64 * 128 * 4, "{}", node.body.len());
}
