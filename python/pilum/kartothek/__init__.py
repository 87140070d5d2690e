"""Kartothek datasets: read, queried through their partition keys and indices, and moved to other tables.

    import pilum.kartothek

    k = pilum.kartothek.dataset("s3://bucket/store", "sales")
    k.to_table(predicates=[[("item", "==", 7), ("day", ">=", date(2020, 3, 1))]], columns=["item", "price"])
    k.dispatch([[("item", "==", 7)]])                       # labels of partitions, from keys and indices alone
    pilum.kartothek.to_pilum(k, "sales.pilum")              # one table, one commit
    pilum.kartothek.from_pilum("sales.pilum", "store", "sales", partition_on="city")

Predicates are those of Kartothek 5.3.0, with the meaning that its row filter has for all columns, indexed or not: a null is
unlike every value, so `!=` finds it, and `== None` finds nulls.
"""

from pilum.kartothek.convert import Copied, from_pilum, to_pilum
from pilum.kartothek.dataset import Dataset, dataset, write
from pilum.kartothek.reading import Index, Partition, Scanner
from pilum.kartothek.writing import Frame, GarbageCollection, Version

__all__ = [
    "Copied",
    "Dataset",
    "Frame",
    "GarbageCollection",
    "Index",
    "Partition",
    "Scanner",
    "Version",
    "dataset",
    "from_pilum",
    "to_pilum",
    "write",
]
