//! Random columns in every encoding, and the encoding that the encoder chooses for them.

use proptest::prelude::*;

use super::numbers::assert_round_trips;
use super::*;

/// Integers such as those of real columns: a trend, noise of a few bits, a common divisor, runs, rare outliers.
fn shaped() -> impl Strategy<Value = Vec<u64>> {
    let shape = (
        any::<u64>(),
        any::<i32>(),
        0..=64_u32,
        1..=5000_u64,
        1..=200_usize,
    );
    (shape, 0..2100_usize, any::<u64>()).prop_map(|(shape, len, seed)| {
        let (base, trend, bits, divisor, run) = shape;
        let mut random = pilum_testing::Random(seed);
        let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
        let mut values = Vec::with_capacity(len);
        while values.len() < len {
            let at = values.len() as u64;
            let noise = if random.one_in(500) {
                random.any()
            } else {
                random.any() & mask
            };
            let value = noise.wrapping_mul(divisor).wrapping_add(base);
            let value = value.wrapping_add(at.wrapping_mul(i64::from(trend).cast_unsigned()));
            let count = if random.one_in(3) { run } else { 1 };
            values.extend(std::iter::repeat_n(value, count.min(len - values.len())));
        }
        values
    })
}

/// Truncates the values to integers of `width` bytes, sign-extended to 64 bits.
fn narrowed(values: &[u64], width: u8) -> Vec<u64> {
    let shift = 64 - 8 * u32::from(width.min(8));
    let narrow = values
        .iter()
        .map(|&it| ((it << shift).cast_signed() >> shift).cast_unsigned());
    narrow.collect()
}

fn plain_bytes(values: &[u64], width: u8) -> Vec<u8> {
    let wide = values
        .iter()
        .map(|it| i128::from(it.cast_signed()).to_le_bytes());
    wide.flat_map(|it| it[..usize::from(width)].to_vec())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn values_of_any_shape_round_trip_in_every_encoding(values in shaped(), width in 0..5_usize) {
        let width = [1, 2, 4, 8, 16][width];
        assert_round_trips(&narrowed(&values, width), width);
    }

    #[test]
    fn the_chosen_encoding_is_smaller_than_plain_and_deterministic(
        values in shaped(),
        width in 0..5_usize,
    ) {
        let width = [1, 2, 4, 8, 16][width];
        let values = narrowed(&values, width);
        let expected = plain_bytes(&values, width);
        let Some(node) = encode::integers(&values, width) else { return Ok(()) };
        prop_assert!(values.len() >= 256);
        prop_assert_eq!(&Some(node.clone()), &encode::integers(&values.clone(), width));
        let page = write_page(&node, Mode::Fast, 0).unwrap();
        prop_assert!(page.len() < expected.len());
        let read = decoded(&page, Kind::Numbers { width }, values.len());
        prop_assert!(read == expected);
        // The encoder estimates sizes, so another encoding may be smaller, by at most 15 percent and 64 bytes.
        let others = [Some(encode::frame(&values, width)), encode::delta(&values, width)];
        let others = others.into_iter().flatten().chain([encode::run(&values, width)]);
        for other in others {
            prop_assert!(other.byte_len() * 115 / 100 + 64 >= node.byte_len(), "{:?}", other.encoding);
        }
    }

    #[test]
    fn integers_of_128_bits_round_trip_in_the_chosen_encoding(values in prop::collection::vec(any::<i128>(), 250..1100), bits in 0..128_u32) {
        let values: Vec<i128> = values.iter().map(|it| it >> bits).collect();
        let expected: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        if let Some(node) = encode::wide_integers(&values) {
            let page = write_page(&node, Mode::Fast, 0).unwrap();
            prop_assert!(page.len() < expected.len());
            let read = decoded(&page, Kind::Numbers { width: 16 }, values.len());
            prop_assert!(read == expected);
        }
    }
}

#[test]
fn the_encoder_chooses_by_the_shape_of_a_column() {
    let mut random = pilum_testing::Random(1);
    let mut column = |value: &mut dyn FnMut(u64, &mut pilum_testing::Random) -> u64| {
        (0..65_536)
            .map(|at| value(at, &mut random))
            .collect::<Vec<_>>()
    };
    let columns = [
        (column(&mut |_, _| 7), Encoding::Constant),
        (column(&mut |at, _| 100 + at), Encoding::Delta),
        (column(&mut |_, random| random.any() % 1000), Encoding::For),
        (
            column(&mut |at, _| (at / 30).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24),
            Encoding::Run,
        ),
        (
            column(&mut |_, random| (random.any() % 12).pow(15)),
            Encoding::Dictionary,
        ),
    ];
    for (values, expected) in columns {
        let node = encode::integers(&values, 8).unwrap();
        assert_eq!(node.encoding, expected);
    }
    assert_eq!(encode::integers(&[0; 255], 8), None);
    assert_eq!(
        encode::integers(&column(&mut |_, random| random.any()), 8),
        None
    );
}
