//! `docs/types.md` is written from the rules in code.
//!
//! `PILUM_REGENERATE=1 cargo test -p pilum-expr` rewrites it.

use std::{fmt::Write, path::Path, sync::Arc};

use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use pilum_expr::{RULE_NOTES, Rule, rule};

/// One type of each kind, with the name that the page shows.
fn shown() -> Vec<(&'static str, DataType)> {
    use DataType::*;
    let item = Arc::new(Field::new("item", Int64, true));
    let pair = Fields::from(vec![
        Field::new("key", Int64, false),
        Field::new("value", Int64, true),
    ]);
    vec![
        ("bool", Boolean),
        ("int8", Int8),
        ("int16", Int16),
        ("int32", Int32),
        ("int64", Int64),
        ("uint8", UInt8),
        ("uint32", UInt32),
        ("uint64", UInt64),
        ("halffloat", Float16),
        ("float", Float32),
        ("double", Float64),
        ("decimal128(10, 2)", Decimal128(10, 2)),
        ("decimal128(38, 0)", Decimal128(38, 0)),
        ("date32", Date32),
        ("date64", Date64),
        ("time32[ms]", Time32(TimeUnit::Millisecond)),
        ("time64[us]", Time64(TimeUnit::Microsecond)),
        ("timestamp[us]", Timestamp(TimeUnit::Microsecond, None)),
        ("timestamp[ns]", Timestamp(TimeUnit::Nanosecond, None)),
        (
            "timestamp[us, tz]",
            Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ),
        ("duration[us]", Duration(TimeUnit::Microsecond)),
        ("month_interval", Interval(IntervalUnit::YearMonth)),
        (
            "month_day_nano_interval",
            Interval(IntervalUnit::MonthDayNano),
        ),
        ("string", Utf8),
        ("binary", Binary),
        ("fixed_size_binary[3]", FixedSizeBinary(3)),
        ("list", List(Arc::clone(&item))),
        ("fixed_size_list[2]", FixedSizeList(item, 2)),
        (
            "map",
            Map(Arc::new(Field::new("entries", Struct(pair), false)), false),
        ),
        (
            "dictionary of string",
            Dictionary(Box::new(Int32), Box::new(Utf8)),
        ),
    ]
}

fn page() -> String {
    let mut page = String::from(
        "<!-- Generated from rust/expr/src/convert/rule.rs; PILUM_REGENERATE=1 cargo test -p pilum-expr rewrites it. -->\n\n\
         # Types and conversions\n\n\
         A value is converted to another type when **the value, converted and converted back, is the value that it was**.\n\
         Otherwise the conversion is refused, and the error names the column, the row, the value, both types and what to do.\n\
         Numbers are compared as numbers, NaN equals NaN, timestamps with zones are compared as instants, text by its\n\
         characters. The schema adapter of the engine (`pilum_expr::SchemaAdapter`) follows these rules at every write:\n\
         `write_dataset`, `append`, `overwrite`, `merge_insert`, `add_columns`, `fragments.write`, `spark.write`. With\n\
         `cast=\"lossy\"` a write converts as a SQL `CAST` does where no exact conversion is sure: numbers are rounded to the\n\
         nearest one, times and timestamps are cut to the unit (downwards before 1970 too), durations are cut towards zero.\n\
         A value out of range is refused all the same, and so is a number that would become infinity; `TRY_CAST` makes it\n\
         null.\n\n\
         Columns and members of structs are matched by name, in any order, in every batch. What the rows lack becomes null\n\
         where it may (`missing=\"error\"` refuses it); what they have beside the columns of the table is refused\n\
         (`extra=\"ignore\"` leaves it out).\n\n## Rules\n\n\
         | from | to | what is checked |\n|---|---|---|\n",
    );
    for note in RULE_NOTES {
        writeln!(page, "| {} | {} | {} |", note.from, note.to, note.note).unwrap();
    }
    page.push_str(
        "\n## Every pair\n\nFor each type, the types that it becomes without a look at its values (every value fits), and \
         those for which each value\nis checked. It never becomes one of the types that are not listed.\n\n\
         | from | always | if every value fits |\n|---|---|---|\n",
    );
    let types = shown();
    for (name, from) in &types {
        let with = |wanted: Rule| {
            let names: Vec<String> = types
                .iter()
                .filter(|(_, to)| to != from && rule(from, to) == wanted)
                .map(|(name, _)| format!("`{name}`"))
                .collect();
            names.join(", ")
        };
        writeln!(
            page,
            "| `{name}` | {} | {} |",
            with(Rule::Exact),
            with(Rule::Checked)
        )
        .unwrap();
    }
    page
}

#[test]
fn the_page_on_types_is_that_of_the_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/types.md");
    let page = page();
    if std::env::var_os("PILUM_REGENERATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        written, page,
        "docs/types.md is stale: PILUM_REGENERATE=1 rewrites it"
    );
}
