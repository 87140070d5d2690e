//! Stored values that their own type does not allow: decimals beyond their precision, times beyond a day, date64 with a remainder.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_select::take::take;
use pilum_expr::check_values;
use roaring::RoaringBitmap;

/// Bad values of one page of a column that are told.
const MAX_TOLD: usize = 3;

/// The fragment of a data file: which of its rows are deleted, and how many live rows the table has before it.
#[derive(Clone, Copy, Default)]
pub(crate) struct FragmentRows<'a> {
    pub(crate) deleted: Option<&'a RoaringBitmap>,
    pub(crate) rows_before: u64,
}

impl FragmentRows<'_> {
    fn is_deleted(self, row: u64) -> bool {
        let deleted = self.deleted;
        deleted.is_some_and(|it| u32::try_from(row).is_ok_and(|row| it.contains(row)))
    }

    /// The number in the table of a live row of the fragment.
    fn row_of_table(self, row: u64) -> u64 {
        let end = u32::try_from(row).unwrap_or(u32::MAX);
        let deleted = self.deleted.map_or(0, |it| it.range_cardinality(..end));
        self.rows_before.saturating_add(row.saturating_sub(deleted))
    }

    /// The first bad values of a page of the column `name`, in words; the page begins with the row `first_row` of its file.
    /// Values of deleted rows do not matter.
    pub(crate) fn bad_values(self, name: &str, array: &ArrayRef, first_row: u64) -> Vec<String> {
        if check_values(array, name).is_ok() {
            return Vec::new();
        }
        let rows = first_row..first_row.saturating_add(array.len() as u64);
        let live: Vec<u64> = rows.filter(|row| !self.is_deleted(*row)).collect();
        let mut left = Arc::clone(array);
        if live.len() < array.len() {
            let offsets: UInt64Array = live.iter().map(|row| row - first_row).collect();
            match take(array, &offsets, None) {
                Ok(taken) => left = taken,
                Err(error) => return vec![format!("column `{name}`: {error}")],
            }
        }
        let mut told = Vec::new();
        let mut done = 0;
        while let Err(mut error) = check_values(&left, name) {
            // A value of a dictionary may be bad that no row has.
            let row = error.row;
            error.row = row
                .and_then(|row| live.get(done + row))
                .and_then(|row| usize::try_from(self.row_of_table(*row)).ok());
            told.push(error.to_string());
            let Some(row) = row.filter(|row| row + 1 < left.len()) else {
                break;
            };
            if told.len() == MAX_TOLD {
                told.push(format!(
                    "column `{name}`: more rows of this page may be bad"
                ));
                break;
            }
            left = left.slice(row + 1, left.len() - row - 1);
            done += row + 1;
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Time32SecondArray;

    use super::*;

    #[test]
    fn live_rows_are_named_by_their_number_in_the_table() {
        let array: ArrayRef = Arc::new(Time32SecondArray::from(vec![
            Some(90_000),
            Some(1),
            None,
            Some(86_400),
            Some(-1),
            Some(2),
        ]));
        let deleted: RoaringBitmap = [1, 10, 12].into_iter().collect();
        let rows = FragmentRows {
            deleted: Some(&deleted),
            rows_before: 100,
        };
        // Rows 10 to 15 of the file, of which 10 and 12 are deleted, as is row 1.
        let told = rows.bad_values("t", &array, 10);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("column `t`, row 110: "), "{told:?}");
        assert!(told[1].starts_with("column `t`, row 111: "), "{told:?}");
        let all = FragmentRows::default().bad_values("t", &array, 0);
        assert!(all[0].starts_with("column `t`, row 0: "), "{all:?}");
        assert!(all[2].starts_with("column `t`, row 4: "), "{all:?}");
    }

    #[test]
    fn very_many_bad_values_are_told_in_a_few_words() {
        let array: ArrayRef = Arc::new(Time32SecondArray::from(vec![-1; 100_000]));
        let told = FragmentRows::default().bad_values("t", &array, 0);
        assert_eq!(told.len(), MAX_TOLD + 1);
    }
}
