//! A version that needs the extension is published only in a table that allows it.
//!
//! Writers refuse values by the compat of the version that they read, before they write a file. This check is made on the
//! manifest that is to be published, so that it holds for staged files, restored versions and concurrent changes too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilum_format::{Compat, DataFile, Field, Manifest, Schema, dictionary_validity, flags};
use pilum_store::Store;

use crate::error::{Error, Result};
use crate::read::context::ReadContext;

/// Most columns that an error names.
const COLUMNS_NAMED: usize = 20;

/// The compat that the next version records: that of the caller, of a new table, or of a table that needs the extension
/// and was made before compat was recorded.
pub(super) fn to_record(current: Option<&Manifest>, asked: Option<Compat>) -> Option<Compat> {
    match current {
        None => Some(asked.unwrap_or_default()),
        Some(current) => {
            let is_known = current.recorded_compat.is_some();
            let lossless = Some(current.compat()).filter(|it| *it == Compat::Lossless);
            asked.or(lossless.filter(|_| !is_known))
        }
    }
}

/// Refuses the next version if it needs the extension and the table is to stay readable without.
pub(super) async fn check(
    store: &Store,
    current: Option<&Manifest>,
    next: &Manifest,
    asked: Option<Compat>,
) -> Result<()> {
    let allowed = asked.unwrap_or_else(|| current.map_or(Compat::Lossless, Manifest::compat));
    if allowed == Compat::Lossless || next.reader_flags & flags::EXTENSION == 0 {
        return Ok(());
    }
    let found = find(store, current, next).await?;
    let columns: Vec<String> = (found.columns.iter().take(COLUMNS_NAMED))
        .map(|it| format!("`{it}`"))
        .collect();
    let more = if found.columns.len() > COLUMNS_NAMED {
        ", ..."
    } else {
        ""
    };
    let what = match columns.len() {
        0 => format!("the table at {}", store.uri()),
        1 => format!("column {}", columns[0]),
        _ => format!("columns {}{more}", columns.join(", ")),
    };
    let first = found
        .first
        .map_or_else(String::new, |it| format!(" ({it})"));
    Err(Error::invalid(
        what,
        format!(
            "would have values or types that Lance v1 cannot hold{first}, and the table at {} is kept readable for every \
             reader of Lance v1 (compat \"lance\"); change the values, or pass compat=\"lossless\" to this call, once: \
             pylance can then no longer read the table",
            store.uri()
        ),
    ))
}

/// What needs the extension.
#[derive(Default)]
struct Found {
    columns: BTreeSet<String>,
    /// The first value, as the writer would have refused it.
    first: Option<String>,
}

/// The columns of `next` that need the extension, and the first value among its new files.
async fn find(store: &Store, current: Option<&Manifest>, next: &Manifest) -> Result<Found> {
    let metadata = BTreeMap::new();
    let schema = Schema::from_protos(store.uri(), &next.fields, &metadata)?;
    let mut found = Found::default();
    let is_extended = |field: &Field| {
        only(field).is_beyond_v1()
            || field.walk().any(|it| {
                let values = next.dictionaries.get(&it.id);
                values.is_some_and(|values| dictionary_validity(values).is_some())
            })
    };
    let extended = schema.fields.iter().filter(|it| is_extended(it));
    found.columns.extend(extended.map(|it| it.name.clone()));
    let known: BTreeSet<&str> = (current.iter().flat_map(|it| &it.fragments))
        .flat_map(|it| &it.files)
        .map(|it| it.path.as_str())
        .collect();
    let is_new = |file: &&DataFile| file.needs_extension && !known.contains(file.path.as_str());
    let files = next.fragments.iter().flat_map(|it| &it.files);
    let Some(file) = files.into_iter().find(is_new) else {
        return Ok(found);
    };
    let dictionaries = Arc::new(next.dictionaries.clone());
    let context = ReadContext::new(store.clone(), dictionaries, true, &next.fragments);
    let reader = context.open(file).await?;
    for field in schema.held_by(&file.field_ids).fields {
        let column = only(&field);
        if reader.columns_need_extension(&column).await? {
            found.columns.insert(field.name);
            if found.first.is_none() {
                let lossy = reader.first_lossy(&column, &next.dictionaries).await?;
                found.first = lossy.map(|it| format!("{it} {}", file.path));
            }
        }
    }
    Ok(found)
}

fn only(field: &Field) -> Schema {
    Schema {
        fields: vec![field.clone()],
        metadata: BTreeMap::new(),
    }
}
