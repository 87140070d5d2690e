//! Pruning by statistics of pages, fragments and tables leaves out only what has no row for which the filter is true.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, StructArray,
};
use arrow_schema::{DataType, Field, Fields};
use futures::TryStreamExt;
use pilum_expr::{bind, filter_mask};
use pilum_format::ManifestFile;
use pilum_store::Counters;
use pilum_table::{
    Dataset, Projection, ScanMetrics, ScanOptions, Store, VersionRef, WriteMode, WriteOptions,
    parse_sql, write,
};
use proptest::prelude::*;

use crate::support::{
    append, batch, block_on, content, create, delete, local, memory, open, reader, rows, runtime,
    scale,
};

/// Rows that a filter keeps, by the numbers in `id`, and what the scan did.
fn kept(table: &Dataset, predicate: &str) -> Result<(Vec<i64>, ScanMetrics), String> {
    let mut options = ScanOptions::default();
    options.columns = Projection::Names(vec!["id".to_owned()]);
    options.filter = Some(parse_sql(predicate).unwrap());
    let scan = table
        .snapshot()
        .scan(options)
        .map_err(|it| it.to_string())?;
    let batches: Vec<RecordBatch> = runtime()
        .block_on(scan.batches(runtime().handle()).try_collect())
        .map_err(|error| error.to_string())?;
    let ids = batches.iter().flat_map(ids_of).collect();
    Ok((ids, scan.metrics()))
}

fn ids_of(batch: &RecordBatch) -> Vec<i64> {
    let ids = batch.column_by_name("id").unwrap();
    let ids = ids.as_any().downcast_ref::<Int64Array>().unwrap();
    ids.values().to_vec()
}

/// As `kept`, with the requests that it took.
fn cost(store: &Store, table: &Dataset, predicate: &str) -> (Vec<i64>, ScanMetrics, Counters) {
    let before = store.counters();
    let (ids, metrics) = kept(table, predicate).unwrap();
    (ids, metrics, store.counters().since(&before))
}

#[test]
fn statistics_of_a_fragment_are_read_once() {
    let store = memory();
    create(&store, &rows(0, 100), false);
    (1..5).for_each(|number| append(&store, &rows(number * 100, 100)));
    let table = open(&store);
    assert_eq!(table.fragments().len(), 5);

    let (found, metrics, first) = cost(&store, &table, "id = 250");
    assert_eq!((found, metrics.fragments_pruned), (vec![250], 4));
    assert!(first.reads > 0, "{first:?}");
    // One page of one fragment is read; the other fragments are not touched.
    let (found, metrics, again) = cost(&store, &table, "id = 251");
    assert_eq!((found, metrics.fragments_pruned), (vec![251], 4));
    assert!(again.reads <= 1, "{again:?}");
    assert_eq!((metrics.pages, metrics.pages_pruned), (5, 4));

    // The statistics of all fragments, which the table keeps, exclude these filters without a request.
    for nothing in [
        "id > 499",
        "id + 1 > 500",
        "-id > 0",
        "id IN (-1, 500, 700)",
        "CAST(id AS DOUBLE) < -0.5",
        "name LIKE 'nobody%'",
        "name < 'name '",
    ] {
        let (found, _, _) = cost(&store, &table, nothing);
        assert_eq!(found, Vec::<i64>::new(), "{nothing}");
        let (_, metrics, requests) = cost(&store, &table, nothing);
        assert_eq!(requests, Counters::default(), "{nothing}");
        assert_eq!(
            (metrics.fragments_pruned, metrics.tasks),
            (5, 0),
            "{nothing}"
        );
    }

    // The next version shares these statistics: only those of the new fragment are read.
    append(&store, &rows(500, 100));
    let next = block_on(table.checkout(&VersionRef::Latest)).unwrap();
    let (found, metrics, newest) = cost(&store, &next, "id > 598");
    assert_eq!((found, metrics.fragments_pruned), (vec![599], 5));
    assert!(
        newest.reads > 0 && newest.reads <= first.reads / 4,
        "{newest:?} after {first:?}"
    );
}

#[test]
fn statistics_of_one_fragment_do_not_prune_the_others() {
    let store = memory();
    create(&store, &rows(0, 10), false);
    append(&store, &rows(10, 10));
    let table = open(&store);
    let mut options = ScanOptions::default();
    options.filter = Some(parse_sql("id > 5").unwrap());
    options.fragments = Some(vec![1]);
    for _ in 0..2 {
        let scan = table.snapshot().scan(options.clone()).unwrap();
        let batches: Vec<RecordBatch> = runtime()
            .block_on(scan.batches(runtime().handle()).try_collect())
            .unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 10);
    }
    assert_eq!(kept(&table, "id = 7").unwrap().0, [7]);
    assert_eq!(kept(&table, "id = 7").unwrap().0, [7]);
}

/// Values of a row, each of which may be null.
#[derive(Clone, Debug)]
struct Row {
    i: Option<i32>,
    l: Option<i64>,
    f: Option<f64>,
    g: Option<f32>,
    /// A decimal in hundredths.
    m: Option<i64>,
    s: Option<String>,
    k: Option<bool>,
    /// A struct and its field.
    x: Option<Option<i64>>,
}

fn maybe<T: Clone + std::fmt::Debug + 'static>(
    values: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Option<T>> {
    prop::option::weighted(0.8, values).boxed()
}

fn floats() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => (-8..8_i32).prop_map(|quarters| f64::from(quarters) / 4.0),
        1 => prop::sample::select(vec![
            f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, f64::MAX, f64::MIN_POSITIVE, 9.1e18,
        ]),
    ]
}

/// Short texts, and texts that statistics truncate: in the middle of a character, or such that no greater text has 64 bytes.
fn texts() -> impl Strategy<Value = String> {
    let tails = vec!["", "a", "b", "%", "_", "\u{10ffff}", "é", "zz"];
    (
        prop::sample::select(vec!["", "a", "ab", "b", "\u{10ffff}", "é"]),
        prop::sample::select(vec![0_usize, 0, 0, 21, 31, 32, 63, 64]),
        prop::sample::select(tails),
    )
        .prop_map(|(unit, times, tail)| unit.repeat(times.max(1)) + tail)
}

fn row() -> impl Strategy<Value = Row> {
    let whole = prop_oneof![
        4 => -5..5_i64,
        1 => prop::sample::select(vec![i64::MIN, i64::MAX, i64::MIN + 1, 1 << 53, (1 << 53) + 1]),
    ];
    let narrow = prop_oneof![4 => -5..5_i32, 1 => prop::sample::select(vec![i32::MIN, i32::MAX])];
    (
        maybe(narrow),
        maybe(whole),
        maybe(floats()),
        maybe(floats()),
        maybe(-300..300_i64),
        maybe(texts()),
        maybe(any::<bool>()),
        maybe(maybe(-5..5_i64)),
    )
        .prop_map(|(i, l, f, g, m, s, k, x)| Row {
            i,
            l,
            f,
            #[expect(clippy::cast_possible_truncation, reason = "any float will do")]
            g: g.map(|g| g as f32),
            m,
            s,
            k,
            x,
        })
}

fn as_batch(rows: &[Row], first: i64) -> RecordBatch {
    let ids = Int64Array::from_iter_values(first..first + i64::try_from(rows.len()).unwrap());
    let y: Int64Array = rows.iter().map(|row| row.x.flatten()).collect();
    let inner = Fields::from(vec![Field::new("y", DataType::Int64, true)]);
    let valid: Vec<bool> = rows.iter().map(|row| row.x.is_some()).collect();
    let x = StructArray::new(inner.clone(), vec![Arc::new(y)], Some(valid.into()));
    let m: Decimal128Array = rows.iter().map(|row| row.m.map(i128::from)).collect();
    let column = |name, data_type, array: ArrayRef| (Field::new(name, data_type, true), array);
    let each = |array: ArrayRef, name| column(name, array.data_type().clone(), array);
    batch(vec![
        (Field::new("id", DataType::Int64, false), Arc::new(ids)),
        each(
            Arc::new(rows.iter().map(|row| row.i).collect::<Int32Array>()),
            "i",
        ),
        each(
            Arc::new(rows.iter().map(|row| row.l).collect::<Int64Array>()),
            "l",
        ),
        each(
            Arc::new(rows.iter().map(|row| row.f).collect::<Float64Array>()),
            "f",
        ),
        each(
            Arc::new(rows.iter().map(|row| row.g).collect::<Float32Array>()),
            "g",
        ),
        each(Arc::new(m.with_precision_and_scale(12, 2).unwrap()), "m"),
        each(
            Arc::new(
                rows.iter()
                    .map(|row| row.s.clone())
                    .collect::<StringArray>(),
            ),
            "s",
        ),
        each(
            Arc::new(rows.iter().map(|row| row.k).collect::<BooleanArray>()),
            "k",
        ),
        column("x", DataType::Struct(inner), Arc::new(x)),
    ])
}

fn numbers() -> impl Strategy<Value = String> {
    let column = prop::sample::select(vec!["i", "l", "f", "g", "m", "x.y"]);
    let steps = prop::sample::select(vec![
        "#",
        "#",
        "#",
        "-#",
        "# + 1",
        "3 - #",
        "# * 2",
        "# * -2.5",
        "# // 2",
        "# / -4",
        "CAST(# AS BIGINT)",
        "CAST(# AS DOUBLE)",
        "CAST(# AS FLOAT)",
        "CAST(CAST(# AS DOUBLE) AS INT)",
        "CAST(# AS INT) + 1",
        "# + 9223372036854775807",
        "1e308 * #",
    ]);
    (column, steps).prop_map(|(column, steps)| format!("({})", steps.replace('#', column)))
}

fn condition() -> impl Strategy<Value = String> {
    let value = || {
        prop::sample::select(vec![
            "0",
            "1",
            "-1",
            "5",
            "-6",
            "2.25",
            "-0.0e0",
            "1e0",
            "2147483647",
            "9223372036854775807",
            "-9223372036854775808",
            "9007199254740993",
            "1e300",
            "CAST('nan' AS DOUBLE)",
            "CAST('inf' AS DOUBLE)",
            "NULL",
        ])
    };
    let ops = || prop::sample::select(vec!["<", "<=", ">", ">=", "=", "<>"]);
    let text = || texts().prop_map(|text| text.replace(['%', '_'], "c"));
    let leaf = prop_oneof![
        4 => (numbers(), ops(), value()).prop_map(|(n, op, v)| format!("{n} {op} {v}")),
        2 => (numbers(), prop::collection::vec(value(), 1..4), any::<bool>()).prop_map(
            |(n, values, not)| format!("{n} {}IN ({})", if not { "NOT " } else { "" }, values.join(", "))
        ),
        1 => (numbers(), any::<bool>())
            .prop_map(|(n, not)| format!("{n} IS {}NULL", if not { "NOT " } else { "" })),
        1 => (ops(), text()).prop_map(|(op, text)| format!("s {op} '{text}'")),
        2 => (text(), prop::sample::select(vec!["", "%", "_%", "%a"]), any::<bool>()).prop_map(
            |(text, tail, not)| format!("s {}LIKE '{text}{tail}'", if not { "NOT " } else { "" })
        ),
        1 => prop::collection::vec(text(), 1..3).prop_map(|all| format!("s IN ('{}')", all.join("', '"))),
        1 => prop::sample::select(vec!["k", "NOT k", "k = TRUE", "s IS NULL"]).prop_map(str::to_owned),
    ];
    let pair = (
        leaf,
        prop::sample::select(vec!["AND", "OR", ""]),
        numbers(),
        any::<bool>(),
    );
    pair.prop_map(|(leaf, join, number, not)| {
        let leaf = if not { format!("NOT ({leaf})") } else { leaf };
        if join.is_empty() {
            leaf
        } else {
            format!("({leaf}) {join} {number} >= 1")
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(u32::try_from(80 * scale()).unwrap()))]

    #[test]
    fn pruning_never_changes_an_answer(
        fragments in prop::collection::vec(prop::collection::vec(row(), 1..7), 1..4),
        conditions in prop::collection::vec(condition(), 20),
        rows_per_page in 1..4_u64,
        deleted in prop::option::of(0..8_i64),
    ) {
        let store = memory();
        let mut first = 0;
        for rows in &fragments {
            let mut options = WriteOptions::default();
            options.max_rows_per_page = Some(rows_per_page);
            options.mode = if first == 0 { WriteMode::Create } else { WriteMode::Append };
            let rows = as_batch(rows, first);
            first += i64::try_from(rows.num_rows()).unwrap();
            block_on(write(&store, reader(&[rows]), &options)).unwrap();
        }
        if let Some(id) = deleted {
            delete(&store, &format!("id = {id}"));
        }
        let table = open(&store);
        let all = content(table.snapshot());
        for condition in &conditions {
            let Ok(bound) = bind(&parse_sql(condition).unwrap(), &all.schema()) else { continue };
            // Evaluated row by row: a row that fails, by an overflow, has no answer, and a scan that reads it may fail.
            let mut expected = Vec::new();
            for place in 0..all.num_rows() {
                let row = all.slice(place, 1);
                if filter_mask(&bound, &row).is_ok_and(|mask| mask.value(0)) {
                    expected.extend(ids_of(&row));
                }
            }
            let may_fail = filter_mask(&bound, &all).is_err();
            // First with the statistics of pages alone, then with those of fragments and of the table.
            for _ in 0..2 {
                match kept(&table, condition) {
                    Ok((ids, _)) => prop_assert_eq!(&ids, &expected, "{}", condition),
                    Err(error) => prop_assert!(may_fail, "{}: {}", condition, error),
                }
            }
        }
    }
}

#[test]
fn columns_that_a_fragment_lacks_are_null_there() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("table");
    let store = local(&root).with_durability(pilum_table::Durability::None);
    create(&store, &rows(0, 20), false);
    append(&store, &rows(20, 20));
    // Other writers add a column without values by a change of the schema alone.
    let table = open(&store);
    let mut manifest = table.snapshot().manifest().as_ref().clone();
    let mut late = manifest.fields[1].clone();
    (late.id, late.name) = (2, "late".to_owned());
    manifest.fields.push(late);
    manifest.version += 1;
    let name = table.snapshot().naming_scheme().name(manifest.version);
    let file = ManifestFile {
        manifest,
        transaction: None,
    };
    let place = root.join("_versions").join(name);
    std::fs::write(place, file.encode().unwrap()).unwrap();
    let table = open(&store);
    assert_eq!(table.snapshot().schema().fields.len(), 3);
    for _ in 0..2 {
        let (found, metrics, requests) = cost(&store, &table, "late = 'x'");
        assert_eq!((found, metrics.tasks), (vec![], 0));
        assert_eq!(requests, Counters::default());
        let (found, _, _) = cost(&store, &table, "late IS NULL");
        assert_eq!(found.len(), 40);
    }
}
