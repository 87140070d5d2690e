//! Combines staged fragments: many small files that several processes wrote become few large ones, before their commit.

use std::collections::{BTreeMap, VecDeque};

use pilum_file::Compat;
use pilum_store::Store;

use super::files::write_files_of;
use super::join::{Files, one_schema};
use super::options::WriteOptions;
use super::staged::StagedFragments;
use crate::error::{Error, Result};

/// Writes the rows of staged fragments again, in their order, to files that are as large as the options allow. The old files
/// stay.
///
/// # Errors
/// `CommonError::InvalidInput` for fragments of several schemas, with dictionaries, or with row ids of their own.
pub async fn combine_staged(
    store: &Store,
    staged: &[StagedFragments],
    options: &WriteOptions,
) -> Result<StagedFragments> {
    let schema = one_schema(staged)?;
    let fragments: Vec<_> = staged
        .iter()
        .flat_map(|one| one.fragments.clone())
        .collect();
    let has_row_ids = fragments.iter().any(|fragment| fragment.row_ids.is_some());
    if has_row_ids || staged.iter().any(|one| !one.dictionaries.is_empty()) {
        let reason = "have row ids or dictionaries; commit them as they are";
        return Err(Error::invalid("written fragments", reason));
    }
    let arrow = schema.to_arrow();
    let rows = Files::new(store, schema, BTreeMap::new()).rows(fragments, &arrow);
    let layout = WriteOptions {
        max_rows_per_file: options.max_rows_per_file,
        max_bytes_per_file: options.max_bytes_per_file,
        max_rows_per_page: options.max_rows_per_page,
        // The process that staged the rows decided which values it accepts: all of them are kept.
        compat: Some(Compat::Lossless),
        ..WriteOptions::default()
    };
    let none = BTreeMap::new();
    let new = write_files_of(
        store,
        (schema, &none),
        &arrow,
        rows,
        VecDeque::new(),
        &layout,
    );
    let new = new.await?;
    let expected = staged.iter().map(|one| one.num_rows);
    if new.num_rows != expected.fold(0, u64::saturating_add) {
        new.discard(store).await;
        let reason = "written fragments have other rows than they say";
        return Err(Error::corrupt(reason));
    }
    let read_version = staged.iter().map(|one| one.read_version).min();
    Ok(StagedFragments {
        read_version: read_version.unwrap_or_default(),
        ..new
    })
}
