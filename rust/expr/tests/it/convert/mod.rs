//! Conversions keep every value or are refused, against an independent model.

mod arrays;
mod document;
mod edges;
mod model;
mod random;

use arrow_array::Array;
use arrow_schema::{DataType, Field};
use pilum_expr::{Conversion, Mode, Rule, convert, rule};
use pilum_testing::Random;

use arrays::{build, read};
use model::{allowed, field_allowed, related, same};
use random::{data_type, leaf_types, relative, value};

/// How many random cases; `PILUM_CASES` asks for more.
fn cases(usual: u64) -> u64 {
    let asked = std::env::var("PILUM_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

/// One random array from one type to another: each row as the model says.
fn one_case(seed: u64, from: &DataType, to: &DataType, random: &mut Random) {
    let from = Field::new("c", from.clone(), true);
    let to = Field::new("c", to.clone(), !random.one_in(4));
    let values: Vec<_> = (0..=random.below(4))
        .map(|_| {
            let nullable = !random.one_in(3);
            value(random, from.data_type(), nullable)
        })
        .collect();
    let array = build(from.data_type(), &values);
    let start = random.below(values.len());
    let (array, values) = (array.slice(start, values.len() - start), &values[start..]);
    let case = format!("seed {seed}: {values:?} of {} to {to:?}", from.data_type());
    let outcome = convert(&array, &from, &to, Mode::Exact);
    let is_related = related(from.data_type(), to.data_type());
    let refused = values
        .iter()
        .position(|value| is_related && !field_allowed(value, &from, &to));
    let says = rule(from.data_type(), to.data_type());
    match outcome {
        Ok(converted) => {
            assert!(is_related, "{case}: unrelated types were converted");
            assert_eq!(refused, None, "{case}: converted to {converted:?}");
            assert_eq!(converted.data_type(), to.data_type(), "{case}");
            assert_eq!(converted.len(), values.len(), "{case}");
            for (row, before) in values.iter().enumerate() {
                let after = read(&converted, row);
                assert!(
                    same(before, from.data_type(), &after, to.data_type()),
                    "{case}: row {row} became {after:?}"
                );
            }
            converted
                .to_data()
                .validate_full()
                .unwrap_or_else(|e| panic!("{case}: {e}"));
            assert_ne!(says, Rule::Never, "{case}");
        }
        Err(error) => {
            assert!(
                refused.is_some() || !is_related,
                "{case}: refused without a reason: {error}"
            );
            if is_related {
                assert_eq!(error.row, refused, "{case}: {error}");
            } else {
                assert_eq!(error.row, None, "{case}: {error}");
            }
            let nulls_only = values
                .iter()
                .all(|v| *v != model::Value::Null || to.is_nullable());
            assert!(
                says != Rule::Exact || !nulls_only,
                "{case}: an exact rule refused: {error}"
            );
        }
    }
}

#[test]
fn every_pair_of_types_keeps_values_or_refuses_them() {
    let leaves = leaf_types();
    let pairs = u64::try_from(leaves.len() * leaves.len()).unwrap();
    let rounds = cases(25_000).div_ceil(pairs);
    for round in 0..rounds {
        for (i, from) in leaves.iter().enumerate() {
            for (j, to) in leaves.iter().enumerate() {
                let seed = round << 32 | u64::try_from(i << 16 | j).unwrap();
                one_case(seed, from, to, &mut Random(seed));
            }
        }
    }
}

#[test]
fn numbers_and_times_meet_their_relatives_often() {
    let leaves = leaf_types();
    for seed in 0..cases(60_000) {
        let mut random = Random(seed);
        let from = random.pick(&leaves).clone();
        let others: Vec<&DataType> = leaves.iter().filter(|to| related(&from, to)).collect();
        let to = (*random.pick(&others)).clone();
        one_case(seed, &from, &to, &mut random);
    }
}

#[test]
fn nested_types_keep_values_or_refuse_them() {
    let leaves = leaf_types();
    for seed in 0..cases(30_000) {
        let mut random = Random(seed);
        let from = data_type(&mut random, &leaves, 2);
        let few: Vec<DataType> = leaves
            .iter()
            .filter(|_| random.one_in(6))
            .cloned()
            .collect();
        let few = if few.is_empty() { leaves.clone() } else { few };
        let to = relative(&mut random, &from, &few);
        one_case(seed, &from, &to, &mut random);
    }
}

#[test]
fn a_planned_conversion_agrees_with_the_rule_on_types_alone() {
    let leaves = leaf_types();
    for from in &leaves {
        for to in &leaves {
            let planned = Conversion::new(
                &Field::new("c", from.clone(), true),
                &Field::new("c", to.clone(), true),
                Default::default(),
            );
            assert_eq!(
                planned.is_err(),
                rule(from, to) == Rule::Never,
                "{from} to {to}"
            );
            assert_eq!(planned.is_ok(), related(from, to), "{from} to {to}");
            let nothing = allowed(&model::Value::Null, from, to);
            assert!(nothing);
        }
    }
}
