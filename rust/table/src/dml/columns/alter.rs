//! Renaming columns, converting them to another type, and changing whether they may be null.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use pilum_expr::{AdaptOptions, Conversion};
use pilum_format::{Field, FieldId, Operation, Schema};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::backfill::{NewColumns, WrittenFiles, backfill};
use super::inspect::inspect;
use super::retype::Retyping;
use super::{ColumnsOutcome, tree};
use crate::commit::{Committed, Work, commit_work};
use crate::dataset::Dataset;
use crate::dml::assigned_values::EXTENSION_KEYS;
use crate::dml::outcome::StatementOutcome;
use crate::dml::statement::StatementOptions;
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;

/// A change of one column.
#[derive(Debug, Clone, Default)]
pub struct ColumnChange {
    /// The column; `a.b` is member `b` of struct `a`, or item `b` of list `a`.
    pub path: String,
    /// Its new name.
    pub name: Option<String>,
    /// Its new type, with the metadata of extension types; the name and nullability of this field mean nothing.
    pub field: Option<ArrowField>,
    /// Whether it may be null.
    pub nullable: Option<bool>,
}

impl Dataset {
    /// Changes columns of the newest version. A new name, or another nullability, is a change of the schema alone. A new type
    /// rewrites the values of that column, or of the list that the field lies in, and of no other column; every value is kept,
    /// by the rules of [`pilum_expr::rule`]. So does another nullability where files of Lance v1 cannot tell a null from an
    /// empty text.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown column or bad name, an unsupported conversion or one that would change a value (with
    /// column, row and value), a null in a column that is to forbid nulls (with the row); `Conflict` when another commit
    /// forbids this one; see [`commit`](crate::commit()). Unless the error is `CommitUnknown`, nothing was changed.
    pub async fn alter_columns(
        &self,
        changes: &[ColumnChange],
        options: &StatementOptions,
        handle: &Handle,
    ) -> Result<ColumnsOutcome> {
        let written = Mutex::new(WrittenFiles::default());
        let kept = &written;
        let once = |base| async move {
            let mut written = kept.lock().await;
            alter(&base, changes, &mut written, options, handle).await
        };
        let result = options.execute(self, "Merge", once).await;
        written
            .into_inner()
            .remove_unused(self.store(), &result)
            .await;
        result
    }
}

/// One execution of the statement.
async fn alter(
    base: &Snapshot,
    changes: &[ColumnChange],
    written: &mut WrittenFiles,
    options: &StatementOptions,
    handle: &Handle,
) -> Result<ColumnsOutcome> {
    let old = base.schema();
    let mut targets = BTreeMap::new();
    for change in changes {
        let target = Target::new(base, change)?;
        let id = *target.ids.last().unwrap_or(&-1);
        if targets.insert(id, target).is_some() {
            let reason = "is changed twice; change it once";
            return Err(Error::invalid(format!("column `{}`", change.path), reason));
        }
    }
    let mut rewritten = BTreeSet::new();
    for target in targets.values() {
        if target.is_below_another(&targets) {
            let reason = "lies in a column whose type is changed too; change one of them";
            return Err(Error::invalid(format!("column `{}`", target.path), reason));
        }
        if target.must_be_rewritten(base).await? {
            rewritten.insert(target.unit(base)?);
        }
    }
    // A field that is rewritten as part of an outer one is not rewritten by itself.
    for target in targets.values() {
        if let Some(outer) = target.ids.iter().position(|id| rewritten.contains(id)) {
            for id in &target.ids[outer + 1..] {
                rewritten.remove(id);
            }
        }
    }
    let mut schema = tree::map(old, &|field| match targets.get(&field.id) {
        Some(target) => target.apply(field),
        None => field,
    });
    tree::check_names(&schema.fields)?;
    if schema == **old && rewritten.is_empty() {
        return Ok(ColumnsOutcome::without_rows(Committed::nothing(
            base.clone(),
        )));
    }
    let preserves_nullability = !targets.values().any(Target::changes_what_may_be_written);
    if rewritten.is_empty() {
        let operation = Operation::Project {
            fields: schema.to_protos()?,
            preserves_nullability,
        };
        let work = Work::of(options.transaction(base.version(), operation));
        let committed = commit_work(base.store(), Some(base), work, &options.commit()).await?;
        return Ok(ColumnsOutcome::without_rows(committed));
    }
    let mut next_id = base.manifest().next_field_id();
    let mut new_ids = BTreeSet::new();
    for field in &mut schema.fields {
        renumber(field, &rewritten, &mut next_id, &mut new_ids)?;
    }
    let renamed = tree::map(old, &|field| match targets.get(&field.id) {
        Some(target) => target.rename(field),
        None => field,
    });
    let new = tree::only(&schema, &new_ids);
    let retyping = Retyping::new(base, &renamed, &new, &rewritten)?;
    let columns = NewColumns {
        stored: Arc::new(new),
        schema,
        preserves_nullability,
    };
    let values = |fragments| retyping.values(base, fragments, options, handle);
    backfill(base, columns, values, written, options).await
}

/// One change, with the field that it names.
struct Target {
    path: String,
    /// From the column of the table down to the field.
    ids: Vec<FieldId>,
    old: Field,
    name: Option<String>,
    /// The field in its new type, if that is another one.
    retyped: Option<Field>,
    nullable: bool,
}

impl Target {
    fn new(base: &Snapshot, change: &ColumnChange) -> Result<Self> {
        let schema = base.schema();
        let ids = tree::find(schema, &change.path)?;
        let id = *ids.last().unwrap_or(&-1);
        let old = tree::path_of(schema, id)?.1.clone();
        if let Some(name) = &change.name {
            tree::check_new_name(name)?;
        }
        let nullable = change.nullable.unwrap_or(old.nullable);
        let retyped = match &change.field {
            Some(field) => retyped(&old, field, &change.path, base.uri())?,
            None => None,
        };
        Ok(Self {
            path: change.path.clone(),
            ids,
            old,
            name: change.name.clone(),
            retyped,
            nullable,
        })
    }

    fn apply(&self, field: Field) -> Field {
        let named = self.rename(field);
        Field {
            id: named.id,
            name: named.name.clone(),
            nullable: self.nullable,
            ..self.retyped.clone().unwrap_or(named)
        }
    }

    /// The field under its new name, and otherwise as it was.
    fn rename(&self, field: Field) -> Field {
        Field {
            name: self.name.clone().unwrap_or_else(|| field.name.clone()),
            ..field
        }
    }

    /// Whether rows that are written concurrently, for the field as it was, may get another meaning: a null in a field that
    /// forbids nulls now, or an empty text that reads as null in a field that is nullable now.
    fn changes_what_may_be_written(&self) -> bool {
        use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
        let is_text = matches!(
            self.old.data_type,
            Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView
        );
        match (self.old.nullable, self.nullable) {
            (true, false) => true,
            (false, true) => is_text,
            _ => false,
        }
    }

    fn is_below_another(&self, targets: &BTreeMap<FieldId, Self>) -> bool {
        let above = self.ids.split_last().map_or(&[][..], |(_, above)| above);
        let retyped = |id: &FieldId| targets.get(id).is_some_and(|it| it.retyped.is_some());
        above.iter().any(retyped)
    }

    /// The field that is rewritten: this one; or the list around it, because only structs can be spread over files; or a
    /// struct around it that is the first field of a file, because the first field id of a file cannot be replaced, and no
    /// two files may hold the struct.
    fn unit(&self, base: &Snapshot) -> Result<FieldId> {
        let files = base.fragments().iter().flat_map(|it| &it.files);
        let first_ids: BTreeSet<FieldId> = files
            .filter_map(|it| it.field_ids.first().copied())
            .collect();
        for id in &self.ids {
            let field = tree::path_of(base.schema(), *id)?.1;
            if !tree::is_struct(field) || first_ids.contains(id) {
                return Ok(*id);
            }
        }
        Ok(self.old.id)
    }

    /// Whether the stored values must be rewritten. Refuses nulls in a field that is to forbid them.
    async fn must_be_rewritten(&self, base: &Snapshot) -> Result<bool> {
        let is_retyped = self.retyped.is_some();
        if self.nullable == self.old.nullable {
            return Ok(is_retyped);
        }
        let column = self.ids.first().copied().into_iter().collect();
        let unit = BTreeSet::from([self.unit(base)?]);
        let cut = tree::only(base.schema(), &unit);
        let cut = if cut.fields.is_empty() {
            tree::only(base.schema(), &column)
        } else {
            cut
        };
        let found = inspect(base, &cut, &self.ids).await?;
        if self.nullable {
            // In Lance v1 an empty text is a value in a field that forbids nulls, and null in a nullable one.
            return Ok(is_retyped || found.has_empty);
        }
        match found.null_row {
            Some(row) => Err(Error::invalid(
                format!("{}: column `{}`", base.uri(), self.path),
                format!("row {row} is null; give it a value or delete it, then forbid nulls"),
            )),
            None => Ok(is_retyped || found.has_hidden_null),
        }
    }
}

/// The field in another type; `None` if it has that type already.
fn retyped(old: &Field, to: &ArrowField, path: &str, uri: &str) -> Result<Option<Field>> {
    if old.data_type == *to.data_type() {
        return Ok(None);
    }
    let from = old.to_arrow().with_name(path).with_nullable(true);
    let target = to.clone().with_name(path).with_nullable(true);
    Conversion::new(&from, &target, AdaptOptions::default()).map_err(|mut error| {
        "add a column with an expression, such as CAST, instead".clone_into(&mut error.remedy);
        Error::invalid(uri, error.to_string())
    })?;
    let kept = old.metadata.iter();
    let kept = kept.filter(|(key, _)| !key.starts_with(EXTENSION_KEYS));
    let metadata = kept.map(|(key, value)| (key.clone(), value.clone()));
    let metadata = metadata.chain(to.metadata().clone());
    let metadata: HashMap<String, String> = metadata.collect();
    let field = ArrowField::new(&old.name, to.data_type().clone(), old.nullable);
    let field = field.with_metadata(metadata);
    let made = Schema::from_arrow(&ArrowSchema::new(vec![field]), 0)?;
    Ok(made.fields.into_iter().next())
}

/// Gives new ids to the fields that are rewritten, and adds them to `new_ids`.
fn renumber(
    field: &mut Field,
    rewritten: &BTreeSet<FieldId>,
    next_id: &mut FieldId,
    new_ids: &mut BTreeSet<FieldId>,
) -> Result<()> {
    if rewritten.contains(&field.id) {
        tree::renumber(field, next_id)?;
        new_ids.insert(field.id);
        return Ok(());
    }
    if tree::is_struct(field) {
        for child in &mut field.children {
            renumber(child, rewritten, next_id, new_ids)?;
        }
    }
    Ok(())
}
