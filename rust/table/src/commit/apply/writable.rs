//! Which tables are never written to.

use std::collections::BTreeSet;

use pilum_format::{Manifest, flags};

use super::next_version::has_pages;
use crate::error::{Error, Result};

/// Refuses to write over a table that we would damage.
pub(crate) fn check_writable(manifest: &Manifest) -> Result<()> {
    flags::check_writer(manifest.reader_flags, manifest.writer_flags)?;
    let refused = |what: String| {
        Error::unsupported(
            what,
            "an old writer numbered columns twice; copy the rows into a new table to write to them",
        )
    };
    let mut seen = BTreeSet::new();
    if let Some(twice) = manifest.fields.iter().find(|field| !seen.insert(field.id)) {
        return Err(refused(format!(
            "writing to a table that uses field id {} twice",
            twice.id
        )));
    }
    // A struct spread over several files is named by each of them; a column with pages only once.
    let stored: BTreeSet<i32> = manifest
        .fields
        .iter()
        .filter(|f| has_pages(f))
        .map(|f| f.id)
        .collect();
    for fragment in &manifest.fragments {
        let mut seen = BTreeSet::new();
        let mut ids = fragment.files.iter().flat_map(|file| &file.field_ids);
        if let Some(id) = ids.find(|id| stored.contains(id) && !seen.insert(**id)) {
            return Err(refused(format!(
                "writing to a table whose fragment {} has field {id} twice",
                fragment.id
            )));
        }
    }
    Ok(())
}
