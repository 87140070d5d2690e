//! Compares `docs/conflicts.md` with the conflict matrix in the code. `PILUM_REGENERATE=1 cargo test -p pilum-table` rewrites it.

use std::fmt::Write as _;
use std::path::Path;

use pilum_format::OperationKind;
use pilum_table::{CONFLICT_MATRIX, Rule};

const HEAD: &str = "\
# Which commits go together

Generated from `CONFLICT_MATRIX` in `rust/table/src/commit/conflict.rs`: `PILUM_REGENERATE=1 cargo test -p pilum-table` rewrites
this page, and a test compares it with the code.

A writer prepares a commit from one version. Other commits may have been published since: the commit is checked against each of
them, oldest first.
Row: the operation that is to be committed. Column: the one that came first.

";

const TAIL: &str = "
A `redo` of a delete or update over another one is decided by rows first: if the two took different rows of a fragment
whose data files are the same, their deletion files are merged and the commit goes on. Statements are executed again by
themselves; a transaction that was handed over ready-made fails with a conflict that can be retried. An overwrite of all
rows depends on no rows of the table, so its `redo` only commits it again, unless it allows no retries.

One more rule holds for appends, updates and merges: if both commits added values to the dictionary of one column, and the values
or their order differ, the answer is `redo`. An append then writes its rows again by itself.

An operation that is not in the table, or a transaction that cannot be found or read, forbids the commit.
";

/// The word in a cell, and what it means.
fn words(rule: Rule) -> (&'static str, &'static str) {
    match rule {
        Rule::Ok => (
            "ok",
            "They go together: the commit is rebased on the other one.",
        ),
        Rule::Retry => ("redo", "The work must be redone on the newer version."),
        Rule::Incompatible => ("no", "They never go together: the commit fails."),
        Rule::Fragments => (
            "fragments",
            "`ok` if they touch different fragments, else `redo`.",
        ),
        Rule::Nullability => (
            "nulls",
            "`redo` if the projection made a column non-nullable, else `ok`.",
        ),
        Rule::ConfigKey => (
            "key",
            "`no` if both change a config key and one of them sets it, else `ok`.",
        ),
        Rule::SchemaEditRetry => (
            "edit: redo",
            "`redo` if metadata of the schema or of a field is edited, else `ok`.",
        ),
        Rule::SchemaEditIncompatible => (
            "edit: no",
            "`no` if metadata of the schema or of a field is edited, else `ok`.",
        ),
        Rule::TwoEdits => (
            "edits",
            "`no` if both change a key and one of them sets it, both edit the schema's metadata, or both that of one field; else `ok`.",
        ),
        Rule::FragmentRemoved => (
            "removed",
            "`no` if the delete removed a fragment whose file is replaced, else `ok`.",
        ),
        Rule::FragmentsAndFields => (
            "fields",
            "`redo` if they replace the same field in the same fragment, else `ok`.",
        ),
        Rule::IndexCovers => (
            "covered",
            "`redo` if the index covers a rewritten fragment, or does not say what it covers; else `ok`.",
        ),
        Rule::IndexField => (
            "indexed",
            "`redo` if the index is on a replaced field, else `ok`.",
        ),
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut used = Vec::new();
    let operations = OperationKind::ALL.map(OperationKind::name);
    writeln!(page, "| to commit | {} |", operations.join(" | ")).unwrap();
    writeln!(page, "|---|{}", "---|".repeat(operations.len())).unwrap();
    for (ours, row) in operations.iter().zip(CONFLICT_MATRIX) {
        let cells: Vec<_> = row.iter().map(|rule| words(*rule).0).collect();
        writeln!(page, "| **{ours}** | {} |", cells.join(" | ")).unwrap();
        for rule in row {
            if !used.contains(&rule) {
                used.push(rule);
            }
        }
    }
    page.push_str("\n| cell | meaning |\n|---|---|\n");
    for rule in used {
        let (word, meaning) = words(rule);
        writeln!(page, "| {word} | {meaning} |").unwrap();
    }
    page.push_str(TAIL);
    page
}

#[test]
fn the_page_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conflicts.md");
    if std::env::var_os("PILUM_REGENERATE").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        checked_in,
        page(),
        "docs/conflicts.md is stale: PILUM_REGENERATE=1 rewrites it"
    );
}
