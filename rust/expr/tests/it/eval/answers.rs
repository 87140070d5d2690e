//! Conditions on random rows give what a reading row by row gives.

use arrow_array::{Array, cast::AsArray};
use pilum_expr::{bind, evaluate, filter_mask, parse_sql};
use proptest::prelude::*;

use crate::rows::{batch, condition, row, schema};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn answers_are_those_of_each_row(
        rows in prop::collection::vec(row(), 0..12),
        condition in condition(),
    ) {
        let expr = condition.expr();
        let bound = bind(&expr, &schema()).unwrap();
        let batch = batch(&rows);
        let found = evaluate(&bound, &batch).unwrap();
        prop_assert_eq!(found.len(), rows.len());
        let expected: Vec<Option<bool>> = rows.iter().map(|row| condition.read(row)).collect();
        let found: Vec<Option<bool>> = match found.as_boolean_opt() {
            Some(found) => found.iter().collect(),
            None => vec![None; found.len()],
        };
        prop_assert_eq!(&found, &expected, "{}", expr);
        let mask = filter_mask(&bound, &batch).unwrap();
        prop_assert_eq!(mask.null_count(), 0);
        let kept: Vec<bool> = expected.iter().map(|answer| *answer == Some(true)).collect();
        prop_assert_eq!(mask.values().iter().collect::<Vec<_>>(), kept);
        // The portable form means the same.
        prop_assert_eq!(parse_sql(&expr.to_string()).unwrap(), expr);
    }

    #[test]
    fn only_the_named_columns_are_needed(
        rows in prop::collection::vec(row(), 1..6),
        condition in condition(),
    ) {
        let bound = bind(&condition.expr(), &schema()).unwrap();
        let batch = batch(&rows);
        let whole = filter_mask(&bound, &batch).unwrap();
        let mut roots: Vec<usize> = bound
            .columns()
            .iter()
            .map(|path| batch.schema().index_of(path.root()).unwrap())
            .collect();
        roots.sort();
        roots.dedup();
        roots.reverse();
        let narrow = batch.project(&roots).unwrap();
        prop_assert_eq!(filter_mask(&bound, &narrow).unwrap(), whole);
    }
}
