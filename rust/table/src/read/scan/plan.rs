//! The plan of a scan: which columns are read before and after the predicate, decided before any data is read.

use std::fmt::Write as _;
use std::ops::Deref;
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, FieldRef, Schema as ArrowSchema, SchemaRef};
use pilum_expr::{BoundExpr, ColumnPath, Expr, Projection, bind};
use pilum_file::Rows;
use pilum_format::{Field, Fragment, Manifest, RowIdLookup, Schema};

use crate::error::{Error, Result};
use crate::read::options::{ROW_ADDRESS, ROW_ID, ScanOptions};
use crate::read::row_ids::row_ids_of;

/// What a scan reads, and how its output is made of it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) fragments: Fragments,
    pub(crate) stable_row_ids: bool,
    pub(crate) filter: Option<Filter>,
    /// Columns read for the rows that pass the predicate.
    pub(crate) rest: Schema,
    /// Where the columns of the output, or the inputs of its expressions, come from.
    pub(crate) inputs: Vec<Output>,
    pub(crate) computed: Option<Computed>,
    pub(crate) output_schema: SchemaRef,
    pub(crate) needs_row_ids: bool,
}

/// The fragments to read: all of the version, shared with its manifest, or copies of some.
#[derive(Debug)]
pub(crate) enum Fragments {
    All(Arc<Manifest>),
    Chosen(Vec<Fragment>),
}

impl Deref for Fragments {
    type Target = [Fragment];

    fn deref(&self) -> &[Fragment] {
        match self {
            Self::All(manifest) => &manifest.fragments,
            Self::Chosen(fragments) => fragments,
        }
    }
}

/// The predicate and the columns that it reads.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) predicate: BoundExpr,
    text: String,
    pub(crate) columns: Schema,
    /// `columns`, followed by the row columns if the predicate names one.
    pub(crate) schema: SchemaRef,
    pub(crate) uses_row_columns: bool,
}

/// Expressions over the inputs.
#[derive(Debug)]
pub(crate) struct Computed {
    pub(crate) schema: SchemaRef,
    pub(crate) expressions: Vec<BoundExpr>,
}

/// Where a column comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output {
    /// A column of the predicate, filtered.
    Filtered(usize),
    /// A column read for the rows that pass the predicate.
    Rest(usize),
    RowId,
    RowAddress,
}

fn row_field(name: &str) -> FieldRef {
    Arc::new(ArrowField::new(name, DataType::UInt64, false))
}

fn is_row_column(name: &str) -> bool {
    name == ROW_ID || name == ROW_ADDRESS
}

impl Plan {
    pub(crate) fn new(
        schema: &Schema,
        manifest: &Arc<Manifest>,
        options: &ScanOptions,
    ) -> Result<Self> {
        let filter = options
            .filter
            .as_ref()
            .map(|filter| Filter::new(schema, filter))
            .transpose()?;
        let rest = Schema {
            fields: Vec::new(),
            metadata: schema.metadata.clone(),
        };
        let mut plan = Self {
            fragments: chosen(manifest, options.fragments.as_deref())?,
            stable_row_ids: manifest.has_stable_row_ids(),
            needs_row_ids: filter
                .as_ref()
                .is_some_and(|filter| filter.uses_row_columns),
            filter,
            inputs: Vec::new(),
            computed: None,
            output_schema: rest.to_arrow(),
            rest,
        };
        let mut fields: Vec<FieldRef> = Vec::new();
        match &options.columns {
            Projection::All => schema
                .fields
                .iter()
                .for_each(|field| plan.input(field, &mut fields)),
            Projection::Names(names) => {
                let (row_columns, names): (Vec<_>, Vec<_>) =
                    names.iter().partition(|name| is_row_column(name));
                for field in &schema.project(&names)?.fields {
                    plan.input(field, &mut fields);
                }
                for name in row_columns {
                    plan.row_input(name, &mut fields);
                }
            }
            Projection::Expressions(expressions) => {
                let expressions = with_row_expressions(expressions, options)?;
                plan.compute(schema, &expressions, &mut fields)?
            }
        }
        if plan.computed.is_none() {
            if options.with_row_id {
                plan.row_input(ROW_ID, &mut fields);
            }
            if options.with_row_address {
                plan.row_input(ROW_ADDRESS, &mut fields);
            }
        }
        let metadata = plan.output_schema.metadata().clone();
        plan.output_schema = Arc::new(ArrowSchema::new_with_metadata(fields, metadata));
        Ok(plan)
    }

    /// Adds a column, from the predicate's if it is the same.
    fn input(&mut self, field: &Field, fields: &mut Vec<FieldRef>) {
        fields.push(Arc::new(field.to_arrow()));
        let filtered = self.filter.as_ref();
        let filtered = filtered.and_then(|filter| {
            filter
                .columns
                .fields
                .iter()
                .position(|other| other == field)
        });
        self.inputs.push(match filtered {
            Some(index) => Output::Filtered(index),
            None => {
                self.rest.fields.push(field.clone());
                Output::Rest(self.rest.fields.len() - 1)
            }
        });
    }

    fn row_input(&mut self, name: &str, fields: &mut Vec<FieldRef>) {
        if fields.iter().any(|field| field.name() == name) {
            return;
        }
        fields.push(row_field(name));
        self.inputs.push(if name == ROW_ID {
            Output::RowId
        } else {
            Output::RowAddress
        });
        self.needs_row_ids |= name == ROW_ID;
    }

    fn compute(
        &mut self,
        schema: &Schema,
        expressions: &[(String, Expr)],
        fields: &mut Vec<FieldRef>,
    ) -> Result<()> {
        let with_rows = with_row_columns(&schema.to_arrow());
        let bound: Vec<BoundExpr> = expressions
            .iter()
            .map(|(_, expression)| bind(expression, &with_rows))
            .collect::<Result<_, _>>()?;
        let paths: Vec<&ColumnPath> = bound.iter().flat_map(BoundExpr::columns).collect();
        let (columns, row_columns) = needed(schema, &paths)?;
        let mut inputs = Vec::new();
        columns
            .fields
            .iter()
            .for_each(|field| self.input(field, &mut inputs));
        row_columns
            .iter()
            .for_each(|name| self.row_input(name, &mut inputs));
        let input_schema = Arc::new(ArrowSchema::new(inputs));
        let mut rebound = Vec::with_capacity(bound.len());
        for (name, expression) in expressions {
            let expression = bind(expression, &input_schema)?;
            let data_type = expression.data_type().clone();
            fields.push(Arc::new(ArrowField::new(
                name,
                data_type,
                expression.nullable(),
            )));
            rebound.push(expression);
        }
        self.computed = Some(Computed {
            schema: input_schema,
            expressions: rebound,
        });
        Ok(())
    }

    pub(crate) fn explain(&self, options: &ScanOptions) -> String {
        let mut text = String::new();
        let names = |schema: &Schema| {
            let names: Vec<_> = schema
                .fields
                .iter()
                .map(|field| field.name.as_str())
                .collect();
            names.join(", ")
        };
        let _ = writeln!(text, "scan of {} fragments", self.fragments.len());
        if let Some(filter) = &self.filter {
            let _ = writeln!(
                text,
                "  filter: {} (reads {})",
                filter.text,
                names(&filter.columns)
            );
        }
        let _ = writeln!(text, "  columns: {}", names(&self.rest));
        if options.offset > 0 || options.limit.is_some() {
            let limit = options
                .limit
                .map_or("none".to_owned(), |limit| limit.to_string());
            let _ = writeln!(text, "  offset {}, limit {limit}", options.offset);
        }
        text
    }
}

/// The expressions, and after them the row columns that the options ask for.
fn with_row_expressions(
    expressions: &[(String, Expr)],
    options: &ScanOptions,
) -> Result<Vec<(String, Expr)>> {
    let mut all = expressions.to_vec();
    for (name, argument, is_wanted) in [
        (ROW_ID, "with_row_id", options.with_row_id),
        (ROW_ADDRESS, "with_row_address", options.with_row_address),
    ] {
        let column = Expr::column(ColumnPath::new([name.to_owned()]));
        match expressions.iter().find(|(given, _)| given == name) {
            _ if !is_wanted => {}
            None => all.push((name.to_owned(), column)),
            Some((_, given)) if *given == column => {}
            Some((_, given)) => {
                return Err(Error::invalid(
                    format!("columns: `{name}`"),
                    format!(
                        "is `{given}`, and {argument} adds a column of this name; give the expression another name"
                    ),
                ));
            }
        }
    }
    Ok(all)
}

impl Filter {
    fn new(schema: &Schema, filter: &Expr) -> Result<Self> {
        let predicate = bind(filter, &with_row_columns(&schema.to_arrow()))?;
        let paths: Vec<&ColumnPath> = predicate.columns().iter().collect();
        let (columns, row_columns) = needed(schema, &paths)?;
        let uses_row_columns = !row_columns.is_empty();
        let schema = if uses_row_columns {
            with_row_columns(&columns.to_arrow())
        } else {
            columns.to_arrow()
        };
        // Bound again to the columns that are read, and only those.
        let predicate = bind(filter, &schema)?;
        if !matches!(predicate.data_type(), DataType::Boolean | DataType::Null) {
            let reason = format!(
                "`{filter}` is {}, a filter must be true or false",
                predicate.data_type()
            );
            return Err(Error::invalid("filter", reason));
        }
        Ok(Self {
            predicate,
            text: filter.to_string(),
            columns,
            schema,
            uses_row_columns,
        })
    }
}

/// A schema followed by the row columns.
fn with_row_columns(schema: &SchemaRef) -> SchemaRef {
    let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
    fields.push(row_field(ROW_ID));
    fields.push(row_field(ROW_ADDRESS));
    Arc::new(ArrowSchema::new_with_metadata(
        fields,
        schema.metadata().clone(),
    ))
}

/// The columns that some paths need, and the row columns among them.
fn needed<'a>(schema: &Schema, paths: &[&'a ColumnPath]) -> Result<(Schema, Vec<&'a str>)> {
    let mut names: Vec<String> = Vec::new();
    let mut row_columns = Vec::new();
    for path in paths {
        if is_row_column(path.root()) {
            row_columns.push(path.root());
        } else {
            names.push(path.dotted());
        }
    }
    // Members of a struct that is read as a whole are read with it.
    let whole: Vec<String> = names.clone();
    names.retain(|name| {
        !whole.iter().any(|other| {
            name.strip_prefix(other.as_str())
                .is_some_and(|rest| rest.starts_with('.'))
        })
    });
    names.sort_unstable();
    names.dedup();
    Ok((schema.project(&names)?, row_columns))
}

fn chosen(manifest: &Arc<Manifest>, ids: Option<&[u64]>) -> Result<Fragments> {
    let Some(ids) = ids else {
        return Ok(Fragments::All(Arc::clone(manifest)));
    };
    let fragment = |id: &u64| {
        let found = manifest.fragment(*id);
        found.cloned().ok_or_else(|| {
            Error::invalid(
                "fragments",
                format!("there is no fragment {id} in this version"),
            )
        })
    };
    Ok(Fragments::Chosen(
        ids.iter().map(fragment).collect::<Result<_>>()?,
    ))
}

/// The stable row ids of one fragment, in the form in which the manifest holds them.
#[derive(Debug)]
pub(crate) struct RowIds(RowIdLookup);

impl RowIds {
    /// None in tables whose row ids are addresses.
    pub(crate) fn of(fragment: &Fragment, stable: bool) -> Result<Option<Self>> {
        if !stable {
            return Ok(None);
        }
        Ok(Some(Self(row_ids_of(fragment)?.into())))
    }

    /// The ids of some rows. The only memory taken is that of the result.
    pub(crate) fn select(&self, rows: &Rows) -> Result<Vec<u64>> {
        let mut ids = Vec::with_capacity(usize::try_from(rows.len()).unwrap_or_default());
        for range in rows.ranges() {
            self.0.extend_ids(range, &mut ids);
        }
        if ids.len() as u64 != rows.len() {
            let (num_rows, num_ids) = (rows.len(), self.0.len());
            let what = format!("{num_rows} rows asked of a fragment of {num_ids} row ids");
            return Err(Error::bug(what));
        }
        Ok(ids)
    }
}
