//! Floats in every encoding that can represent them. Tests compare bit patterns, so they cover -0.0 and the payloads of NaN.

use pilum_testing::Random;
use proptest::prelude::*;

use super::*;

const FLOAT_ENCODINGS: [Encoding; 3] = [Encoding::BinaryScale, Encoding::Alp, Encoding::AlpRd];

const SIZES: [usize; 9] = [0, 1, 31, 32, 33, 1023, 1024, 1025, 2047];

fn bytes_of(words: &[u64], width: u8) -> Vec<u8> {
    let low = words.iter().map(|it| it.to_le_bytes());
    low.flat_map(|it| it[..usize::from(width)].to_vec())
        .collect()
}

/// Checks that each encoding that can represent these floats gives back their bits, as a page and by value. Returns how many
/// encoded nodes were checked.
fn assert_round_trips(words: &[u64], width: u8) -> usize {
    let mut nodes: Vec<_> = encode::floats(words, width).into_iter().collect();
    for encoding in FLOAT_ENCODINGS {
        nodes.extend(encode::floats_as(words, width, encoding));
    }
    let kind = Kind::Numbers { width };
    let expected = bytes_of(words, width);
    for node in &nodes {
        let page = write_page(node, Mode::Fast, 0).unwrap();
        assert_eq!(page.len(), HEADER_BYTES + node.byte_len());
        let name = format!(
            "{} values of {width} bytes: {:?}",
            words.len(),
            node.encoding
        );
        assert!(decoded(&page, kind, words.len()) == expected, "{name}");
        numbers::assert_takes(&page, kind, &expected, usize::from(width));
    }
    nodes.len()
}

fn doubles(values: &[f64]) -> Vec<u64> {
    values.iter().map(|it| it.to_bits()).collect()
}

fn singles(values: &[f32]) -> Vec<u64> {
    values.iter().map(|it| u64::from(it.to_bits())).collect()
}

/// A random float with approximately normal distribution: the sum of twelve uniform ones.
pub(super) fn normal(random: &mut Random) -> f64 {
    let sum: f64 = (0..12)
        .map(|_| (random.any() >> 11) as f64 / (1_u64 << 53) as f64)
        .sum();
    sum - 6.0
}

/// Floats at the limits of the type, and others that a scaled integer or a decimal cannot represent.
const SPECIAL_VALUES: [f64; 14] = [
    -0.0,
    0.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
    -5e-324,
    1e-310,
    9_007_199_254_740_993.0,
    -9_223_372_036_854_775_808.0,
    0.1,
];

#[test]
fn floats_of_every_size_and_shape_round_trip() {
    let mut random = Random(31);
    for size in SIZES {
        let mut make = |one: &mut dyn FnMut(&mut Random) -> f64| -> Vec<f64> {
            (0..size).map(|_| one(&mut random)).collect()
        };
        let shapes = [
            make(&mut |random| (random.any() >> 11) as f64 / (1_u64 << 53) as f64),
            make(&mut |random| (random.any() % 2_000_000) as f64 / 100.0 - 5000.0),
            make(&mut normal),
            make(&mut |random| (random.any() % 1000) as f64),
            make(&mut |random| -((random.any() >> 40) as f64) * 2.0_f64.powi(900)),
            make(&mut |random| (random.any() >> 40) as f64 * 2.0_f64.powi(-1000)),
            make(&mut |_| 0.0),
            make(&mut |_| -0.0),
            make(&mut |_| f64::NAN),
        ];
        for values in shapes {
            assert_round_trips(&doubles(&values), 8);
            let narrow: Vec<f32> = values.iter().map(|it| *it as f32).collect();
            assert_round_trips(&singles(&narrow), 4);
        }
    }
}

#[test]
fn special_values_among_ordinary_ones_keep_their_bits() {
    let mut random = Random(32);
    let payloads = [
        0x7ff0_0000_0000_0001,
        0xfff8_dead_beef_0001,
        u64::MAX,
        0x7ff4_0000_0000_0000,
    ];
    let narrow_payloads = [0x7f80_0001_u64, 0xffc0_1234, 0xffff_ffff, 0x7fa0_0000];
    for size in [100, 1024, 1025, 3000] {
        for distance in [11, 12, 100, 1000] {
            let mut num_checked = [0; 2];
            for decimals in [false, true] {
                let (mut wide, mut narrow) = (Vec::new(), Vec::new());
                for _ in 0..size {
                    let value = match decimals {
                        true => (random.any() % 100_000) as f64 / 100.0,
                        false => (random.any() >> 40) as f64 / (1 << 24) as f64,
                    };
                    wide.push(value.to_bits());
                    narrow.push(u64::from((value as f32).to_bits()));
                }
                for place in (3..size).step_by(distance + 3) {
                    let special = *random.pick(&SPECIAL_VALUES);
                    wide[place] = special.to_bits();
                    narrow[place] = u64::from((special as f32).to_bits());
                    if random.one_in(3) {
                        wide[place] = *random.pick(&payloads);
                        narrow[place] = *random.pick(&narrow_payloads);
                    }
                }
                num_checked[0] += assert_round_trips(&wide, 8);
                num_checked[1] += assert_round_trips(&narrow, 4);
            }
            assert!(
                num_checked[0] > 0 && num_checked[1] > 0,
                "no encoding can represent {size} values, special ones {distance} + 3 apart"
            );
        }
    }
}

#[test]
fn floats_of_every_binary_exponent_round_trip() {
    let mut random = Random(33);
    for exponent in (-1074..=970).step_by(31) {
        let scale =
            |value: f64| value * 2.0_f64.powi(exponent / 2) * 2.0_f64.powi(exponent - exponent / 2);
        let values: Vec<f64> = (0..1100)
            .map(|_| scale((random.any() >> 44) as f64))
            .collect();
        assert_round_trips(&doubles(&values), 8);
    }
    for exponent in -149..=100 {
        let scale =
            |value: f32| value * 2.0_f32.powi(exponent / 2) * 2.0_f32.powi(exponent - exponent / 2);
        let values: Vec<f32> = (0..60)
            .map(|_| scale((random.any() >> 50) as f32))
            .collect();
        assert_round_trips(&singles(&values), 4);
    }
}

#[test]
fn the_encoder_chooses_by_the_shape_of_the_floats() {
    let mut random = Random(34);
    let mut chosen = |width: u8, one: &mut dyn FnMut(&mut Random) -> f64| {
        let values: Vec<f64> = (0..20_000).map(|_| one(&mut random)).collect();
        let words = match width {
            8 => doubles(&values),
            _ => singles(&values.iter().map(|it| *it as f32).collect::<Vec<_>>()),
        };
        let node = encode::floats(&words, width);
        let bits = node
            .as_ref()
            .map_or(0, |it| it.byte_len() * 8 / words.len());
        (node.map(|it| it.encoding), bits)
    };
    let mut uniform = |random: &mut Random| (random.any() >> 11) as f64 / (1_u64 << 53) as f64;
    assert_eq!(chosen(8, &mut uniform), (Some(Encoding::BinaryScale), 53));
    let mut uniform = |random: &mut Random| (random.any() >> 40) as f64 / (1 << 24) as f64;
    assert_eq!(chosen(4, &mut uniform), (Some(Encoding::BinaryScale), 24));
    let mut cents = |random: &mut Random| (random.any() % 1_000_000) as f64 / 100.0;
    assert_eq!(chosen(8, &mut cents), (Some(Encoding::Alp), 20));
    let (encoding, bits) = chosen(4, &mut normal);
    assert!(
        encoding == Some(Encoding::AlpRd) && bits < 30,
        "{encoding:?} {bits}"
    );
    let mut any = |random: &mut Random| f64::from_bits(random.any());
    assert_eq!(chosen(8, &mut any), (None, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_floats_round_trip(words in prop::collection::vec(any::<u64>(), 0..300), values in prop::collection::vec(any::<f32>(), 0..300)) {
        assert_round_trips(&words, 8);
        let narrow: Vec<u64> = words.iter().map(|it| it & 0xffff_ffff).collect();
        assert_round_trips(&narrow, 4);
        assert_round_trips(&singles(&values), 4);
        let rounded: Vec<f64> = values.iter().map(|it| (f64::from(*it) * 100.0).round() / 100.0).collect();
        assert_round_trips(&doubles(&rounded), 8);
    }
}
