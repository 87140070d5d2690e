#!/usr/bin/env python
"""Checks whether the original Kartothek 5.3.0 accepts a dataset that another program wrote: reads, queries, updates, deletes it.

The check does not query columns of type time, because Kartothek has no predicates on them. The rows that it appends have a value
in each indexed column: without one, Kartothek refuses appends to its own datasets too.

    python check_written_kartothek.py STORE UUID EXPECTED.arrow [--table NAME] [--key COLUMN] [--no-update]

STORE     a directory, or a store URL such as hfs:///path
EXPECTED  an Arrow IPC file with exactly the rows that the dataset should hold
          (several tables: run once per table with --table)

Needs the environment of requirements/kartothek.txt (CPython 3.8, kartothek==5.3.0,
pandas==1.3.5, pyarrow==6.0.1).  EXPECTED must therefore hold only types that Arrow 6
knows (no string views).  Exit 0: accepted.  Exit 1: the list of complaints.
"""
import argparse
import collections
import datetime as dt
import logging
import math
import os
import re
import shutil
import sys
import tempfile
import traceback
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

try:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq
    from kartothek.core.common_metadata import normalize_type
    from kartothek.core.dataset import DatasetMetadata
    from kartothek.core.factory import DatasetFactory
    from kartothek.io.eager import (
        delete_dataset, garbage_collect_dataset, read_dataset_as_dataframes, read_table, update_dataset_from_dataframes,
    )
    from kartothek.io_components.read import dispatch_metapartitions_from_factory
    from storefact import get_store_from_url
except ImportError as exc:
    print("SETUP: %s\nInstall requirements/kartothek.txt into a CPython 3.8 environment first." % exc)
    sys.exit(1)

problems, notes = [], []


def bad(msg):
    problems.append(msg)


def canon(v):
    if v is None or v is pd.NaT:
        return None
    if isinstance(v, np.ndarray) or isinstance(v, list):
        return tuple(canon(x) for x in v)
    if isinstance(v, np.datetime64):
        v = pd.Timestamp(v)
        return None if v is pd.NaT else v
    if isinstance(v, dt.datetime) and not isinstance(v, pd.Timestamp):
        return pd.Timestamp(v)
    if isinstance(v, np.generic):
        v = v.item()
    if isinstance(v, float) and math.isnan(v):
        return None
    return v


def typed(series, atype):
    out = []
    for v in series:
        v = canon(v)
        if v is not None and pa.types.is_integer(atype):
            v = int(v)
        out.append(v)
    return out


def rows_of(df, schema, cols):
    columns = [typed(df[c], schema.field(c).type) for c in cols]
    return collections.Counter(map(repr, zip(*columns))) if columns else collections.Counter()


def lit_ok(x, op, v):
    if op == "in":
        return x is not None and x in v
    if x is None:
        return op == "!="
    return {"==": x == v, "!=": x != v}[op] if op in ("==", "!=") else {"<": x < v, ">=": x >= v}[op]


def guard(name, fn, *a, **k):
    try:
        return fn(*a, **k)
    except Exception as exc:
        last = traceback.extract_tb(sys.exc_info()[2])[-1]
        bad("%s: %s: %s (at %s:%s)" % (name, type(exc).__name__, " ".join(str(exc).split())[:600], os.path.basename(last.filename), last.lineno))
        return None


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("store"); ap.add_argument("uuid"); ap.add_argument("expected")
    ap.add_argument("--table", default=None); ap.add_argument("--no-update", action="store_true")
    ap.add_argument("--key", default=None, help="unused for matching; named in messages only")
    a = ap.parse_args()
    url = a.store if "://" in a.store else "hfs://" + os.path.abspath(a.store)
    store = get_store_from_url(url)

    # 1 ---- metadata
    ds = guard("load metadata", DatasetMetadata.load_from_store, a.uuid, store)
    if ds is None:
        return
    table = a.table or (ds.tables[0] if ds.tables else "table")
    if table not in ds.table_meta:
        return bad("table %r is not in the dataset, which has %s" % (table, list(ds.table_meta)))
    schema = ds.table_meta[table].internal()
    keys = set(store.iter_keys(a.uuid))
    names = None
    for label, part in ds.partitions.items():
        if names is None:
            names = set(part.files)
        if set(part.files) != names:
            bad("partition %r lists the tables %s, others %s" % (label, sorted(part.files), sorted(names)))
        for t, k in part.files.items():
            if k not in keys:
                bad("partition %r: file %r does not exist" % (label, k))
            if k != "%s/%s/%s.parquet" % (a.uuid, t, label):
                notes.append("partition %r: key %r is not UUID/TABLE/LABEL.parquet" % (label, k))
    for f in schema:
        if not f.nullable:
            bad("_common_metadata: field %r is required; Kartothek writes only optional fields and refuses appends" % f.name)
        want = normalize_type(f.type, "list[x]" if pa.types.is_list(f.type) else None, None, None)[0] if not pa.types.is_list(f.type) else f.type
        if f.type != want:
            bad("_common_metadata: field %r has type %s, normalised would be %s" % (f.name, f.type, want))
    pk = list(ds.partition_keys or [])
    order = [c for c in pk] + sorted(c for c in schema.names if c not in pk)
    if list(schema.names) != order:
        bad("_common_metadata: column order is %s, must be partition keys then alphabetical: %s" % (schema.names, order))
    if not schema.metadata or b"pandas" not in schema.metadata:
        bad("_common_metadata: no 'pandas' key-value metadata; Kartothek reads it but refuses every append")
    for c in pk:
        t = schema.field(c).type if c in schema.names else None
        if t is None:
            bad("partition key %r is missing in _common_metadata" % c)
        elif pa.types.is_boolean(t):
            notes.append("partition key %r is bool: Kartothek 5.3.0 reads every value back as True" % c)

    # 2 ---- expected
    with pa.memory_map(a.expected) as f:
        exp = pa.ipc.open_file(f).read_all()
    if sorted(exp.schema.names) != sorted(schema.names):
        bad("columns: expected %s, dataset has %s" % (sorted(exp.schema.names), sorted(schema.names)))
        return
    edf = exp.to_pandas(date_as_object=True, timestamp_as_object=False)
    for c in exp.schema.names:
        t = exp.schema.field(c).type
        if pa.types.is_integer(t):  # nullable ints as objects, not floats
            edf[c] = pd.Series(exp[c].to_pylist(), dtype=object)
    erows = [dict(zip(schema.names, vals)) for vals in zip(*[typed(edf[c], schema.field(c).type) for c in schema.names])]
    ecount = collections.Counter(repr(tuple(r[c] for c in schema.names)) for r in erows)

    # 3 ---- full read
    def full(preds=None):
        dfs = [d[table] for d in read_dataset_as_dataframes(a.uuid, url, tables=[table], predicates=preds, dates_as_object=True)]
        return dfs

    dfs = guard("full read", full)
    if dfs is None:
        return
    got = collections.Counter()
    for d in dfs:
        if sorted(d.columns) != sorted(schema.names):
            bad("a partition reads back with columns %s" % list(d.columns))
            return
        got += rows_of(d, schema, schema.names)
    if got != ecount:
        bad("full read differs: missing %s, unexpected %s" % (list((ecount - got).items())[:3], list((got - ecount).items())[:3]))
    df = guard("read_table", read_table, a.uuid, url, table=table, dates_as_object=True)
    if df is not None and list(df.columns) != list(schema.names):
        bad("read_table column order %s" % list(df.columns))

    # 4 ---- indices
    loaded = guard("load_all_indices", ds.load_all_indices, store)
    if loaded is None:
        return
    by_label = {}
    for label in ds.partitions:
        one = guard("read partition " + label, lambda: [
            mp.load_dataframes(store, dates_as_object=True).data for mp in dispatch_metapartitions_from_factory(DatasetFactory(a.uuid, url))
            if mp.label == label])
        by_label[label] = one[0] if one else {}
    for c, ix in loaded.secondary_indices.items():
        k = ds.indices[c].index_storage_key
        if k not in keys:
            bad("index %r: file %r does not exist" % (c, k))
        elif not re.match(r"^%s/indices/[^/]+/[^/]+\.by-dataset-index\.parquet$" % re.escape(a.uuid), k):
            notes.append("index %r: unusual key %r" % (c, k))
        if c not in schema.names:
            continue
        want_t = schema.field(c).type
        if ix.dtype != want_t:
            bad("index %r has type %s but the schema has %s (an append would raise TypeError)" % (c, ix.dtype, want_t))
        want = collections.defaultdict(set)
        for label, tabs in by_label.items():
            for d in tabs.values():
                if c in d.columns:
                    for v in typed(d[c], want_t):
                        if v is not None:
                            want[v].add(label)
        have = {}
        for v, labels in ix.index_dct.items():
            v = canon(v)
            if pa.types.is_integer(want_t) and v is not None:
                v = int(v)
            if len(set(labels)) != len(labels):
                notes.append("index %r: value %r lists a label twice" % (c, v))
            unknown = set(labels) - set(ds.partitions)
            if unknown:
                bad("index %r: value %r names unknown partitions %s (queries raise KeyError)" % (c, v, sorted(unknown)[:3]))
            have[v] = set(labels)
        if have != dict(want):
            diff = [(v, sorted(have.get(v, ())), sorted(want.get(v, ()))) for v in set(have) | set(want) if have.get(v, set()) != want.get(v, set())]
            bad("index %r is wrong, (value, stored labels, right labels): %s" % (c, diff[:3]))

    # 5 ---- predicates: indexed and partition columns, then the others
    def ask(preds):
        n0 = len(problems)
        dfs = guard("query %r" % (preds,), full, preds)
        if dfs is None:
            return
        got = collections.Counter()
        for d in dfs:
            got += rows_of(d, schema, schema.names)
        want = collections.Counter(repr(tuple(r[c] for c in schema.names)) for r in erows if any(all(lit_ok(r[c], o, v) for c, o, v in conj) for conj in preds))
        if got != want:
            bad("query %r: %d rows, expected %d; missing %s unexpected %s" % (preds, sum(got.values()), sum(want.values()), list(want - got)[:2], list(got - want)[:2]))

    asked = 0
    lits = []
    for c in schema.names:
        t = schema.field(c).type
        if pa.types.is_nested(t) or pa.types.is_null(t) or pa.types.is_decimal(t) or pa.types.is_time(t) or getattr(t, "tz", None):
            continue
        vals = []
        for r in erows:
            if r[c] is not None and r[c] not in vals:
                vals.append(r[c])
            if len(vals) >= 200:
                break
        vals = [v for v in vals if not (isinstance(v, bytes) and b"\0" in v)]
        if not vals:
            continue
        hasnull = any(r[c] is None for r in erows)
        big = pa.types.is_unsigned_integer(t) and max(vals) >= 2 ** 63  # 'in' loses precision in Kartothek
        preds = [(c, "==", vals[0]), (c, "==", vals[-1])] + ([] if big else [(c, "in", vals[:3])])
        if not hasnull:
            preds.append((c, "!=", vals[0]))
            if not pa.types.is_boolean(t) and not pa.types.is_binary(t):
                mid = sorted(vals)[len(vals) // 2]
                preds += [(c, "<", mid), (c, ">=", mid)]
        lits += preds[:3]
        for p in preds:
            ask([[p]]); asked += 1
    for i in range(0, len(lits) - 1, 2):
        ask([[lits[i], lits[-1 - i]]]); asked += 1

    # 6 ---- append, delete_scope, gc, delete: on a copy
    if not a.no_update and url.startswith("hfs://") and not problems:
        tmp = tempfile.mkdtemp()
        try:
            shutil.copytree(url[len("hfs://"):].split("?")[0], tmp + "/s")
            u2 = "hfs://" + tmp + "/s"
            indexed = set(ds.secondary_indices)
            has_values = lambda d: len(d) and all(d[c].notnull().any() for c in indexed & set(d.columns))
            tabs = next((t for t in by_label.values() if all(has_values(d) for d in t.values())), None)
            if tabs:
                frame = {t: d.copy() for t, d in tabs.items()}
                tz = [c for d in frame.values() for c in d.columns if getattr(d[c].dtype, "tz", None) is not None]
                if tz:
                    notes.append("zoned timestamp columns %s: Kartothek 5.3.0 cannot append to its own datasets either; append not tried" % tz)
                else:
                    new = guard("append one partition's rows", update_dataset_from_dataframes, [{"data": frame}], store=u2, dataset_uuid=a.uuid)
                    if new is not None and len(new.partitions) < len(ds.partitions) + 1:
                        bad("append did not add a partition")
            if pk and ds.partitions and not problems:
                col = pk[0]
                any_label = next(l for l, t in by_label.items() if any(len(d) for d in t.values()))
                d = next(d for d in by_label[any_label].values() if len(d))
                if not pa.types.is_boolean(schema.field(col).type):
                    v = canon(d[col].iloc[0])
                    new = guard("delete_scope on %r" % col, update_dataset_from_dataframes, None, store=u2, dataset_uuid=a.uuid, delete_scope=[{col: v}])
                    if new is not None and any_label in new.partitions:
                        bad("delete_scope {%r: %r} left partition %r" % (col, v, any_label))
            guard("garbage_collect_dataset", garbage_collect_dataset, a.uuid, u2)
            left = guard("read after gc", read_table, a.uuid, u2, table=table)
            guard("delete_dataset", delete_dataset, a.uuid, u2)
        finally:
            shutil.rmtree(tmp)
    print("checked: %d partitions, %d rows, %d secondary indices, %d predicate queries%s" % (
        len(ds.partitions), len(erows), len(ds.secondary_indices), asked, "" if a.no_update else ", append/delete/gc on a copy"))


try:
    main()
except SystemExit:
    raise
except Exception:
    bad("checker stopped: " + traceback.format_exc())
for n in notes:
    print("note: " + n)
if problems:
    print("REFUSED: %d problem(s)" % len(problems))
    for p in problems:
        print(" - " + p)
    sys.exit(1)
print("ACCEPTED by Kartothek 5.3.0")
