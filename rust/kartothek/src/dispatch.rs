//! Which partitions a predicate needs: decided from partition keys and secondary indices, without opening a data file.
//!
//! For each partition this module computes the set of answers (true, false, null) that its rows may give. A part of the predicate
//! that uses partition keys alone is evaluated on their values; a part that uses one indexed column is evaluated on the values of the
//! index, and on null and NaN, which no index has. `AND`, `OR` and `NOT` combine the sets. Other parts may give every answer. So a
//! partition is left out only if no row of it can pass, whatever nulls it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_cast::cast;
use arrow_schema::{Field, Schema, SchemaRef};
use futures::future::try_join_all;
use futures::stream::{StreamExt, TryStreamExt};
use pilum_expr::{BoundExpr, Expr, Junction, bind, evaluate};
use pilum_parquet::{Projection, ScanOptions};
use tokio::runtime::Handle;

use crate::error::Result;
use crate::index::Index;
use crate::open::Dataset;
use crate::partition_keys::KeyColumns;

/// Partitions that are looked into at once.
const LOOKED_INTO_AT_ONCE: usize = 16;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const NULL: u8 = 4;
const ANY: u8 = TRUE | FALSE | NULL;

impl Dataset {
    /// The places, among the labels, of the partitions that may have a row of `table` that passes. It reads the index files of
    /// the columns that the predicate names, each once, and nothing else.
    ///
    /// # Errors
    /// [`Error::Expr`](crate::Error::Expr) for a predicate that does not fit the columns; the errors of [`Dataset::index`] and
    /// [`Dataset::keys`].
    pub async fn dispatch(
        &self,
        table: &str,
        filter: &Expr,
        runtime: &Handle,
    ) -> Result<Vec<usize>> {
        let planner = self.planner(table, filter, runtime).await?;
        Ok(planner.places(filter, true))
    }

    /// As [`dispatch`](Self::dispatch), and looks for a row that passes in partitions that only a null could bring in, since no
    /// index tells where nulls are. It opens a data file for each of these.
    ///
    /// # Errors
    /// As [`dispatch`](Self::dispatch), and as reading.
    pub async fn dispatch_exactly(
        self: &Arc<Self>,
        table: &str,
        filter: &Expr,
        runtime: &Handle,
    ) -> Result<Vec<usize>> {
        let planner = self.planner(table, filter, runtime).await?;
        let by_values: BTreeSet<usize> = planner.places(filter, false).into_iter().collect();
        let candidates = planner.places(filter, true);
        let looked = futures::stream::iter(candidates).map(|place| {
            let is_certain = by_values.contains(&place);
            async move {
                let keep = is_certain || self.has_row(table, filter, place, runtime).await?;
                Ok::<_, crate::Error>(keep.then_some(place))
            }
        });
        let kept: Vec<Option<usize>> = looked.buffered(LOOKED_INTO_AT_ONCE).try_collect().await?;
        Ok(kept.into_iter().flatten().collect())
    }

    async fn has_row(
        self: &Arc<Self>,
        table: &str,
        filter: &Expr,
        place: usize,
        runtime: &Handle,
    ) -> Result<bool> {
        let mut options = ScanOptions::default();
        options.columns = Projection::Names(Vec::new());
        options.filter = Some(filter.clone());
        options.limit = Some(1);
        let part = self.open_partitions(table, &[place]).await?;
        let found = part.scan(options)?.batches(runtime).next().await;
        Ok(found.transpose()?.is_some_and(|batch| batch.num_rows() > 0))
    }

    async fn planner(&self, table: &str, filter: &Expr, runtime: &Handle) -> Result<Planner<'_>> {
        let schema = self.schema(table)?;
        let roots = roots(&bind(filter, schema)?);
        let is_key = |root: &String| self.partition_keys().contains(root);
        // The paths of all partitions are parsed only for a predicate about their keys.
        let keys = match roots.iter().any(is_key) {
            true => Some(self.keys()?),
            false => None,
        };
        let indexed = roots
            .into_iter()
            .filter(|root| !is_key(root) && self.indices.contains_key(root));
        let read = indexed.map(|column| async move {
            let index = self.index(&column, runtime).await?;
            Ok::<_, crate::Error>((column, index))
        });
        let mut indices: BTreeMap<String, Arc<Index>> =
            try_join_all(read).await?.into_iter().collect();
        // The column may be of no type in this table, or of a nested one: then the index says nothing.
        indices.retain(|column, index| {
            let field = schema.fields().find(column);
            field.is_some_and(|(_, it)| it.data_type() == index.values().data_type())
        });
        Ok(Planner {
            schema,
            keys,
            indices,
            num_partitions: self.labels().len(),
        })
    }
}

fn roots(bound: &BoundExpr) -> BTreeSet<String> {
    let columns = bound.columns().iter();
    columns.map(|it| it.root().to_owned()).collect()
}

/// What decides a part of a predicate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum DecidedBy {
    Keys,
    Index(String),
    Nothing,
}

struct Planner<'a> {
    schema: &'a SchemaRef,
    /// None if the predicate is not about partition keys.
    keys: Option<Arc<KeyColumns>>,
    indices: BTreeMap<String, Arc<Index>>,
    num_partitions: usize,
}

impl Planner<'_> {
    /// The partitions that may have a row that passes; without `with_nulls`, those that have one among the values of the indices.
    fn places(&self, filter: &Expr, with_nulls: bool) -> Vec<usize> {
        let answers = self.answers(filter, with_nulls);
        let passing = answers
            .iter()
            .enumerate()
            .filter(|(_, it)| **it & TRUE != 0);
        passing.map(|(place, _)| place).collect()
    }

    /// The answers that rows of each partition may give.
    fn answers(&self, filter: &Expr, with_nulls: bool) -> Vec<u8> {
        let decided = match self.decided_by(filter) {
            DecidedBy::Keys => self.by_keys(filter),
            DecidedBy::Index(column) => self.by_index(filter, &column, with_nulls),
            DecidedBy::Nothing => None,
        };
        if let Some(answers) = decided {
            return answers;
        }
        match filter.junction() {
            Junction::Not(term) => self
                .answers(term, with_nulls)
                .into_iter()
                .map(not)
                .collect(),
            Junction::And(terms) => {
                let parts = self.parts(terms, Expr::all);
                self.joined(&parts, with_nulls, and)
            }
            Junction::Or(terms) => {
                let parts = self.parts(terms, Expr::any);
                self.joined(&parts, with_nulls, |a, b| not(and(not(a), not(b))))
            }
            Junction::None => vec![ANY; self.num_partitions],
        }
    }

    fn joined(&self, parts: &[Expr], with_nulls: bool, join: impl Fn(u8, u8) -> u8) -> Vec<u8> {
        let mut parts = parts.iter().map(|part| self.answers(part, with_nulls));
        let Some(mut joined) = parts.next() else {
            return vec![ANY; self.num_partitions];
        };
        for answers in parts {
            for (all, one) in joined.iter_mut().zip(answers) {
                *all = join(*all, one);
            }
        }
        joined
    }

    /// The terms of a chain, those that the same values decide as one: both ends of a range have to hold for one value.
    fn parts(&self, terms: &[Expr], chain: fn(Vec<Expr>) -> Option<Expr>) -> Vec<Expr> {
        let mut groups: BTreeMap<DecidedBy, Vec<Expr>> = BTreeMap::new();
        for term in terms {
            groups
                .entry(self.decided_by(term))
                .or_default()
                .push(term.clone());
        }
        let mut parts = groups.remove(&DecidedBy::Nothing).unwrap_or_default();
        parts.extend(groups.into_values().filter_map(chain));
        parts
    }

    fn decided_by(&self, filter: &Expr) -> DecidedBy {
        let Ok(bound) = bind(filter, self.schema) else {
            return DecidedBy::Nothing;
        };
        let roots = roots(&bound);
        let keys = self.keys.as_ref();
        let is_key = |root: &String| keys.is_some_and(|it| it.rows.column_by_name(root).is_some());
        if roots.iter().all(is_key) {
            return DecidedBy::Keys;
        }
        match roots.first() {
            Some(root) if roots.len() == 1 && self.indices.contains_key(root) => {
                DecidedBy::Index(root.clone())
            }
            _ => DecidedBy::Nothing,
        }
    }

    /// `None` if the evaluation fails: then rows have to decide, and tell the error.
    fn by_keys(&self, filter: &Expr) -> Option<Vec<u8>> {
        let bound = bind(filter, self.schema).ok()?;
        let answers = match &self.keys {
            Some(keys) => answers_of(&bound, &keys.rows)?,
            None => {
                let rows = RecordBatchOptions::new().with_row_count(Some(self.num_partitions));
                let schema = Arc::new(Schema::empty());
                let batch = RecordBatch::try_new_with_options(schema, Vec::new(), &rows).ok()?;
                answers_of(&bound, &batch)?
            }
        };
        (answers.len() == self.num_partitions).then_some(answers)
    }

    fn by_index(&self, filter: &Expr, column: &str, with_nulls: bool) -> Option<Vec<u8>> {
        let bound = bind(filter, self.schema).ok()?;
        let index = self.indices.get(column)?;
        let of = |values: ArrayRef| {
            let rows = values.len();
            let field = Field::new(column, values.data_type().clone(), true);
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let schema = Arc::new(Schema::new(vec![field]));
            let batch = RecordBatch::try_new_with_options(schema, vec![values], &options).ok()?;
            answers_of(&bound, &batch)
        };
        let mut of_nulls = 0;
        if with_nulls {
            let data_type = index.values().data_type();
            of_nulls |= of(new_null_array(data_type, 1))?.first()?;
            if data_type.is_floating() {
                let nan: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN]));
                of_nulls |= of(cast(&nan, data_type).ok()?)?.first()?;
            }
        }
        let mut answers = vec![of_nulls; self.num_partitions];
        for (value, answer) in of(Arc::clone(index.values()))?.into_iter().enumerate() {
            for place in index.partitions(value) {
                if let Some(answers) = answers.get_mut(*place as usize) {
                    *answers |= answer;
                }
            }
        }
        Some(answers)
    }
}

/// The answer of each row.
fn answers_of(bound: &BoundExpr, batch: &RecordBatch) -> Option<Vec<u8>> {
    let answers = evaluate(bound, batch).ok()?;
    let Some(answers) = answers.as_boolean_opt() else {
        // The type null: no answer but null.
        return (answers.logical_null_count() == answers.len()).then(|| vec![NULL; answers.len()]);
    };
    let answer = |it: Option<bool>| match it {
        Some(true) => TRUE,
        Some(false) => FALSE,
        None => NULL,
    };
    Some(answers.iter().map(answer).collect())
}

fn not(answers: u8) -> u8 {
    let swapped = |from: u8, to: u8| if answers & from != 0 { to } else { 0 };
    swapped(TRUE, FALSE) | swapped(FALSE, TRUE) | answers & NULL
}

/// The answers of `a AND b`, whatever rows give which: false if one is, null if one is and none is false.
fn and(a: u8, b: u8) -> u8 {
    let has = |answers: u8, one: u8| answers & one != 0;
    let mut both = a & b & TRUE;
    if has(a | b, FALSE) {
        both |= FALSE;
    }
    if has(a, NULL) && has(b, TRUE | NULL) || has(b, NULL) && has(a, TRUE | NULL) {
        both |= NULL;
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_combine_by_three_valued_logic() {
        assert_eq!(and(TRUE, TRUE), TRUE);
        assert_eq!(and(TRUE, NULL), NULL);
        assert_eq!(and(FALSE, NULL), FALSE);
        assert_eq!(and(TRUE | FALSE, TRUE | NULL), ANY);
        assert_eq!(not(TRUE | NULL), FALSE | NULL);
        // A partition without a value gives no answer, and takes none from the other side of an OR.
        assert_eq!(not(and(not(0), not(TRUE))) & TRUE, TRUE);
        assert_eq!(and(0, ANY) & TRUE, 0);
    }
}
