//! The commit of staged fragments: one version for all data files that the processes of a write made.

use std::collections::BTreeMap;

use arrow_schema::DataType;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use pilum_format::Dictionaries;
use pilum_format::{Operation, Reason, Schema, Transaction, longer};
use pilum_store::Store;

use super::event;
use super::join::{Joined, join, one_schema};
use super::options::{WriteMode, WriteOptions, Written};
use super::staged::StagedFragments;
use crate::commit::retry::Retries;
use crate::commit::{CommitOptions, Committed, commit, commit_id, replaced_files};
use crate::error::{Error, Result};
use crate::failpoints::pass;
use crate::read::snapshot::Snapshot;
use crate::versions::durable_put::remove_files;

/// If more versions than this were committed since a fragment was staged, files that it no longer needs are left to a cleanup.
const MAX_VERSIONS_READ: u64 = 100;
/// Files whose sizes are asked for at once.
const CONCURRENT_STATS: usize = 16;

/// Commits what several processes staged with one schema, in the order given: all of it in one version, or none.
///
/// A table has one dictionary for each column. Staged fragments whose dictionaries differ from the joined ones are written
/// again with other keys; their old files are removed once the new ones are committed. After an error the files of all
/// staged fragments stay: call [`StagedFragments::discard`] if they are not to be committed any more.
///
/// `base` is the version that they were staged for. Staged fragments are committed once: to repeat a call whose answer was
/// lost, use a commit id.
///
/// # Errors
/// `CommonError::InvalidInput` if nothing was staged, a file is missing, schemas differ, or dictionaries cannot be
/// joined: the key type is too narrow, or the order of an ordered dictionary is contradicted; `CommonError::Corrupt` for a file
/// of another size than it was written with; else as [`crate::commit()`].
pub async fn commit_staged(
    store: &Store,
    base: Option<Snapshot>,
    staged: &[StagedFragments],
    options: &WriteOptions,
) -> Result<Written> {
    let result = commit_all(store, base, staged, options).await;
    event::write(store, options.mode, &result);
    result
}

async fn commit_all(
    store: &Store,
    base: Option<Snapshot>,
    staged: &[StagedFragments],
    options: &WriteOptions,
) -> Result<Written> {
    if let Some(snapshot) = commit_id::of(store, options.commit_id.as_deref()).await? {
        return Ok(Written::before(snapshot));
    }
    if let Err(error) = check_files(store, staged).await {
        let id = options.commit_id.as_deref();
        // Another call with this id may have committed, and removed files that it replaced.
        let before = commit_id::instead_of(store, id, 0, error).await;
        return before.map(Written::before);
    }
    let has_dictionaries = staged.iter().any(|one| !one.dictionaries.is_empty());
    let newest = match options.mode {
        // Joined with the dictionaries of the base, values that were added since would force a second rewrite.
        WriteMode::Append if has_dictionaries => Snapshot::try_newest(store).await?,
        _ => None,
    };
    let table = newest.or_else(|| base.clone());
    publish(store, base.as_ref(), table, staged, options).await
}

/// Checks that every staged file exists with its size: another process wrote it, and a version that names a missing file
/// could not be read.
pub(crate) async fn check_files(store: &Store, staged: &[StagedFragments]) -> Result<()> {
    let fragments = staged.iter().flat_map(|one| &one.fragments);
    let files = fragments.flat_map(|it| &it.files);
    let files: Vec<(String, u64)> = files.map(|it| (it.full_path(), it.byte_len)).collect();
    let checks = files.into_iter().map(|(path, byte_len)| async move {
        match store.stat(&path).await {
            // A size of 0 means that the size is unknown.
            Ok(found) if byte_len == 0 || byte_len == found.size => Ok(()),
            Ok(found) => {
                let reason = format!(
                    "the file has {} bytes, and was written with {byte_len}; write its rows again",
                    found.size
                );
                Err(Error::corrupt(reason).at(format!("{}/{path}", store.uri())))
            }
            Err(error) if error.is_not_found() => Err(Error::invalid(
                "written fragments",
                format!(
                    "{path} is not in the table at {}; write its rows again, to this table",
                    store.uri()
                ),
            )),
            Err(error) => Err(error.into()),
        }
    });
    let mut checks = stream::iter(checks).buffered(CONCURRENT_STATS);
    while let Some(checked) = checks.next().await {
        checked?;
    }
    Ok(())
}

/// As [`commit_staged`]; the dictionaries of an append continue those of `table` in the first attempt.
pub(super) async fn publish(
    store: &Store,
    base: Option<&Snapshot>,
    table: Option<Snapshot>,
    staged: &[StagedFragments],
    options: &WriteOptions,
) -> Result<Written> {
    match try_publish(store, base, table, staged, options).await {
        Ok(written) => Ok(written),
        Err(error) => {
            let id = options.commit_id.as_deref();
            let before = commit_id::instead_of(store, id, 0, error).await;
            before.map(Written::before)
        }
    }
}

async fn try_publish(
    store: &Store,
    base: Option<&Snapshot>,
    mut table: Option<Snapshot>,
    staged: &[StagedFragments],
    options: &WriteOptions,
) -> Result<Written> {
    let schema = one_schema(staged)?;
    let mut retries = Retries::new(store, options.retries);
    loop {
        let continued = dictionaries_to_continue([table.as_ref(), base], schema, options.mode)?;
        let joined = join(store, &continued, schema, staged, options).await?;
        let new = joined.new.clone();
        let committed = commit_joined(store, base.cloned(), new, &joined.replaced, options).await;
        match committed {
            Ok(committed) if committed.was_committed_before => {
                remove_files(store, &joined.written).await;
                return Ok(Written::before(committed.snapshot));
            }
            Ok(committed) => {
                remove_replaced(store, staged, &joined, &committed).await;
                return Ok(Written {
                    snapshot: committed.snapshot,
                    num_rows: joined.new.num_rows,
                    num_bytes: joined.new.num_bytes,
                    attempts: committed.attempts,
                    was_committed_before: false,
                    cleanup_error: committed.cleanup_error,
                });
            }
            Err(error @ Error::CommitUnknown { .. }) => return Err(error),
            Err(error) => {
                remove_files(store, &joined.written).await;
                let is_diverged = matches!(
                    &error,
                    Error::Conflict {
                        reason: Reason::Dictionary(_),
                        ..
                    }
                );
                if !is_diverged {
                    return Err(error);
                }
                table = Snapshot::try_newest(store).await?;
                if dictionaries_to_continue([table.as_ref(), base], schema, options.mode)?
                    == continued
                {
                    // The listing does not show the version with the new values yet: a retry would fail in the same way.
                    return Err(error);
                }
                // The rows are in the files, only their keys must change. The base stays, so that every version since is
                // checked for conflicts.
                retries.again(error).await?;
            }
        }
    }
}

/// The dictionaries that those of an append continue: of the first version of `known` with the columns that were staged.
fn dictionaries_to_continue(
    known: [Option<&Snapshot>; 2],
    schema: &Schema,
    mode: WriteMode,
) -> Result<Dictionaries> {
    let (Some(newest), WriteMode::Append) = (known[0].or(known[1]), mode) else {
        return Ok(Dictionaries::new());
    };
    let mut known = known.into_iter().flatten();
    let table = known.find(|it| columns(it.schema()) == columns(schema));
    let table = table.ok_or_else(|| other_columns(newest))?;
    Ok(table.dictionaries().clone())
}

/// Removes the files of staged fragments that were written again, unless a version names them: then they were committed
/// twice, once as they were.
async fn remove_replaced(
    store: &Store,
    staged: &[StagedFragments],
    joined: &Joined,
    committed: &Committed,
) {
    let mut replaced = joined.replaced.clone();
    if replaced.is_empty() {
        return;
    }
    let before = staged.iter().map(|one| one.read_version).min();
    let since = before.unwrap_or_default().saturating_add(1)..committed.snapshot.version();
    if since.end.saturating_sub(since.start) > MAX_VERSIONS_READ {
        return;
    }
    for version in since {
        match Snapshot::at_version(store, version).await {
            Ok(snapshot) => {
                let named = snapshot.manifest().files();
                replaced.retain(|file| !named.contains(file));
            }
            // Cleaned up: it names no file any more.
            Err(Error::NotFound { .. }) => {}
            Err(error) => return event::replaced_files_left(store, version, &error),
        }
    }
    // The commit happened, so its result must be returned: of the faults that a test injects here, only the end of the
    // process counts.
    if let Err(error) = pass(store, "staged.before_removal") {
        return event::replaced_files_left(store, committed.snapshot.version(), &error);
    }
    remove_files(store, &replaced).await;
}

/// Commits fragments by the mode of `options`: what [`crate::write()`] does after the files are written.
///
/// `base` is the version that the fragments were written for. The data files stay in any case: after an
/// error other than [`Error::CommitUnknown`], or a commit that was made before, [`StagedFragments::discard`] them.
///
/// # Errors
/// As [`commit`].
pub async fn commit_fragments(
    store: &Store,
    base: Option<Snapshot>,
    new: StagedFragments,
    options: &WriteOptions,
) -> Result<Committed> {
    commit_joined(store, base, new, &[], options).await
}

/// As [`commit_fragments`]; `replaced` are the staged files that `new` has under other names.
async fn commit_joined(
    store: &Store,
    base: Option<Snapshot>,
    new: StagedFragments,
    replaced: &[String],
    options: &WriteOptions,
) -> Result<Committed> {
    let commit_options = |must_create, compat| CommitOptions {
        retries: options.retries,
        commit_id: options.commit_id.clone(),
        must_create,
        stable_row_ids: options.stable_row_ids,
        dictionaries: new.dictionaries.clone(),
        expect: options.expect.clone(),
        compat,
    };
    let mut properties = options.properties.clone();
    replaced_files::list(&mut properties, replaced);
    let transaction = |read_version, operation| Transaction {
        properties: properties.clone(),
        ..Transaction::new(read_version, operation)
    };
    let append = |base: &Snapshot| {
        let operation = Operation::Append {
            fragments: new.fragments.clone(),
        };
        transaction(base.version(), operation)
    };
    if let Some(base) = base.as_ref().filter(|_| options.mode == WriteMode::Append) {
        check_fits(&new, base)?;
        let commit_options = commit_options(false, options.new_compat());
        return commit(store, Some(base), append(base), &commit_options).await;
    }
    let metadata = new
        .schema
        .metadata_protos()
        .into_iter()
        .map(|(k, v)| (k, Bytes::from(v)));
    let operation = Operation::Overwrite {
        fragments: new.fragments.clone(),
        fields: new.schema.to_protos()?,
        schema_metadata: metadata.collect(),
        config_upserts: BTreeMap::new(),
    };
    // An append to a missing table creates it, and must not replace a table that was created meanwhile.
    let must_create = options.mode != WriteMode::Overwrite;
    let read_version = base.as_ref().map_or(0, Snapshot::version);
    let creation = transaction(read_version, operation);
    // Nothing is appended here: the table that is made has the compat that was asked for.
    let commit_creation = commit_options(must_create, options.compat);
    let result = commit(store, base.as_ref(), creation, &commit_creation).await;
    match result {
        Err(Error::AlreadyExists { .. }) if options.mode == WriteMode::Append => {
            let base = Snapshot::newest(store).await?;
            check_fits(&new, &base)?;
            let commit_options = commit_options(false, options.new_compat());
            commit(store, Some(&base), append(&base), &commit_options).await
        }
        result => result,
    }
}

/// Checks that the columns of `base` have the ids that the fragments were written with, and that its dictionaries begin
/// theirs.
fn check_fits(new: &StagedFragments, base: &Snapshot) -> Result<()> {
    if columns(&new.schema) != columns(base.schema()) {
        return Err(other_columns(base));
    }
    let diverged = new.dictionaries.iter().find(|(id, values)| {
        let have = base.dictionaries().get(id);
        have.is_some_and(|have| longer(have, values).is_none())
    });
    let Some((id, _)) = diverged else {
        return Ok(());
    };
    let field = base.schema().field_by_id(*id);
    Err(Error::Conflict {
        uri: base.uri().to_owned(),
        ours: "Append",
        theirs: "Overwrite",
        version: base.version(),
        reason: Reason::Dictionary(field.map_or_else(String::new, |field| field.name.clone())),
        retryable: true,
    })
}

/// Checks that staged fragments have the columns of `base`, with the same ids.
pub(crate) fn check_staged(staged: &[StagedFragments], base: &Snapshot) -> Result<()> {
    let expected = columns(base.schema());
    match staged.iter().all(|one| columns(&one.schema) == expected) {
        true => Ok(()),
        false => Err(other_columns(base)),
    }
}

/// Removes the files of staged fragments that will not be committed. Files that a version since they were staged names stay,
/// and so do all files if more than `MAX_VERSIONS_READ` versions were committed since: a cleanup removes them. Returns how
/// many were removed.
///
/// # Errors
/// As [`Snapshot::at_version`], when a version since cannot be read.
pub async fn discard_staged(store: &Store, staged: &[StagedFragments]) -> Result<usize> {
    let mut files: Vec<String> = staged.iter().flat_map(StagedFragments::paths).collect();
    let oldest = staged.iter().map(|one| one.read_version).min();
    let first = oldest.unwrap_or_default().saturating_add(1);
    let newest = Snapshot::try_newest(store).await?;
    let last = newest.as_ref().map_or(0, Snapshot::version);
    if last.saturating_sub(first) >= MAX_VERSIONS_READ {
        return Ok(0);
    }
    for version in first..=last {
        match Snapshot::at_version(store, version).await {
            Ok(snapshot) => {
                let named = snapshot.manifest().files();
                files.retain(|file| !named.contains(file));
            }
            // Cleaned up: it names no file any more.
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    remove_files(store, &files).await;
    Ok(files.len())
}

/// Name, type and nullability of every field at every depth, by field id.
fn columns(schema: &Schema) -> BTreeMap<i32, (&str, &DataType, bool)> {
    let fields = schema.walk();
    fields
        .map(|it| (it.id, (it.name.as_str(), &it.data_type, it.nullable)))
        .collect()
}

fn other_columns(base: &Snapshot) -> Error {
    Error::invalid(
        "written fragments",
        format!(
            "have other columns than version {} of {}; write their rows again",
            base.version(),
            base.uri()
        ),
    )
}
