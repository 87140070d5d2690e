"""The cube of Kartothek's documentation: built, extended, appended to and queried by Kartothek 5.3.0.

    PEER tests/support/kartothek_cubes.py tests/fixtures/kartothek_cube.tar.gz

PEER is an interpreter of CPython 3.8 with kartothek==5.3.0 (requirements/kartothek.txt). The archive has the store, and
`queries.json` with the rows that `query_cube` gave. `tests/python/test_kartothek_eager.py` reads the datasets of the cube with
pilum, joins them as the format says, and compares the rows.
"""

import datetime as dt
import json
import sys
import tarfile
import tempfile
from pathlib import Path

import pandas as pd

CONDITIONS = {
    "all": [],
    "dimension": [("city", "==", "Hamburg")],
    "day": [("day", ">=", dt.datetime(2018, 1, 2))],
    "partition": [("country", "==", "UK")],
    "payload of the seed": [("avg_temp", ">", 6)],
    "payload of another dataset": [("latitude", ">", 51.2)],
    "both": [("avg_temp", "<=", 6), ("longitude", ">", 0.0)],
    "nothing": [("city", "==", "Tokyo")],
}
"""Conditions by name: all of them must hold."""


def told(frame):
    """Return the columns in order, and the rows as sorted texts."""
    columns = sorted(frame.columns)
    rows = [
        [None if value is None or value != value else str(value) for value in row]
        for row in frame[columns].astype(object).itertuples(index=False)
    ]
    return {"columns": columns, "rows": sorted(rows, key=str)}


def main():
    """Build the cube and record the queries."""
    from kartothek.api.cube import append_to_cube, build_cube, extend_cube, query_cube
    from kartothek.core.cube.conditions import C, Conjunction
    from kartothek.core.cube.cube import Cube
    from storefact import get_store_from_url

    days = [pd.Timestamp(2018, 1, 1), pd.Timestamp(2018, 1, 2)]
    weather = pd.DataFrame(
        {
            "avg_temp": [6, 5, 8, 4, 6, 8],
            "city": ["Hamburg", "Hamburg", "Dresden", "Dresden", "London", "London"],
            "country": ["DE"] * 4 + ["UK"] * 2,
            "day": days * 3,
        }
    )
    places = pd.DataFrame(
        {
            "city": ["Dresden", "Hamburg", "London", "Tokyo"],
            "latitude": [51.050407, 53.551086, 51.509865, 35.652832],
            "longitude": [13.737262, 9.993682, -0.118092, 139.839478],
        }
    )
    later = pd.DataFrame({"avg_temp": [20, 22], "city": ["Santiago"] * 2, "country": ["CL"] * 2, "day": days})
    with tempfile.TemporaryDirectory() as folder:
        store = get_store_from_url("hfs://" + folder + "/store")
        cube = Cube(uuid_prefix="geodata", dimension_columns=["city", "day"], partition_columns=["country"])
        build_cube(data=weather, store=store, cube=cube)
        extend_cube(data={"latlong": places}, store=store, cube=cube, partition_on={"latlong": []})
        append_to_cube(data=later, store=store, cube=cube)
        operators = {
            "==": lambda c, v: c == v,
            ">": lambda c, v: c > v,
            ">=": lambda c, v: c >= v,
            "<=": lambda c, v: c <= v,
        }
        answers = {}
        for name, conditions in CONDITIONS.items():
            wanted = Conjunction([operators[op](C(column), value) for column, op, value in conditions])
            found = query_cube(cube=cube, store=store, conditions=wanted if conditions else None)
            answers[name] = told(found[0]) if found else {"columns": [], "rows": []}
        Path(folder, "queries.json").write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n")
        with tarfile.open(sys.argv[1], "w:gz") as archive:
            for name in ("store", "queries.json"):
                archive.add(str(Path(folder, name)), name)


if __name__ == "__main__":
    main()
