"""The examples of Kartothek's documentation, as functions of an eager module: run by Kartothek 5.3.0, and by pilum.

    PEER tests/support/kartothek_examples.py tests/fixtures/kartothek/examples.json

records the results of Kartothek 5.3.0 (CPython 3.8, kartothek==5.3.0, pandas==1.3.5, pyarrow==6.0.1).
"""

import datetime as dt
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

FIRST = pd.DataFrame(
    {
        "A": 1.0,
        "B": pd.Series(pd.date_range("20130102", periods=4)),
        "C": pd.Series([0.5, 1.5, 2.5, 3.5]),
        "D": np.array([3, 4, 5, 6], dtype="int32"),
        "E": ["test", "train", "test", "prod"],
        "F": "foo",
    }
)
SECOND = pd.DataFrame(
    {
        "A": 5.0,
        "B": pd.Series(pd.date_range("20110103", periods=3)),
        "C": pd.Series([9.5, 8.5, 7.5]),
        "D": np.array([7, 4, 9], dtype="int32"),
        "E": ["train", "prod", "prod"],
        "F": "bar",
    }
)
SALES = pd.DataFrame(
    {"country": ["DE", "DE", "FR", "UK"], "day": [dt.date(2020, 1, n) for n in (1, 2, 1, 1)], "sold": [1, 2, 3, 4]}
)


def told(frame, keys=None):
    """Return a frame as text: columns, kinds of types, and rows in an order of their own."""
    frame = frame.copy()
    kinds = {}
    for name in frame.columns:
        kind = str(frame[name].dtype)
        # Kartothek gives frames of single partitions the widths of their files, pilum those of the schema.
        kind = "int64" if kind.startswith("int") else kind
        kinds[name] = (
            "text" if kind in ("object", "str", "string") else kind.replace("[us]", "[ns]").replace("[ms]", "[ns]")
        )
    rows = sorted(
        [None if value is None or value != value else str(value) for value in row]
        for row in frame.astype(object).itertuples(index=False)
    )
    return {"columns": list(frame.columns), "kinds": kinds, "rows": rows}


def getting_started(eager, store):
    """Create a dataset, and read it in several ways."""
    made = eager.store_dataframes_as_dataset(store, "start", [FIRST, SECOND], metadata={"dataset": "example"})
    parts = eager.read_dataset_as_dataframes("start", store)
    return {
        "uuid": made.uuid,
        "tables": list(made.tables),
        "partitions": len(made.partitions),
        "metadata": made.metadata["dataset"],
        "table": told(eager.read_table("start", store, table="table")),
        "columns": told(eager.read_table("start", store, table="table", columns=["C", "A"])),
        "predicates": told(
            eager.read_table("start", store, table="table", predicates=[[("A", "==", 5.0), ("D", "<", 8)]])
        ),
        "or": told(
            eager.read_table("start", store, table="table", predicates=[[("E", "==", "prod")], [("C", ">", 8.0)]])
        ),
        "in": told(eager.read_table("start", store, table="table", predicates=[[("E", "in", ["test", "none"])]])),
        "dates": told(
            eager.read_table("start", store, table="table", predicates=[[("B", ">", dt.datetime(2013, 1, 3))]])
        ),
        "nothing": told(eager.read_table("start", store, table="table", predicates=[[("D", "==", 99)]])),
        "parts": sorted((told(part["table"]) for part in parts), key=str),
        "exists": raised(lambda: eager.store_dataframes_as_dataset(store, "start", [FIRST])),
        "unknown": raised(lambda: eager.read_table("nope", store)),
        "empty": raised(lambda: eager.read_table("start", store, predicates=[])),
    }


def partitioned(eager, store):
    """Divide by keys, append, replace and delete partitions, and collect the garbage."""
    eager.store_dataframes_as_dataset(store, "sales", [SALES], partition_on=["country"], secondary_indices=["day"])
    more = pd.DataFrame({"country": ["FR", "IT"], "day": [dt.date(2020, 2, 1)] * 2, "sold": [30, 40]})
    appended = eager.update_dataset_from_dataframes([more], store=store, dataset_uuid="sales")
    after_append = told(eager.read_table("sales", store, dates_as_object=True))
    replaced = eager.update_dataset_from_dataframes(
        [pd.DataFrame({"country": ["DE"], "day": [dt.date(2020, 3, 1)], "sold": [100]})],
        store=store,
        dataset_uuid="sales",
        delete_scope=[{"country": "DE"}],
    )
    after_replace = told(eager.read_table("sales", store, dates_as_object=True))
    deleted = eager.update_dataset_from_dataframes(
        None, store=store, dataset_uuid="sales", delete_scope=[{"country": "FR", "day": dt.date(2020, 2, 1)}]
    )
    eager.garbage_collect_dataset("sales", store)
    return {
        "partitions": [len(it.partitions) for it in (appended, replaced, deleted)],
        "keys": list(deleted.partition_keys),
        "indices": sorted(deleted.secondary_indices),
        "append": after_append,
        "replace": after_replace,
        "delete": told(eager.read_table("sales", store, dates_as_object=True)),
        "by_index": told(
            eager.read_table("sales", store, dates_as_object=True, predicates=[[("day", "==", dt.date(2020, 1, 1))]])
        ),
        "by_key": told(eager.read_table("sales", store, predicates=[[("country", "!=", "UK"), ("sold", ">", 5)]])),
        "dispatched": len(eager.read_dataset_as_dataframes("sales", store, predicates=[[("country", "==", "UK")]])),
        "by_value": [
            told(part["table"]) for part in eager.read_dataset_as_dataframes("sales", store, dispatch_by=["country"])
        ],
        "wrong_keys": raised(
            lambda: eager.update_dataset_from_dataframes(
                [more], store=store, dataset_uuid="sales", partition_on=["sold"]
            )
        ),
        "wrong_schema": raised(
            lambda: eager.update_dataset_from_dataframes(
                [more.assign(sold=["a", "b"])], store=store, dataset_uuid="sales"
            )
        ),
    }


def two_steps(eager, store):
    """Write partitions one by one and commit them, build an index later, copy and delete."""
    eager.store_dataframes_as_dataset(store, "steps", [FIRST], metadata={"owner": "a"})
    written = [
        eager.write_single_partition(store=store, dataset_uuid="steps", data=SECOND),
        eager.write_single_partition(store=store, dataset_uuid="steps", data=SECOND.assign(A=7.0)),
    ]
    before = len(eager.read_table("steps", store))
    done = eager.commit_dataset(store=store, dataset_uuid="steps", new_partitions=written)
    named = eager.commit_dataset(store=store, dataset_uuid="steps", metadata={"new": "user_metadata"})
    eager.build_dataset_indices(store, "steps", columns=["D"])
    indexed = told(eager.read_table("steps", store, predicates=[[("D", "==", 4)]]))
    copied = eager.copy_dataset("steps", opened(store), "steps-2")
    eager.delete_dataset("steps", store)
    return {
        "before": before,
        "partitions": len(done.partitions),
        "metadata": {key: named.metadata[key] for key in ("owner", "new")},
        "indexed": indexed,
        "copied": sorted(copied),
        "copy": told(eager.read_table("steps-2", store)),
        "gone": raised(lambda: eager.read_table("steps", store)),
        "nothing": raised(lambda: eager.commit_dataset(store=store, dataset_uuid="steps-2")),
    }


def tables(eager, store):
    """Use several tables, labels, categories, and sorting."""
    eager.store_dataframes_as_dataset(
        store,
        "multi",
        [
            {"label": "one", "data": [("core", FIRST), ("help", SALES)]},
            {"label": "two", "data": [("core", SECOND), ("help", SALES)]},
        ],
    )
    parts = eager.read_dataset_as_metapartitions("multi", store)
    frame = eager.read_table("multi", store, table="core", categoricals={"core": ["E"]}, columns={"core": ["E", "D"]})
    eager.update_dataset_from_dataframes(
        [SECOND], store=store, dataset_uuid="sorted", sort_partitions_by="C", secondary_indices=["E"]
    )
    return {
        "labels": sorted(part.label for part in parts),
        "tables": sorted(parts[0].data),
        "core": told(eager.read_table("multi", store, table="core")),
        "category": str(frame["E"].dtype),
        "categories": sorted(frame["E"].cat.categories),
        "sorted": list(eager.read_table("sorted", store)["C"]),
        "not_text": raised(lambda: eager.read_table("multi", store, table=None)),
    }


def raised(call):
    """Return the builtin class of what a call raises."""
    try:
        call()
    except Exception as error:
        for kind in (KeyError, TypeError, RuntimeError, ValueError):
            if isinstance(error, kind):
                return kind.__name__
        return type(error).__name__
    return "nothing"


def opened(url):
    """Return a store object for a function that takes no URL: storefact's where it is installed, else the URL."""
    try:
        from storefact import get_store_from_url
    except ImportError:
        return url
    return get_store_from_url(url)


EXAMPLES = (getting_started, partitioned, two_steps, tables)


def main():
    """Record what Kartothek 5.3.0 answers."""
    from kartothek.io import eager

    results = {}
    for example in EXAMPLES:
        with tempfile.TemporaryDirectory() as folder:
            results[example.__name__] = example(eager, "hfs://" + folder)
    text = json.dumps(results, indent=1, sort_keys=True, default=str)
    Path(sys.argv[1]).write_text(text + "\n")


if __name__ == "__main__":
    main()
