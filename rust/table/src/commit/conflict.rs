//! Which commits conflict. [`CONFLICT_MATRIX`] has a rule for every pair of operations; the functions below it evaluate the
//! rules that depend on the contents of the operations.

use std::collections::BTreeSet;

use pilum_format::proto::table::IndexMetadata;
use pilum_format::{ConfigUpdate, MapUpdate, Operation, OperationKind, Reason, RewriteGroup};
use roaring::RoaringBitmap;

/// What follows for a transaction from another one that was committed after the version it is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No conflict: it is committed unchanged, on top of the new version.
    Ok,
    /// The statement must be executed again on the new version.
    Retry(Reason),
    /// The two operations exclude each other, or the transaction of the new version cannot be read. A retry would not help.
    Incompatible(Reason),
}

/// A cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// No conflict.
    Ok,
    /// The statement must be executed again.
    Retry,
    /// Always a conflict that a retry cannot solve.
    Incompatible,
    /// Together if they touch different fragments, else redo.
    Fragments,
    /// Together if the projection made no column non-nullable, else redo.
    Nullability,
    /// Incompatible if both touch a config key.
    ConfigKey,
    /// Redo if metadata of the schema or a field is edited.
    SchemaEditRetry,
    /// Incompatible if metadata of the schema or a field is edited.
    SchemaEditIncompatible,
    /// Incompatible if both touch a key, or both edit the schema's or one field's metadata.
    TwoEdits,
    /// Incompatible if the delete removed a replaced fragment.
    FragmentRemoved,
    /// Together if they touch different fragments or different fields, else redo.
    FragmentsAndFields,
    /// Redo if the index covers a rewritten fragment.
    IndexCovers,
    /// Redo if the index is on a replaced field.
    IndexField,
}

/// Row: the operation to commit. Column: the one that was committed since the row's read version. Both are in the order
/// of [`OperationKind::ALL`].
pub const CONFLICT_MATRIX: [[Rule; OperationKind::ALL.len()]; OperationKind::ALL.len()] = {
    use Rule::{
        ConfigKey as Key, Fragments as Frag, FragmentsAndFields as FrFl, IndexCovers as IxCv,
        IndexField as IxFl, Nullability as Null, SchemaEditIncompatible as EdX,
        SchemaEditRetry as EdR, TwoEdits as TwEd,
    };
    const OK__: Rule = Rule::Ok;
    const RTRY: Rule = Rule::Retry;
    const XXXX: Rule = Rule::Incompatible;
    const GONE: Rule = Rule::FragmentRemoved;
    #[rustfmt::skip]
    let matrix = [
        //             App.  Over. Del.  Upd.  Merge Proj. Rest. Rewr. Conf. Data  Index Resv.
        /* Append   */ [OK__, XXXX, OK__, OK__, RTRY, Null, XXXX, OK__, OK__, OK__, OK__, OK__],
        /* Overwrite*/ [OK__, RTRY, OK__, OK__, OK__, OK__, OK__, OK__, Key,  OK__, OK__, OK__],
        /* Delete   */ [OK__, XXXX, Frag, Frag, RTRY, OK__, XXXX, Frag, OK__, Frag, OK__, OK__],
        /* Update   */ [OK__, XXXX, Frag, Frag, RTRY, Null, XXXX, Frag, OK__, Frag, OK__, OK__],
        /* Merge    */ [RTRY, XXXX, RTRY, RTRY, RTRY, XXXX, XXXX, RTRY, EdR,  RTRY, OK__, OK__],
        /* Project  */ [Null, XXXX, OK__, Null, RTRY, RTRY, XXXX, OK__, OK__, Null, OK__, OK__],
        /* Restore  */ [OK__, OK__, OK__, OK__, OK__, OK__, OK__, OK__, EdX,  OK__, OK__, OK__],
        /* Rewrite  */ [OK__, XXXX, Frag, Frag, RTRY, OK__, XXXX, Frag, OK__, Frag, IxCv, OK__],
        /* Config   */ [OK__, EdX,  OK__, OK__, EdR,  OK__, EdX,  OK__, TwEd, OK__, OK__, OK__],
        /* DataRepl */ [OK__, XXXX, GONE, Frag, RTRY, Null, XXXX, Frag, OK__, FrFl, IxFl, OK__],
        /* Index    */ [OK__, XXXX, OK__, OK__, OK__, OK__, XXXX, IxCv, OK__, IxFl, OK__, OK__],
        /* Reserve  */ [OK__, XXXX, OK__, OK__, OK__, OK__, XXXX, OK__, OK__, OK__, OK__, OK__],
    ];
    matrix
};

/// Whether `ours` can be committed over `theirs`, which it did not know of.
#[must_use]
pub fn check(ours: &Operation, theirs: &Operation) -> Outcome {
    let (Some(row), Some(column)) = (ours.kind(), theirs.kind()) else {
        return Outcome::Incompatible(Reason::UnknownTransaction);
    };
    let retry_if = |reason: Option<Reason>| reason.map_or(Outcome::Ok, Outcome::Retry);
    let fail_if = |reason: Option<Reason>| reason.map_or(Outcome::Ok, Outcome::Incompatible);
    match CONFLICT_MATRIX[row as usize][column as usize] {
        Rule::Ok => Outcome::Ok,
        Rule::Retry => Outcome::Retry(Reason::Operations),
        Rule::Incompatible => Outcome::Incompatible(Reason::Operations),
        Rule::Fragments => retry_if(shared_fragments(ours, theirs)),
        Rule::Nullability => retry_if(lost_nullability(ours, theirs)),
        Rule::ConfigKey => fail_if(shared_config_key(ours, theirs)),
        Rule::SchemaEditRetry => retry_if(schema_edit(ours, theirs)),
        Rule::SchemaEditIncompatible => fail_if(schema_edit(ours, theirs)),
        Rule::TwoEdits => fail_if(two_edits(ours, theirs)),
        Rule::FragmentRemoved => fail_if(removed_fragment(ours, theirs)),
        Rule::FragmentsAndFields => retry_if(shared_columns(ours, theirs)),
        Rule::IndexCovers => retry_if(covered_rewrite(ours, theirs)),
        Rule::IndexField => retry_if(indexed_replacement(ours, theirs)),
    }
}

/// The fragments whose rows an operation changes.
pub(crate) fn touched_fragments(operation: &Operation) -> BTreeSet<u64> {
    match operation {
        Operation::Delete {
            updated,
            removed_ids,
            ..
        }
        | Operation::Update {
            updated,
            removed_ids,
            ..
        } => updated
            .iter()
            .map(|fragment| fragment.id)
            .chain(removed_ids.iter().copied())
            .collect(),
        Operation::Rewrite { groups, .. } => rewritten(groups).collect(),
        Operation::DataReplacement { replacements } => replacements
            .iter()
            .map(|(fragment_id, _)| *fragment_id)
            .collect(),
        _ => BTreeSet::new(),
    }
}

fn rewritten(groups: &[RewriteGroup]) -> impl Iterator<Item = u64> + '_ {
    groups
        .iter()
        .flat_map(|group| &group.old)
        .map(|fragment| fragment.id)
}

fn shared_fragments(ours: &Operation, theirs: &Operation) -> Option<Reason> {
    let theirs = touched_fragments(theirs);
    let shared: Vec<u64> = touched_fragments(ours)
        .intersection(&theirs)
        .copied()
        .collect();
    (!shared.is_empty()).then_some(Reason::Fragments(shared))
}

/// A projection among the two that made a column non-nullable.
fn lost_nullability(ours: &Operation, theirs: &Operation) -> Option<Reason> {
    let lost = |it: &Operation| {
        matches!(
            it,
            Operation::Project {
                preserves_nullability: false,
                ..
            }
        )
    };
    (lost(ours) || lost(theirs)).then_some(Reason::Nullability)
}

fn update(operation: &Operation) -> Option<&ConfigUpdate> {
    match operation {
        Operation::UpdateConfig(update) => Some(update),
        _ => None,
    }
}

/// A key that both edit, at least one of them setting it. Clearing a map touches every key.
fn shared_key(a: &MapUpdate, b: &MapUpdate) -> Option<Reason> {
    let clash = |a: &MapUpdate, b: &MapUpdate| {
        let mut entries = a.entries.iter();
        let clash = entries.find(|(key, value)| match b.entries.get(*key) {
            Some(theirs) => value.is_some() || theirs.is_some(),
            None => b.replace && value.is_some(),
        });
        clash.map(|(key, _)| Reason::Key(key.clone()))
    };
    clash(a, b).or_else(|| clash(b, a))
}

fn shared_config_key(ours: &Operation, theirs: &Operation) -> Option<Reason> {
    let Operation::Overwrite { config_upserts, .. } = ours else {
        return None;
    };
    let set = config_upserts
        .iter()
        .map(|(key, value)| (key.clone(), Some(value.clone())));
    let ours = MapUpdate {
        entries: set.collect(),
        replace: false,
    };
    shared_key(&ours, &update(theirs)?.config)
}

fn edits_schema(update: &ConfigUpdate) -> bool {
    !update.schema_metadata.is_empty() || !update.field_metadata.is_empty()
}

fn schema_edit(ours: &Operation, theirs: &Operation) -> Option<Reason> {
    let update = update(ours).or_else(|| update(theirs))?;
    edits_schema(update).then_some(Reason::SchemaMetadata)
}

fn two_edits(ours: &Operation, theirs: &Operation) -> Option<Reason> {
    let (ours, theirs) = (update(ours)?, update(theirs)?);
    let schema = !ours.schema_metadata.is_empty() && !theirs.schema_metadata.is_empty();
    let field = ours
        .field_metadata
        .keys()
        .any(|id| theirs.field_metadata.contains_key(id));
    shared_key(&ours.config, &theirs.config)
        .or_else(|| shared_key(&ours.table_metadata, &theirs.table_metadata))
        .or_else(|| (schema || field).then_some(Reason::SchemaMetadata))
}

fn removed_fragment(ours: &Operation, theirs: &Operation) -> Option<Reason> {
    let Operation::Delete { removed_ids, .. } = theirs else {
        return None;
    };
    let ours = touched_fragments(ours);
    removed_ids
        .iter()
        .copied()
        .find(|id| ours.contains(id))
        .map(Reason::FragmentRemoved)
}

fn shared_columns(ours: &Operation, theirs: &Operation) -> Option<Reason> {
    let (
        Operation::DataReplacement { replacements: ours },
        Operation::DataReplacement {
            replacements: theirs,
        },
    ) = (ours, theirs)
    else {
        return None;
    };
    let shared = ours.iter().find(|(id, file)| {
        theirs.iter().any(|(their_id, their_file)| {
            id == their_id && file.has_any(|field| their_file.field_ids.contains(&field))
        })
    });
    shared.map(|(id, _)| Reason::Fragments(vec![*id]))
}

fn added_indices(operation: &Operation) -> &[IndexMetadata] {
    match operation {
        Operation::CreateIndex { added, .. } => added,
        _ => &[],
    }
}

fn covered_rewrite(ours: &Operation, theirs: &Operation) -> Option<Reason> {
    let (index, rewrite) = match ours {
        Operation::CreateIndex { .. } => (ours, theirs),
        _ => (theirs, ours),
    };
    let Operation::Rewrite { groups, .. } = rewrite else {
        return None;
    };
    let covered = added_indices(index).iter().find(|index| {
        // Without a readable bitmap the index may cover anything.
        let Some(covered) = covered_fragments(index) else {
            return true;
        };
        rewritten(groups).any(|id| u32::try_from(id).is_ok_and(|id| covered.contains(id)))
    });
    covered.map(|index| Reason::Index(index.name.clone()))
}

/// The fragments that an index covers, if it says.
pub(crate) fn covered_fragments(index: &IndexMetadata) -> Option<RoaringBitmap> {
    if index.fragment_bitmap.is_empty() {
        return None;
    }
    RoaringBitmap::deserialize_from(index.fragment_bitmap.as_ref()).ok()
}

fn indexed_replacement(ours: &Operation, theirs: &Operation) -> Option<Reason> {
    let (index, replacement) = match ours {
        Operation::CreateIndex { .. } => (ours, theirs),
        _ => (theirs, ours),
    };
    let Operation::DataReplacement { replacements } = replacement else {
        return None;
    };
    let indexed = added_indices(index).iter().find(|index| {
        replacements
            .iter()
            .any(|(_, file)| file.has_any(|field| index.fields.contains(&field)))
    });
    indexed.map(|index| Reason::Index(index.name.clone()))
}

#[cfg(test)]
mod tests;
