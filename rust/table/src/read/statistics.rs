//! Statistics of the columns of a version, folded from the zone maps of all pages, and whether they are exact.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, NullArray, new_null_array};
use arrow_schema::DataType;
use futures::future::FutureExt;
use futures::stream::{StreamExt, TryStreamExt};
use pilum_common::{Error as CommonError, type_name};
use pilum_expr::{ColumnPath, Expr, Projection, Scalar, lit};
use pilum_format::{DataFile, Field, FieldId, Fragment, Schema};
use tokio::runtime::Handle;

use crate::error::{Error, Result};
use crate::read::context::ReadContext;
use crate::read::options::ScanOptions;
use crate::read::snapshot::Snapshot;
use crate::read::zone_maps::ZoneMap;

/// Fragments whose statistics are read at one time.
const CONCURRENT_READS: usize = 16;

/// Texts and bytes are cut for zone maps to at most 64 bytes, texts at a character: a shorter minimum is a value of the column.
const SURELY_NOT_CUT: usize = 60;

/// What zone maps say of one column: a leaf of the schema, members of structs included.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StatisticsOfColumn {
    /// The names from the top.
    pub path: Vec<String>,
    /// Arrow's name of the type.
    pub data_type: String,
    /// No more values than these are null; `None` if it is unknown.
    pub null_count: Option<u64>,
    /// No value is smaller, NaN aside: an array of one value. `None` if it is unknown, or all values are null.
    pub min: Option<ArrayRef>,
    /// No value is greater, NaN aside: an array of one value. `None` if it is unknown, or all values are null.
    pub max: Option<ArrayRef>,
    /// So many values are null, and minimum and maximum are values of live rows.
    pub is_exact: bool,
    /// Bytes of its pages in the data files; `None` where a file of another writer does not say.
    pub num_bytes: Option<u64>,
}

/// The zone map and the bytes of one column over some fragments.
#[derive(Debug, Clone)]
struct Part {
    zone_map: Arc<ZoneMap>,
    num_bytes: Option<u64>,
}

/// A leaf of the schema with its names from the top.
type Leaf<'a> = (Vec<String>, &'a Field);

impl Snapshot {
    /// The statistics of every leaf, in the order of the schema. A list, a map and an empty struct is a leaf.
    ///
    /// The statistics and page tables of all data files are read. Of texts and bytes, which are cut for zone maps, a row with
    /// the maximum is looked for, which reads the pages that may have it.
    ///
    /// # Errors
    /// When a data file cannot be opened, or its page table is damaged. Statistics that cannot be read are unknown.
    pub async fn statistics(&self, handle: &Handle) -> Result<Vec<StatisticsOfColumn>> {
        let leaves = leaves(self.schema());
        let fields: Arc<Vec<Field>> =
            Arc::new(leaves.iter().map(|(_, it)| (*it).clone()).collect());
        let mut parts = Vec::with_capacity(self.fragments().len());
        for fragment in self.fragments() {
            let (context, fields) = (Arc::clone(self.read_context()), Arc::clone(&fields));
            parts.push(of_fragment(context, fragment, fields).boxed());
        }
        let mut parts = futures::stream::iter(parts).buffered(CONCURRENT_READS);
        let nothing = Part {
            zone_map: Arc::new(ZoneMap::of_nulls(0)),
            num_bytes: Some(0),
        };
        let mut all = vec![nothing; fields.len()];
        while let Some(of_fragment) = parts.try_next().await? {
            for (all, part) in all.iter_mut().zip(of_fragment) {
                *all = all.joined(&part);
            }
        }
        let has_deletions = self.fragments().iter().any(|it| it.deletion.is_some());
        let mut found = Vec::with_capacity(all.len());
        for ((path, field), part) in leaves.into_iter().zip(all) {
            let zone_map = part.zone_map;
            let is_exact = !has_deletions && self.is_exact(&path, &zone_map, handle).await?;
            found.push(StatisticsOfColumn {
                path,
                data_type: type_name(&field.data_type),
                null_count: zone_map.null_count,
                min: zone_map.min.as_ref().map(without_negative_zero),
                max: zone_map.max.clone(),
                is_exact,
                num_bytes: part.num_bytes,
            });
        }
        Ok(found)
    }

    /// Whether the nulls are counted, and minimum and maximum are values of the column. No row is deleted.
    async fn is_exact(&self, path: &[String], zone_map: &ZoneMap, handle: &Handle) -> Result<bool> {
        match zone_map.null_count {
            None => return Ok(false),
            Some(nulls) if nulls == zone_map.num_rows => return Ok(true),
            Some(_) => {}
        }
        let (Some(min), Some(max)) = (&zone_map.min, &zone_map.max) else {
            return Ok(false);
        };
        if is_every_float(min, max) {
            return Ok(false);
        }
        if is_infinite(max) {
            // NaN has this bound too.
            let infinity = Scalar::Float(f64::INFINITY);
            return self.has_value(path, infinity, handle).await;
        }
        let (Some((_, least)), Some((greatest, _))) = (text_of(min), text_of(max)) else {
            return Ok(true);
        };
        if least > SURELY_NOT_CUT {
            return Ok(false);
        }
        self.has_value(path, greatest, handle).await
    }

    /// Whether a live row has this value.
    async fn has_value(&self, path: &[String], value: Scalar, handle: &Handle) -> Result<bool> {
        let column = Expr::column(ColumnPath::new(path.to_vec()));
        let scan = self.scan(ScanOptions {
            columns: Projection::Names(Vec::new()),
            filter: Some(column.eq(lit(value))),
            limit: Some(1),
            ..ScanOptions::default()
        });
        let scan = match scan {
            Ok(scan) => scan,
            // A name that has the separator of paths, for example.
            Err(Error::Common(CommonError::InvalidInput { .. })) => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut batches = scan.batches(handle);
        while let Some(batch) = batches.next().await {
            if batch?.num_rows() > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl StatisticsOfColumn {
    /// Minimum and maximum in one array. An unknown one is null; the array is of type null if both are.
    ///
    /// # Errors
    /// `Bug` alone.
    pub fn min_max(&self) -> Result<ArrayRef> {
        let Some(known) = self.min.as_ref().or(self.max.as_ref()) else {
            return Ok(Arc::new(NullArray::new(2)));
        };
        let unknown = new_null_array(known.data_type(), 1);
        let side = |side: &Option<ArrayRef>| Arc::clone(side.as_ref().unwrap_or(&unknown));
        let (min, max) = (side(&self.min), side(&self.max));
        arrow_select::concat::concat(&[&min, &max])
            .map_err(|error| Error::bug(format!("minimum and maximum of two types: {error}")))
    }
}

impl Part {
    fn joined(&self, other: &Self) -> Self {
        let maps = [Arc::clone(&self.zone_map), Arc::clone(&other.zone_map)];
        let sum = |(one, other): (u64, u64)| one.saturating_add(other);
        Self {
            zone_map: Arc::new(ZoneMap::joined(&maps)),
            num_bytes: self.num_bytes.zip(other.num_bytes).map(sum),
        }
    }
}

fn leaves(schema: &Schema) -> Vec<Leaf<'_>> {
    let mut found = Vec::new();
    let mut stack: Vec<Leaf<'_>> = Vec::new();
    stack.extend(schema.fields.iter().rev().map(|it| (Vec::new(), it)));
    while let Some((mut path, field)) = stack.pop() {
        path.push(field.name.clone());
        if matches!(field.data_type, DataType::Struct(_)) && !field.children.is_empty() {
            stack.extend(field.children.iter().rev().map(|it| (path.clone(), it)));
        } else {
            found.push((path, field));
        }
    }
    found
}

async fn of_fragment(
    context: Arc<ReadContext>,
    fragment: &Fragment,
    fields: Arc<Vec<Field>>,
) -> Result<Vec<Part>> {
    let ids: Vec<FieldId> = fields.iter().map(|field| field.id).collect();
    let mut opened = Vec::with_capacity(fragment.files.len());
    for file in &fragment.files {
        if file.has_any(|id| ids.contains(&id)) {
            let reader = context.open(file).await?;
            let known = context.statistics(file, &reader, &ids).await;
            opened.push((file, reader, known));
        }
    }
    let mut parts = Vec::with_capacity(fields.len());
    for field in fields.iter() {
        let holds = |(file, ..): &&(&DataFile, _, _)| file.field_ids.contains(&field.id);
        let Some((_, reader, known)) = opened.iter().find(holds) else {
            // The column is younger than the fragment.
            parts.push(Part {
                zone_map: Arc::new(ZoneMap::of_nulls(fragment.physical_rows)),
                num_bytes: Some(0),
            });
            continue;
        };
        let zone_map = match field.data_type {
            DataType::Null => Arc::new(ZoneMap::of_nulls(fragment.physical_rows)),
            _ => known.zone_map(field.id).unwrap_or_default(),
        };
        parts.push(Part {
            zone_map,
            num_bytes: reader.stored_bytes(field).await?,
        });
    }
    Ok(parts)
}

/// Whether the bounds are those of a page without any number: then they say nothing about the values.
fn is_every_float(min: &ArrayRef, max: &ArrayRef) -> bool {
    let wide = |array: &ArrayRef| {
        array
            .as_primitive_opt::<Float64Type>()
            .map(|it| it.value(0))
    };
    let narrow = |array: &ArrayRef| {
        array
            .as_primitive_opt::<Float32Type>()
            .map(|it| it.value(0))
    };
    wide(min) == Some(f64::NEG_INFINITY) && wide(max) == Some(f64::INFINITY)
        || narrow(min) == Some(f32::NEG_INFINITY) && narrow(max) == Some(f32::INFINITY)
}

/// Whether a maximum is +inf.
fn is_infinite(max: &ArrayRef) -> bool {
    let wide = max.as_primitive_opt::<Float64Type>().map(|it| it.value(0));
    let narrow = max.as_primitive_opt::<Float32Type>().map(|it| it.value(0));
    wide == Some(f64::INFINITY) || narrow == Some(f32::INFINITY)
}

/// Zone maps have -0.0 for a minimum of 0.0, which is equal.
fn without_negative_zero(min: &ArrayRef) -> ArrayRef {
    let wide = min.as_primitive_opt::<Float64Type>().map(|it| it.value(0));
    let narrow = min.as_primitive_opt::<Float32Type>().map(|it| it.value(0));
    match (wide, narrow) {
        (Some(0.0), _) => Arc::new(Float64Array::from(vec![0.0])),
        (_, Some(0.0)) => Arc::new(Float32Array::from(vec![0.0])),
        _ => Arc::clone(min),
    }
}

/// A text or some bytes as a literal, and their length; `None` for a value of another type.
fn text_of(array: &ArrayRef) -> Option<(Scalar, usize)> {
    let text = |text: &str| (Scalar::from(text), text.len());
    let bytes = |bytes: &[u8]| (Scalar::from(bytes), bytes.len());
    match array.data_type() {
        DataType::Utf8 => Some(text(array.as_string::<i32>().value(0))),
        DataType::LargeUtf8 => Some(text(array.as_string::<i64>().value(0))),
        DataType::Binary => Some(bytes(array.as_binary::<i32>().value(0))),
        DataType::LargeBinary => Some(bytes(array.as_binary::<i64>().value(0))),
        _ => None,
    }
}
