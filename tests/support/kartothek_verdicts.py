"""Records whether Kartothek 5.3.0 accepts random datasets that pilum writes, with a digest of their bytes.

    .venv/bin/python tests/support/kartothek_verdicts.py PEER [COUNT]

PEER is an interpreter of CPython 3.8 with kartothek==5.3.0 (requirements/kartothek.txt). Each dataset is made from its number
and checked by `check_written_kartothek.py`. `tests/interop/test_kartothek_peer.py` makes the same datasets, and compares their
digests: if the bytes are the same, so is the verdict. Run this again after a change of the bytes that pilum writes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.random_kartothek import digest, make

CHECK = Path(__file__).parents[1] / "interop" / "check_written_kartothek.py"
RECORD = Path(__file__).parents[1] / "fixtures" / "kartothek" / "verdicts.json"


def judge(peer: str, number: int) -> tuple[int, str, str]:
    """Make a dataset; return its number, its digest and the output of the check with Kartothek."""
    with tempfile.TemporaryDirectory() as scratch:
        made = make(number, Path(scratch) / "store", named=True)
        found = digest(made.store)
        expected = made.save_expected(Path(scratch) / "expected.arrow")
        command = [peer, str(CHECK), str(made.store), made.uuid, str(expected)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return number, found, (done.stdout + done.stderr).strip()


def main() -> None:
    """Check the datasets, and write the record if Kartothek accepts all of them."""
    peer, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
    digests, refused = {}, []
    with ThreadPoolExecutor(2) as pool:
        for number, found, output in pool.map(lambda it: judge(peer, it), range(count)):
            digests[str(number)] = found
            if "ACCEPTED by Kartothek 5.3.0" not in output:
                refused.append(number)
                print(f"dataset {number}: {output}")
    if refused:
        sys.exit(f"Kartothek refuses {len(refused)} of {count} datasets: {refused}; nothing was recorded")
    RECORD.write_text(json.dumps({"accepted by": "Kartothek 5.3.0", "digests": digests}, indent=1) + "\n")
    print(f"Kartothek accepts {count} datasets: {RECORD}")


if __name__ == "__main__":
    main()
