"""Skiff, the row format of YTsaurus jobs, as Arrow record batches; and YSON, its notation for values of any type.

    from pilum import skiff

    format = skiff.Format.load("format.json")
    for table, batch in skiff.decode(sys.stdin.buffer, format):
        ...
    skiff.encode(batches, sys.stdout.buffer, format)

A Skiff stream carries neither names nor types: it is read by its format only. The same function of record batches that
`mapInArrow` runs in Spark runs in a YTsaurus job by `run`, or as `python -m pilum.skiff map module:function`.
"""

from pilum.skiff.codec import decode, encode
from pilum.skiff.convert import convert
from pilum.skiff.formats import Format
from pilum.skiff.kernels import canonical_yson, json_to_yson, promote_other_columns, yson_get, yson_to_json
from pilum.skiff.run import run

__all__ = [
    "Format",
    "canonical_yson",
    "convert",
    "decode",
    "encode",
    "json_to_yson",
    "promote_other_columns",
    "run",
    "yson_get",
    "yson_to_json",
]
