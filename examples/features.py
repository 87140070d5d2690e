"""A feature table with embeddings: a column that a model computes is added without rewriting the others, and rows are sampled.

    python examples/features.py          (needs pilum[spark] and Java 17)

The "model" is a projection that needs no download; any function from a batch to a batch takes its place.
"""

from __future__ import annotations

import random
import tempfile
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pilum import spark as ps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 2000
WIDTH = 16
SEED = 7


def embed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the embedding of each text: here, a fixed random direction for each of its letters, added up."""
    directions = np.random.default_rng(SEED).normal(size=(256, WIDTH)).astype(np.float32)
    vectors = np.zeros((batch.num_rows, WIDTH), np.float32)
    for place, text in enumerate(batch.column("text").to_pylist()):
        vectors[place] = directions[np.frombuffer(text.encode(), np.uint8)].sum(axis=0)
    values = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), WIDTH)
    return pa.record_batch({"embedding": values})


def main(spark: SparkSession, folder: str) -> None:
    """Write texts, add their embeddings, read them in Spark, take a sample."""
    uri = f"{folder}/features.pilum"
    texts = spark.range(0, ROWS, 1, 4).selectExpr("id", "concat('product ', id % 97, ' of ', id) AS text")
    before = ps.write(texts, uri)

    # One more file for each fragment; the files with the texts stay as they are.
    after = before.add_columns(embed, read_columns=["text"], batch_rows=500)
    old = {file for fragment in before.fragments for file in fragment.files}
    assert old <= {file for fragment in after.fragments for file in fragment.files}

    # In Spark, vectors are arrays; as bytes they take a quarter less time, and numpy reads them.
    norms = spark.read.format("pilum").option("columns", "id,embedding").load(uri)
    longest = (
        norms.selectExpr("id", "aggregate(embedding, 0D, (sum, it) -> sum + it * it) AS norm")
        .orderBy("norm")
        .tail(1)[0]
    )
    as_bytes = ps.read(spark, uri, columns=["embedding"], filter=f"id = {longest.id}", vectors="binary").collect()[0]
    vector = np.frombuffer(as_bytes.embedding, np.float32).astype(np.float64)
    assert np.isclose((vector**2).sum(), longest.norm)

    # A training sample: rows by position, without a scan.
    sample = after.take(random.Random(SEED).sample(range(ROWS), 64), columns=["id", "embedding"])
    print(f"{after.count_rows()} rows, version {after.version}; a sample of {sample.num_rows} rows")
    print(f"the longest vector is that of row {longest.id}")
    assert len(set(sample["id"].to_pylist())) == 64
    (expected,) = embed(pa.record_batch({"text": [f"product {longest.id % 97} of {longest.id}"]})).columns
    assert np.allclose(vector, expected.flatten().to_numpy())


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    with tempfile.TemporaryDirectory() as place:
        main(session, place)
    session.stop()
