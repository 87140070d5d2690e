//! Renaming columns, converting them to another type, and changing whether they may be null.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef};
use futures::stream::StreamExt;
use pilum_format::{Field, FieldId, Operation, Schema, type_name};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::backfill::{NewColumns, Values, WrittenFiles, backfill};
use super::cast::{CastError, Misfit, can_cast, convert};
use super::inspect::inspect;
use super::{ColumnsOutcome, tree};
use crate::commit::{Committed, Work, commit_work};
use crate::dataset::Dataset;
use crate::dml::outcome::StatementOutcome;
use crate::dml::statement::StatementOptions;
use crate::error::{Error, Result};
use crate::read::options::{Projection, ScanOptions};
use crate::read::snapshot::Snapshot;

/// Prefix of the metadata keys of a field that declare its extension type.
pub(super) const EXTENSION_KEYS: &str = "ARROW:extension:";

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
    /// rewrites the values of that column, or of the list that the field lies in, and of no other column. So does another
    /// nullability where files of Lance v1 cannot tell a null from an empty text.
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
        let target = Target::new(old, change)?;
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
    let conversion = Conversion {
        old: tree::only(old, &rewritten),
        new: tree::only(&schema, &new_ids),
        rewritten,
    };
    let columns = NewColumns {
        stored: Arc::new(conversion.new.clone()),
        schema,
        preserves_nullability,
    };
    let values = |fragments| conversion.values(base, fragments, options, handle);
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
    fn new(schema: &Schema, change: &ColumnChange) -> Result<Self> {
        let ids = tree::find(schema, &change.path)?;
        let id = *ids.last().unwrap_or(&-1);
        let old = tree::path_of(schema, id)?.1.clone();
        if let Some(name) = &change.name {
            tree::check_new_name(name)?;
        }
        let nullable = change.nullable.unwrap_or(old.nullable);
        let retyped = match &change.field {
            Some(field) => retyped(&old, field, &change.path)?,
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
        let name = self.name.clone().unwrap_or_else(|| field.name.clone());
        Field {
            id: field.id,
            name,
            nullable: self.nullable,
            ..self.retyped.clone().unwrap_or(field)
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
                format!("column `{}`", self.path),
                format!("row {row} is null; give it a value or delete it, then forbid nulls"),
            )),
            None => Ok(is_retyped || found.has_hidden_null),
        }
    }
}

/// The field in another type; `None` if it has that type already.
fn retyped(old: &Field, to: &ArrowField, path: &str) -> Result<Option<Field>> {
    if old.data_type == *to.data_type() {
        return Ok(None);
    }
    if !can_cast(&old.data_type, to.data_type()) {
        let reason = format!(
            "is {}, which cannot be converted to {}; add a column with an expression instead",
            type_name(&old.data_type),
            type_name(to.data_type())
        );
        return Err(Error::invalid(format!("column `{path}`"), reason));
    }
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

/// Converts stored columns to those that replace them: two schemas of one shape down to the rewritten fields.
struct Conversion {
    old: Schema,
    new: Schema,
    rewritten: BTreeSet<FieldId>,
}

impl Conversion {
    fn values<'a>(
        self,
        base: &'a Snapshot,
        fragments: Vec<u64>,
        options: &StatementOptions,
        handle: &Handle,
    ) -> Result<Values<'a>> {
        let mut names = Vec::new();
        for id in base.schema().ids() {
            if self.rewritten.contains(&id) {
                names.push(tree::path_of(base.schema(), id)?.0.join("."));
            }
        }
        if base.schema().project(&names)?.fields != self.old.fields {
            let feature = "converting a field beside one whose name says the same path";
            return Err(Error::unsupported(feature, "rename one of them").at(base.uri()));
        }
        let scan = base.scan(ScanOptions {
            columns: Projection::Names(names),
            fragments: Some(fragments.clone()),
            ..options.scan(None)
        })?;
        let schema = self.new.to_arrow();
        let converted = Arc::clone(&schema);
        let mut first_row = 0;
        let batches = scan.batches(handle).map(move |batch| {
            let batch = batch?;
            let rows = first_row;
            first_row += batch.num_rows() as u64;
            self.convert(&batch, &converted, |row| {
                row_of_table(base, &fragments, rows + row as u64)
            })
        });
        Ok(Values {
            schema,
            batches: batches.boxed(),
        })
    }

    fn convert(
        &self,
        batch: &RecordBatch,
        schema: &SchemaRef,
        row_of_table: impl Fn(usize) -> u64,
    ) -> Result<RecordBatch> {
        let pairs = self.old.fields.iter().zip(&self.new.fields);
        let mut columns = Vec::with_capacity(batch.num_columns());
        for ((old, new), column) in pairs.zip(batch.columns()) {
            columns.push(self.field(old, new, &old.name, column, &row_of_table)?);
        }
        RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| {
            Error::bug(format!(
                "converted columns do not fit their schema: {error}"
            ))
        })
    }

    fn field(
        &self,
        old: &Field,
        new: &Field,
        path: &str,
        array: &ArrayRef,
        row_of_table: &dyn Fn(usize) -> u64,
    ) -> Result<ArrayRef> {
        let failed = |reason: String| Error::invalid(format!("column `{path}`"), reason);
        if self.rewritten.contains(&old.id) {
            return convert(array, &new.data_type).map_err(|error| match error {
                CastError::Misfit(Misfit { row, value }) => failed(format!(
                    "row {} holds {value}, which does not fit {}; change the value, or choose another type",
                    row_of_table(row),
                    type_name(&new.data_type)
                )),
                CastError::Arrow(error) => failed(error.to_string()),
            });
        }
        let (Some(structs), DataType::Struct(members)) = (array.as_struct_opt(), &new.data_type)
        else {
            return Err(Error::bug(format!(
                "the conversion of column `{path}` read no struct"
            )));
        };
        let nulls = structs.nulls();
        let children = old.children.iter().zip(&new.children);
        let mut columns = Vec::with_capacity(structs.num_columns());
        for ((old, new), column) in children.zip(structs.columns()) {
            let column = super::cast::with_nulls(column, nulls)
                .map_err(|error| failed(error.to_string()))?;
            let path = format!("{path}.{}", old.name);
            columns.push(self.field(old, new, &path, &column, row_of_table)?);
        }
        let built = StructArray::try_new_with_length(
            members.clone(),
            columns,
            nulls.cloned(),
            structs.len(),
        );
        Ok(Arc::new(built.map_err(|error| failed(error.to_string()))?))
    }
}

/// The number that a live row of a scan of some fragments has in the table.
fn row_of_table(base: &Snapshot, scanned: &[u64], row: u64) -> u64 {
    let mut left = row;
    let mut before = 0;
    for fragment in base.fragments() {
        let rows = fragment.num_rows().unwrap_or_default();
        if scanned.contains(&fragment.id) {
            if left < rows {
                break;
            }
            left -= rows;
        }
        before += rows;
    }
    before + left
}
