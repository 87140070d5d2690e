//! The last parts of a row: sparse columns, and the map of `$other_columns`.

use std::collections::HashSet;

use super::check::{ReadRules, bad_yson};
use super::column::Column;
use super::cursor::{Cursor, RowStop, Stop, bad};
use crate::error::{Result, StreamFault};
use crate::yson;

/// Reads the map of `$other_columns`. A key that is one of `names` is refused.
pub(super) fn read_other(
    column: &mut Column,
    names: Option<&HashSet<Vec<u8>>>,
    cursor: &mut Cursor<'_>,
    rules: ReadRules,
) -> Result<(), Stop> {
    let at = cursor.pos;
    column.read(cursor, rules)?;
    let map = cursor.since(at + 4);
    let key = match yson::declared_key(map, rules.limits, names) {
        Ok(key) => key,
        Err(error) => return bad_yson(error, at),
    };
    if !yson::is_plain_map(map) {
        let reason = "the value is no map, or a map with attributes";
        return bad(StreamFault::OtherColumnsNotMap, at, reason);
    }
    if let Some(key) = key {
        let key = key.escape_ascii();
        let reason = format!("the map has the key `{key}`, which is the name of a column too");
        return bad(StreamFault::DuplicateColumn, at, reason);
    }
    Ok(())
}

/// Reads the sparse part. Columns that do not occur are filled with nulls later, many rows at once.
pub(super) fn read_sparse(
    columns: &mut [Column],
    are_optional: &[bool],
    row: usize,
    cursor: &mut Cursor<'_>,
    rules: ReadRules,
    mut note: impl FnMut(u16),
) -> std::result::Result<(), RowStop> {
    loop {
        let at = cursor.pos;
        let tag = cursor.tag(true).map_err(|stop| (None, stop))?;
        if tag == u16::MAX {
            return Ok(());
        }
        let number = usize::from(tag);
        let (Some(column), Some(is_optional)) = (columns.get_mut(number), are_optional.get(number))
        else {
            let count = are_optional.len();
            let reason = format!("the tag is {tag}, and there are {count} sparse columns");
            return bad(StreamFault::BadSparseTag, at, reason).map_err(|stop| (None, stop));
        };
        // Of two values of a column in one row, the last one counts.
        column.truncate(row);
        fill(column, row);
        let read = match column {
            column if *is_optional => column.read(cursor, rules),
            Column::Optional { flags, value } => {
                let read = value.read(cursor, rules);
                flags.push(1);
                read
            }
            _ => Ok(()),
        };
        read.map_err(|stop| (Some(number), stop))?;
        note(tag);
    }
}

/// Appends nulls up to a number of rows.
pub(super) fn fill(column: &mut Column, num_rows: usize) {
    for _ in column.len()..num_rows {
        column.push_default();
    }
}
