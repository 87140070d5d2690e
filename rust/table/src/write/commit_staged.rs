//! Making written files part of a table: one version for all pieces of a write.

use std::collections::BTreeMap;

use arrow_schema::DataType;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use pilum_format::Dictionaries;
use pilum_format::{Operation, Reason, Schema, Transaction, longer};
use pilum_store::Store;

use super::join::{Joined, join, one_schema};
use super::options::{WriteMode, WriteOptions, Written};
use super::staged::StagedFragments;
use crate::commit::retry::Retries;
use crate::commit::{CommitOptions, Committed, commit, commit_id, replaced_files};
use crate::error::{Error, Result};
use crate::failpoints::pass;
use crate::read::snapshot::Snapshot;
use crate::versions::durable_put::remove_files;

/// When so many versions came since a piece was written, files that nobody needs any more are left to a cleanup.
const MOST_VERSIONS_LOOKED_AT: u64 = 100;
/// Files that are asked for at once.
const FILES_LOOKED_AT: usize = 16;

/// Commits what several processes wrote with one schema, in the order given: all of it in one version, or none.
///
/// A table has one dictionary for each column. Pieces whose dictionaries do not go together are written again with
/// other keys; their old files are removed once the new ones are committed. The files of all other pieces stay whatever
/// happens, and after an error all of them do: [`StagedFragments::discard`] what is given up.
///
/// `base` is the version that the pieces were written for. A piece is committed once: use a commit id to ask again.
///
/// # Errors
/// [`Error::InvalidInput`] if there is no piece, a file of one is not there, schemas differ, or dictionaries cannot be
/// joined: all keys taken, or an order that the values of an ordered dictionary contradict; [`Error::Corrupt`] for a file
/// of another size than it was written with; else as [`crate::commit()`].
pub async fn commit_pieces(
    store: &Store,
    base: Option<Snapshot>,
    pieces: &[StagedFragments],
    options: &WriteOptions,
) -> Result<Written> {
    if let Some(snapshot) = commit_id::of(store, options.commit_id.as_deref()).await? {
        return Ok(Written::before(snapshot));
    }
    if let Err(error) = check_files(store, pieces).await {
        let id = options.commit_id.as_deref();
        // Another call with this id may be done, and have taken files that it replaced.
        let before = commit_id::instead_of(store, id, 0, error).await;
        return before.map(Written::before);
    }
    let has_dictionaries = pieces.iter().any(|piece| !piece.dictionaries.is_empty());
    let newest = match options.mode {
        // Values that came since the base would make them all be written again.
        WriteMode::Append if has_dictionaries => Snapshot::try_newest(store).await?,
        _ => None,
    };
    let table = newest.or_else(|| base.clone());
    publish(store, base.as_ref(), table, pieces, options).await
}

/// The files of pieces come from elsewhere: a version that names one that is not there could not be read.
async fn check_files(store: &Store, pieces: &[StagedFragments]) -> Result<()> {
    let fragments = pieces.iter().flat_map(|piece| &piece.fragments);
    let files = fragments.flat_map(|it| &it.files);
    let files: Vec<(String, u64)> = files.map(|it| (it.full_path(), it.byte_len)).collect();
    let checks = files.into_iter().map(|(path, byte_len)| async move {
        match store.stat(&path).await {
            // A size of 0 is one that nobody knows.
            Ok(found) if byte_len == 0 || byte_len == found.size => Ok(()),
            Ok(found) => {
                let reason = format!(
                    "the file has {} bytes, and was written with {byte_len}; write its piece again",
                    found.size
                );
                Err(Error::corrupt(reason).at(format!("{}/{path}", store.uri())))
            }
            Err(error) if error.is_not_found() => Err(Error::invalid(
                "written fragments",
                format!(
                    "{path} is not in the table at {}; write the piece again, to this table",
                    store.uri()
                ),
            )),
            Err(error) => Err(error.into()),
        }
    });
    let mut checks = stream::iter(checks).buffered(FILES_LOOKED_AT);
    while let Some(checked) = checks.next().await {
        checked?;
    }
    Ok(())
}

/// As [`commit_pieces`]; `table` is the version whose dictionaries those of an append go on from at first.
pub(super) async fn publish(
    store: &Store,
    base: Option<&Snapshot>,
    table: Option<Snapshot>,
    pieces: &[StagedFragments],
    options: &WriteOptions,
) -> Result<Written> {
    match try_publish(store, base, table, pieces, options).await {
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
    pieces: &[StagedFragments],
    options: &WriteOptions,
) -> Result<Written> {
    let schema = one_schema(pieces)?;
    let mut turns = Retries::new(store, options.retries);
    loop {
        let joined_to = before([table.as_ref(), base], schema, options.mode)?;
        let joined = join(store, &joined_to, schema, pieces, options).await?;
        let new = joined.new.clone();
        let committed = commit_joined(store, base.cloned(), new, &joined.replaced, options).await;
        match committed {
            Ok(committed) if committed.was_committed_before => {
                remove_files(store, &joined.written).await;
                return Ok(Written::before(committed.snapshot));
            }
            Ok(committed) => {
                remove_replaced(store, pieces, &joined, &committed).await;
                return Ok(Written {
                    snapshot: committed.snapshot,
                    num_rows: joined.new.num_rows,
                    num_bytes: joined.new.num_bytes,
                    attempts: committed.attempts,
                    was_committed_before: false,
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
                if before([table.as_ref(), base], schema, options.mode)? == joined_to {
                    // The values that came are out of sight, and would be in the way again.
                    return Err(error);
                }
                // The rows are in the files: their keys alone have to be others. The base stays, so that nothing
                // that came since goes unchecked.
                turns.again(error).await?;
            }
        }
    }
}

/// The dictionaries that those of an append go on from: of the first of `known` that has the columns of the pieces.
fn before(known: [Option<&Snapshot>; 2], schema: &Schema, mode: WriteMode) -> Result<Dictionaries> {
    let (Some(newest), WriteMode::Append) = (known[0].or(known[1]), mode) else {
        return Ok(Dictionaries::new());
    };
    let mut known = known.into_iter().flatten();
    let table = known.find(|it| columns(it.schema()) == columns(schema));
    let table = table.ok_or_else(|| other_columns(newest))?;
    Ok(table.dictionaries().clone())
}

/// Removes the files of pieces that were written again. What somebody committed as it was, contrary to the rule that a
/// piece is committed once, stays.
async fn remove_replaced(
    store: &Store,
    pieces: &[StagedFragments],
    joined: &Joined,
    committed: &Committed,
) {
    let mut replaced = joined.replaced.clone();
    if replaced.is_empty() {
        return;
    }
    let before = pieces.iter().map(|piece| piece.read_version).min();
    let since = before.unwrap_or_default().saturating_add(1)..committed.snapshot.version();
    if since.end.saturating_sub(since.start) > MOST_VERSIONS_LOOKED_AT {
        return;
    }
    for version in since {
        match Snapshot::at_version(store, version).await {
            Ok(snapshot) => {
                let named = snapshot.manifest().files();
                replaced.retain(|file| !named.contains(file));
            }
            // Cleaned up: it names nothing any more.
            Err(Error::NotFound { .. }) => {}
            Err(_) => return,
        }
    }
    // The commit happened: only the end of the process can come between.
    let _ = pass(store, "pieces.before_removal");
    remove_files(store, &replaced).await;
}

/// Commits fragments by the mode of `options`: what [`crate::write()`] does after the files are written.
///
/// `base` is the version that the fragments were written for. The data files stay whatever happens: after an
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
    let commit_options = |must_create| CommitOptions {
        retries: options.retries,
        commit_id: options.commit_id.clone(),
        must_create,
        stable_row_ids: options.stable_row_ids,
        dictionaries: new.dictionaries.clone(),
        expect: options.expect.clone(),
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
        return commit(store, Some(base), append(base), &commit_options(false)).await;
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
    // An append to nothing is a creation, and must not replace what somebody created meanwhile.
    let must_create = options.mode != WriteMode::Overwrite;
    let read_version = base.as_ref().map_or(0, Snapshot::version);
    let creation = transaction(read_version, operation);
    let result = commit(store, base.as_ref(), creation, &commit_options(must_create)).await;
    match result {
        Err(Error::AlreadyExists { .. }) if options.mode == WriteMode::Append => {
            let base = Snapshot::newest(store).await?;
            check_fits(&new, &base)?;
            commit(store, Some(&base), append(&base), &commit_options(false)).await
        }
        result => result,
    }
}

/// Fragments can be added to a table whose columns have the ids that they were written with.
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

/// Name, type and nullability of every column, nested ones too, by field id.
fn columns(schema: &Schema) -> BTreeMap<i32, (&str, &DataType, bool)> {
    let fields = schema.walk();
    fields
        .map(|it| (it.id, (it.name.as_str(), &it.data_type, it.nullable)))
        .collect()
}

fn other_columns(base: &Snapshot) -> Error {
    Error::invalid(
        "the data do not fit the table",
        format!(
            "they were written for other columns than those of version {} of {}; write them again",
            base.version(),
            base.uri()
        ),
    )
}
