//! Drops columns from the schema, and from the version the files that hold no other column.

use std::collections::BTreeSet;

use pilum_format::Operation;

use super::plain_files::plain_files;
use super::{ColumnsOutcome, tree};
use crate::commit::{Committed, Work, commit_work};
use crate::dataset::Dataset;
use crate::dml::outcome::StatementOutcome;
use crate::dml::statement::StatementOptions;
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;

impl Dataset {
    /// Drops columns of the newest version; `a.b` is member `b` of struct `a`, and a struct is dropped with its last member.
    /// No data file is written. If the columns that are left can be read without pilum's extension of the format, the
    /// version says so, and other readers of Lance v1 accept it.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown column, one that is named twice, an item of a list, or when no column would be left;
    /// `Conflict` when another commit forbids this one; see [`commit`](crate::commit()).
    pub async fn drop_columns(
        &self,
        paths: &[String],
        options: &StatementOptions,
    ) -> Result<ColumnsOutcome> {
        let once = |base| async move { drop_from(&base, paths, options).await };
        options.execute(self, "Project", once).await
    }
}

async fn drop_from(
    base: &Snapshot,
    paths: &[String],
    options: &StatementOptions,
) -> Result<ColumnsOutcome> {
    let schema = base.schema();
    let mut dropped = BTreeSet::new();
    for path in paths {
        let ids = tree::find(schema, path)?;
        let (id, above) = match ids.split_last() {
            Some((id, above)) => (*id, above),
            None => continue,
        };
        for parent in above {
            if !tree::is_struct(tree::path_of(schema, *parent)?.1) {
                let reason =
                    "lies inside of a list; only columns and members of structs can be dropped";
                return Err(Error::invalid(format!("column `{path}`"), reason));
            }
        }
        if !dropped.insert(id) {
            let reason = "is named twice; name it once";
            return Err(Error::invalid(format!("column `{path}`"), reason));
        }
    }
    if dropped.is_empty() {
        return Ok(ColumnsOutcome::without_rows(Committed::nothing(
            base.clone(),
        )));
    }
    let left = tree::without(schema, &dropped);
    if left.fields.is_empty() {
        let reason = "would leave a table without a column; keep at least one";
        return Err(Error::invalid("dropping all columns", reason));
    }
    let operation = Operation::Project {
        fields: left.to_protos()?,
        preserves_nullability: true,
    };
    let work = Work {
        plain_files: plain_files(base, &left).await?,
        ..Work::of(options.transaction(base.version(), operation))
    };
    let committed = commit_work(base.store(), Some(base), work, &options.commit()).await?;
    Ok(ColumnsOutcome::without_rows(committed))
}
