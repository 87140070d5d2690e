"""One writer process of `kartothek_lost_updates.py`: adds partitions to a Kartothek dataset, one in each update.

python kartothek_writer.py kartothek|pilum STORE WRITER UPDATES

With `kartothek`, it needs CPython 3.8 with kartothek==5.3.0. It prints a JSON list: the numbers of the updates that raised no
error.
"""

import json
import sys
import warnings

warnings.simplefilter("ignore")

NAME = "shared"


def of_kartothek(store: str, writer: int, number: int) -> None:
    """Add a partition with Kartothek."""
    import pandas as pd
    from kartothek.io.eager import update_dataset_from_dataframes

    rows = pd.DataFrame({"writer": [writer], "number": [number]})
    update_dataset_from_dataframes([rows], store="hfs://" + store, dataset_uuid=NAME)


def of_pilum(store: str, writer: int, number: int) -> None:
    """Add a partition with pilum."""
    import pyarrow as pa

    import pilum.kartothek

    rows = pa.table({"writer": [writer], "number": [number]})
    pilum.kartothek.dataset(store, NAME).update(rows)


def main() -> None:
    """Make the updates, and print the numbers of those that raised no error."""
    library, store, writer, updates = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    update = {"kartothek": of_kartothek, "pilum": of_pilum}[library]
    succeeded = []
    for number in range(updates):
        try:
            update(store, writer, number)
        except Exception as error:  # noqa: BLE001 - every error counts as a failed update
            print(f"writer {writer}, update {number}: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            succeeded.append(number)
    json.dump(succeeded, sys.stdout)


main()
