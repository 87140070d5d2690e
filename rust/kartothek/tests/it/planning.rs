//! What planning costs: requests to the store do not grow with the partitions.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use pilum_expr::{col, lit};
use pilum_kartothek::{Dataset, OpenOptions};
use pilum_parquet::{FileWriter, WriteOptions};
use pilum_store::{Counters, StorageOptions, Store};
use tokio::runtime::Runtime;

async fn write(store: &Store, key: &str, batch: &RecordBatch, with_rows: bool) {
    let options = WriteOptions::default();
    let mut writer = FileWriter::create(store, key, batch.schema_ref(), &options)
        .await
        .unwrap();
    if with_rows {
        writer.write(batch).await.unwrap();
    }
    writer.finish().await.unwrap();
}

/// A dataset of `count` partitions by `key`, without their files: partition `n` has the value `n` of `item`, and `n % 7` of `kind`.
async fn made(count: i64) -> Store {
    let uri = format!("memory://kartothek-planning-{count}");
    let store = Store::open(&uri, &StorageOptions::new()).unwrap();
    let labels: Vec<String> = (0..count).map(|it| format!("key={it}/L")).collect();
    let mut partitions = String::new();
    for label in &labels {
        write!(
            partitions,
            r#","{label}":{{"files":{{"table":"d/table/{label}.parquet"}}}}"#
        )
        .unwrap();
    }
    let partitions = partitions.trim_start_matches(',');
    let document = format!(
        r#"{{"dataset_metadata_version":4,"dataset_uuid":"d","metadata":{{}},"partition_keys":["key"],
        "indices":{{"item":"d/indices/item/1.by-dataset-index.parquet","kind":"d/indices/kind/1.by-dataset-index.parquet"}},
        "partitions":{{{partitions}}}}}"#
    );
    let key = "d.by-dataset-metadata.json";
    store.put(key, document.into()).await.unwrap();
    let columns = ["key", "item", "kind", "other"];
    let empty: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    let rows = RecordBatch::try_from_iter(columns.map(|it| (it, Arc::clone(&empty)))).unwrap();
    write(&store, "d/table/_common_metadata", &rows, false).await;
    for (column, values) in [("item", count), ("kind", 7)] {
        let mut lists = ListBuilder::new(StringBuilder::new());
        for value in 0..values {
            let of_value = labels
                .iter()
                .zip(0..)
                .filter(|(_, number)| number % values == value);
            of_value.for_each(|(label, _)| lists.values().append_value(label));
            lists.append(true);
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        let fields = vec![
            Field::new(column, DataType::Int64, true),
            Field::new("partition", lists.data_type().clone(), true),
        ];
        let values: ArrayRef = Arc::new((0..values).collect::<Int64Array>());
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![values, lists]);
        let key = format!("d/indices/{column}/1.by-dataset-index.parquet");
        write(&store, &key, &batch.unwrap(), true).await;
    }
    store
}

fn requests(counters: Counters) -> u64 {
    counters.reads + counters.lists + counters.stats
}

#[test]
fn planning_costs_as_many_requests_for_many_partitions_as_for_few() {
    let runtime = Runtime::new().unwrap();
    let mut costs = Vec::new();
    for count in [14_i64, 5_000] {
        runtime.block_on(async {
            let store = made(count).await;
            let before = store.counters();
            let dataset = Dataset::open(&store, "d", OpenOptions::default())
                .await
                .unwrap();
            let handle = runtime.handle();
            let mut found = Vec::new();
            let int = |value: i64| lit(value);
            for filter in [
                col("key").eq(int(3)),
                col("item").eq(int(5)),
                col("item").gt_eq(int(2)).and(col("item").lt(int(4))),
                col("kind").eq(int(1)).and(col("item").lt(int(10))),
                col("item")
                    .eq(int(1))
                    .or(col("kind").eq(int(2)).and(col("key").lt(int(12)))),
                col("item").gt(int(3)).not().and(col("other").eq(int(1))),
                col("other").eq(int(1)).or(col("item").eq(int(1))),
            ] {
                let places = dataset.dispatch("table", &filter, handle).await.unwrap();
                let mut keys: Vec<usize> = places
                    .iter()
                    .map(|it| dataset.labels()[*it].trim_matches(|it: char| !it.is_ascii_digit()))
                    .map(|it| it.parse().unwrap())
                    .collect();
                keys.sort_unstable();
                keys.truncate(20);
                found.push(keys);
            }
            let all: Vec<usize> = (0..usize::try_from(count).unwrap().min(20)).collect();
            assert_eq!(
                found,
                [
                    vec![3],
                    vec![5],
                    vec![2, 3],
                    vec![1, 8],
                    vec![1, 2, 9],
                    vec![0, 1, 2, 3],
                    all
                ]
            );
            costs.push(requests(store.counters().since(&before)));
        });
    }
    let &[few, many] = costs.as_slice() else {
        panic!("two datasets")
    };
    assert_eq!(few, many);
    assert!(
        many <= 8,
        "{many} requests for a document, a schema and two indices"
    );
}
