//! The schema adapter of a table: incoming batches become batches as the table stores them, with columns in the table's order
//! and types, and dictionary keys into the table's dictionaries.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray,
    OffsetSizeTrait, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow_schema::{
    ArrowError, DataType, Field as ArrowField, FieldRef, Schema as ArrowSchema, SchemaRef,
};
use pilum_format::{Field, Schema};

use crate::error::{Error, Result};
use crate::write::dictionary_builder::DictionaryBuilders;
use crate::write::incoming::{IncomingRows, Origin};

/// How to make batches of one schema fit the table.
#[derive(Debug)]
pub(crate) struct SchemaAdapter {
    schema: Arc<Schema>,
    /// Matches columns by name and converts their values.
    incoming: IncomingRows,
    /// Columns with dictionaries replaced by plain keys: what batches are while they wait for their page.
    keyed: SchemaRef,
    /// What the file writer gets. All columns nullable: it is the one that finds the nulls, with their row.
    stored: SchemaRef,
}

impl SchemaAdapter {
    /// Matches columns by name and plans the conversion of each.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` lists every difference.
    pub(crate) fn new(schema: &Arc<Schema>, batches: &ArrowSchema, origin: Origin) -> Result<Self> {
        let target = schema.fields.iter().map(|field| {
            let incoming = batches.fields().find(&field.name);
            let incoming = incoming.map(|(_, column)| column.data_type());
            let target = field.to_arrow();
            let data_type = with_keys_of(target.data_type(), incoming);
            // Of rows that are in the table the file writer finds the nulls, which deleted rows may have.
            let is_nullable = target.is_nullable() || matches!(origin, Origin::Table);
            target.with_data_type(data_type).with_nullable(is_nullable)
        });
        let target = Arc::new(ArrowSchema::new(target.collect::<Vec<_>>()));
        let incoming = IncomingRows::new(batches, &target, origin)?;
        let nullable = |keyed: bool| -> SchemaRef {
            let column = |field: &Field| {
                let data_type = if keyed {
                    keyed_type(field)
                } else {
                    field.data_type.clone()
                };
                ArrowField::new(&field.name, data_type, true)
            };
            Arc::new(ArrowSchema::new(
                schema.fields.iter().map(column).collect::<Vec<_>>(),
            ))
        };
        Ok(Self {
            schema: Arc::clone(schema),
            incoming,
            keyed: nullable(true),
            stored: nullable(false),
        })
    }

    /// True if a column has a dictionary at any depth.
    pub(crate) fn has_dictionaries(&self) -> bool {
        self.keyed.fields() != self.stored.fields()
    }

    /// The batch in the table's order and types, with plain dictionary keys.
    pub(crate) fn keyed(
        &self,
        batch: &RecordBatch,
        dictionaries: &mut DictionaryBuilders,
    ) -> Result<RecordBatch> {
        let batch = self.incoming.fit(batch)?;
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (field, column) in self.schema.fields.iter().zip(batch.columns()) {
            columns.push(keyed_array(field, &field.name, column, dictionaries)?);
        }
        build(&self.keyed, columns, batch.num_rows())
    }

    /// Batches of plain keys, one after the other, with the dictionaries as they are now.
    pub(crate) fn stored(
        &self,
        batches: &[RecordBatch],
        dictionaries: &mut DictionaryBuilders,
    ) -> Result<RecordBatch> {
        let batch = match batches {
            [one] => one.clone(),
            many => arrow_select::concat::concat_batches(&self.keyed, many)
                .map_err(|error| Error::invalid("the data", error.to_string()))?,
        };
        if !self.has_dictionaries() {
            return Ok(batch);
        }
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (field, column) in self.schema.fields.iter().zip(batch.columns()) {
            columns.push(stored_array(field, &field.name, column, dictionaries)?);
        }
        build(&self.stored, columns, batch.num_rows())
    }

    /// The columns of the table.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The columns of the batches that [`stored`](Self::stored) returns.
    pub(crate) fn stored_schema(&self) -> &SchemaRef {
        &self.stored
    }
}

fn build(schema: &SchemaRef, columns: Vec<ArrayRef>, num_rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(num_rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::invalid("the data", error.to_string()))
}

/// The type that a column gets before its dictionary keys are exchanged for those of the table: values of the table's types,
/// and where the column has dictionaries its own keys.
fn with_keys_of(table: &DataType, column: Option<&DataType>) -> DataType {
    let child = |table: &FieldRef, column: Option<&FieldRef>| -> FieldRef {
        let data_type = with_keys_of(table.data_type(), column.map(|column| column.data_type()));
        Arc::new(table.as_ref().clone().with_data_type(data_type))
    };
    let item = |table: &FieldRef| child(table, column.and_then(item_of));
    match table {
        DataType::Dictionary(_, values) => {
            let keys = match column {
                Some(DataType::Dictionary(keys, _)) => keys.clone(),
                _ => Box::new(DataType::Int32),
            };
            DataType::Dictionary(keys, values.clone())
        }
        DataType::Struct(members) => {
            let own = match column {
                // The entries of a map are matched by their places.
                Some(DataType::Struct(own)) => Some(own),
                _ => None,
            };
            let member = |member: &FieldRef| {
                let own = own.and_then(|own| own.find(member.name()));
                child(member, own.map(|(_, own)| own))
            };
            DataType::Struct(members.iter().map(member).collect())
        }
        DataType::List(it) => DataType::List(item(it)),
        DataType::LargeList(it) => DataType::LargeList(item(it)),
        DataType::ListView(it) => DataType::ListView(item(it)),
        DataType::LargeListView(it) => DataType::LargeListView(item(it)),
        DataType::FixedSizeList(it, size) => DataType::FixedSizeList(item(it), *size),
        DataType::Map(entries, sorted) => DataType::Map(item(entries), *sorted),
        other => other.clone(),
    }
}

/// The items of a list, or the entries of a map.
fn item_of(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => Some(item),
        _ => None,
    }
}

/// The type of a field while its dictionaries, at any depth, are plain keys.
fn keyed_type(field: &Field) -> DataType {
    let child = |field: &Field| -> FieldRef {
        Arc::new(field.to_arrow().with_data_type(keyed_type(field)))
    };
    match (&field.data_type, field.children.as_slice()) {
        (DataType::Dictionary(keys, _), _) => keys.as_ref().clone(),
        (DataType::Struct(_), children) => DataType::Struct(children.iter().map(child).collect()),
        (DataType::List(_), [item]) => DataType::List(child(item)),
        (DataType::LargeList(_), [item]) => DataType::LargeList(child(item)),
        (DataType::ListView(_), [item]) => DataType::ListView(child(item)),
        (DataType::LargeListView(_), [item]) => DataType::LargeListView(child(item)),
        (DataType::FixedSizeList(_, size), [item]) => DataType::FixedSizeList(child(item), *size),
        (DataType::Map(_, ordered), [entries]) => DataType::Map(child(entries), *ordered),
        (other, _) => other.clone(),
    }
}

fn failed(path: &str) -> impl Fn(ArrowError) -> Error + '_ {
    move |error| Error::invalid(format!("column `{path}`"), error.to_string())
}

fn keyed_array(
    field: &Field,
    path: &str,
    array: &ArrayRef,
    dictionaries: &mut DictionaryBuilders,
) -> Result<ArrayRef> {
    let target = keyed_type(field);
    if matches!(field.data_type, DataType::Dictionary(..)) {
        return dictionaries.keys(field, path, array);
    }
    if *array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    rebuild(field, path, array, &target, &mut |field, path, array| {
        keyed_array(field, path, array, dictionaries)
    })
}

fn stored_array(
    field: &Field,
    path: &str,
    array: &ArrayRef,
    dictionaries: &mut DictionaryBuilders,
) -> Result<ArrayRef> {
    match &field.data_type {
        DataType::Dictionary(..) => dictionaries.wrap(field.id, array),
        target if target == array.data_type() => Ok(Arc::clone(array)),
        target => rebuild(field, path, array, target, &mut |field, path, array| {
            stored_array(field, path, array, dictionaries)
        }),
    }
}

type EachChild<'a> = dyn FnMut(&Field, &str, &ArrayRef) -> Result<ArrayRef> + 'a;

/// The same struct or list with other children and declarations.
fn rebuild(
    field: &Field,
    path: &str,
    array: &ArrayRef,
    target: &DataType,
    each: &mut EachChild<'_>,
) -> Result<ArrayRef> {
    match (target, field.children.as_slice()) {
        (DataType::Struct(members), children) => {
            let array = array.as_struct();
            let columns = children
                .iter()
                .zip(array.columns())
                .map(|(child, column)| each(child, &format!("{path}.{}", child.name), column));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let nulls = array.nulls().cloned();
            let built =
                StructArray::try_new_with_length(members.clone(), columns, nulls, array.len());
            Ok(Arc::new(built.map_err(failed(path))?))
        }
        (DataType::List(item), [child]) => rebuild_list::<i32>(item, child, path, array, each),
        (DataType::LargeList(item), [child]) => rebuild_list::<i64>(item, child, path, array, each),
        (DataType::ListView(item), [child]) => rebuild_view::<i32>(item, child, path, array, each),
        (DataType::LargeListView(item), [child]) => {
            rebuild_view::<i64>(item, child, path, array, each)
        }
        (DataType::FixedSizeList(item, size), [child]) => {
            let array = array.as_fixed_size_list();
            let values = each(child, &format!("{path}.{}", child.name), array.values())?;
            let (item, nulls) = (Arc::clone(item), array.nulls().cloned());
            let built =
                FixedSizeListArray::try_new_with_length(item, *size, values, nulls, array.len());
            Ok(Arc::new(built.map_err(failed(path))?))
        }
        (DataType::Map(field, ordered), [child]) => {
            let array = array.as_map();
            let entries: ArrayRef = Arc::new(array.entries().clone());
            let entries = each(child, &format!("{path}.{}", child.name), &entries)?;
            let built = MapArray::try_new(
                Arc::clone(field),
                array.offsets().clone(),
                entries.as_struct().clone(),
                array.nulls().cloned(),
                *ordered,
            );
            Ok(Arc::new(built.map_err(failed(path))?))
        }
        (other, _) => Err(Error::invalid(
            format!("column `{path}`"),
            format!(
                "is {}, the table stores {other}; cast it",
                array.data_type()
            ),
        )),
    }
}

fn rebuild_list<O: OffsetSizeTrait>(
    item: &FieldRef,
    child: &Field,
    path: &str,
    array: &ArrayRef,
    each: &mut EachChild<'_>,
) -> Result<ArrayRef> {
    let array = array.as_list::<O>();
    let values = each(child, &format!("{path}.{}", child.name), array.values())?;
    let built = GenericListArray::<O>::try_new(
        Arc::clone(item),
        array.offsets().clone(),
        values,
        array.nulls().cloned(),
    );
    Ok(Arc::new(built.map_err(failed(path))?))
}

fn rebuild_view<O: OffsetSizeTrait>(
    item: &FieldRef,
    child: &Field,
    path: &str,
    array: &ArrayRef,
    each: &mut EachChild<'_>,
) -> Result<ArrayRef> {
    let array = array.as_list_view::<O>();
    let values = each(child, &format!("{path}.{}", child.name), array.values())?;
    let built = GenericListViewArray::<O>::try_new(
        Arc::clone(item),
        array.offsets().clone(),
        array.sizes().clone(),
        values,
        array.nulls().cloned(),
    );
    Ok(Arc::new(built.map_err(failed(path))?))
}
