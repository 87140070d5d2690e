//! Zone maps: minimum, maximum and null count of a column per page, and folded per file, fragment and table.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, UInt64Array};
use arrow_ord::ord::make_comparator;
use arrow_schema::{DataType, SortOptions};
use pilum_file::{ColumnStatistics, FileReader};
use pilum_format::FieldId;

/// The statistics of some columns of a file; `None` for a column whose statistics are missing or damaged.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileStatistics {
    columns: BTreeMap<FieldId, Option<Arc<PageStatistics>>>,
}

/// The statistics of one column: page by page, and folded over the whole file.
#[derive(Debug)]
pub(crate) struct PageStatistics {
    pub(super) pages: ColumnStatistics,
    whole: Arc<ZoneMap>,
    /// Whether a null that is counted is also read as a null.
    pub(super) counts_nulls: bool,
    /// Whether a page of floats with NaN has the maximum +inf.
    pub(super) covers_nan: bool,
}

/// Minimum, maximum and null count of one column over the rows of a file, of a fragment, or of all fragments.
#[derive(Clone, Debug, Default)]
pub(crate) struct ZoneMap {
    pub(super) num_rows: u64,
    pub(super) num_pages: u64,
    /// No value is smaller, NaN aside.
    pub(super) min: Option<ArrayRef>,
    /// No value is greater, NaN aside.
    pub(super) max: Option<ArrayRef>,
    pub(super) null_count: Option<u64>,
    /// Whether the maximum is +inf if one of the floats is NaN.
    pub(super) covers_nan: bool,
}

/// Whether this maximum of floats, which covers NaN, says that none of them is NaN.
pub(super) fn excludes_nan(max: &ArrayRef) -> bool {
    let any = max.as_any();
    let wide = any.downcast_ref::<Float64Array>();
    let narrow = any.downcast_ref::<Float32Array>();
    max.len() == 1
        && max.is_valid(0)
        && (wide.is_some_and(|max| max.value(0) < f64::INFINITY)
            || narrow.is_some_and(|max| max.value(0) < f32::INFINITY))
}

impl FileStatistics {
    pub(super) fn get(&self, id: FieldId) -> Option<&Arc<PageStatistics>> {
        self.columns.get(&id)?.as_ref()
    }

    /// Those of `ids` whose statistics have not been read.
    pub(super) fn missing(&self, ids: &[FieldId]) -> Vec<FieldId> {
        let ids = ids.iter().copied();
        ids.filter(|id| !self.columns.contains_key(id)).collect()
    }

    /// These, and those of further columns, as they were `read` from the file.
    pub(super) fn with(
        &self,
        ids: &[FieldId],
        mut read: BTreeMap<FieldId, ColumnStatistics>,
        file: &FileReader,
    ) -> Self {
        let mut all = self.clone();
        for id in ids {
            let column = read.remove(id);
            let column = column.and_then(|pages| PageStatistics::new(&pages, file));
            all.columns.insert(*id, column.map(Arc::new));
        }
        all
    }

    /// The zone map of a column over the file, one that says nothing for damaged statistics; none for a column whose
    /// statistics have not been read.
    pub(super) fn zone_map(&self, id: FieldId) -> Option<Arc<ZoneMap>> {
        Some(match self.columns.get(&id)? {
            Some(column) => Arc::clone(&column.whole),
            None => Arc::default(),
        })
    }

    /// Memory that they take, in bytes.
    pub(super) fn num_bytes(&self) -> u64 {
        let pages = self.columns.values().map(|known| {
            known.as_ref().map_or(0, |known| {
                let pages = &known.pages;
                let arrays = [&pages.min as &dyn Array, &pages.max, &pages.null_count];
                let bytes = arrays.iter().map(|array| array.get_array_memory_size());
                // Beside the pages: the minimum and the maximum of the file.
                bytes.sum::<usize>() + 1024
            })
        });
        pages.map(|bytes| bytes as u64 + 64).sum()
    }
}

impl PageStatistics {
    /// Only files of pilum are known to hold the nulls that their statistics count. In files of other writers a null of fixed
    /// width is stored, and read, as a value which minimum and maximum do not cover.
    fn new(pages: &ColumnStatistics, file: &FileReader) -> Option<Self> {
        let counts_nulls = file.checksum_block().is_some();
        let pages = ColumnStatistics {
            null_count: pages.null_count.iter().collect(),
            min: owned(&pages.min)?,
            max: owned(&pages.max)?,
        };
        let rows: Vec<u64> = (0..file.num_batches())
            .map(|batch| {
                let rows = file.batch_rows(batch);
                rows.end - rows.start
            })
            .collect();
        let covers_nan = file.statistics_cover_nan();
        let whole = ZoneMap {
            covers_nan,
            ..fold(&pages, &rows, counts_nulls)
        };
        Some(Self {
            pages,
            whole: Arc::new(whole),
            counts_nulls,
            covers_nan,
        })
    }

    /// Whether minimum and maximum of a page cover all values that are read there, although some of them are null.
    pub(super) fn min_max_holds(&self, nulls: i64) -> bool {
        min_max_holds(&self.pages, self.counts_nulls, nulls)
    }
}

fn min_max_holds(pages: &ColumnStatistics, counts_nulls: bool, nulls: i64) -> bool {
    let is_text = matches!(
        pages.min.data_type(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
    );
    counts_nulls || nulls == 0 || is_text
}

/// A copy that does not keep the file mapped.
fn owned(array: &ArrayRef) -> Option<ArrayRef> {
    let all = UInt64Array::from_iter_values(0..array.len() as u64);
    arrow_select::take::take(array, &all, None).ok()
}

fn fold(pages: &ColumnStatistics, rows: &[u64], counts_nulls: bool) -> ZoneMap {
    let nulls = pages.null_count.values();
    let of_page = |page: usize| u64::try_from(*nulls.get(page)?).ok();
    let null_count = rows
        .iter()
        .enumerate()
        .try_fold(0_u64, |sum, (page, _)| sum.checked_add(of_page(page)?))
        .filter(|_| counts_nulls);
    let mut zone_map = ZoneMap {
        num_rows: rows.iter().sum(),
        num_pages: rows.len() as u64,
        min: None,
        max: None,
        null_count,
        covers_nan: false,
    };
    // Pages of nulls alone have neither minimum nor maximum.
    let has_values =
        |page: &usize| !(counts_nulls && of_page(*page).is_some_and(|nulls| nulls == rows[*page]));
    let with_values: Vec<usize> = (0..rows.len()).filter(has_values).collect();
    if nulls.len() == rows.len()
        && pages.min.len() == rows.len()
        && pages.max.len() == rows.len()
        && with_values
            .iter()
            .all(|&page| min_max_holds(pages, counts_nulls, nulls[page]))
    {
        (zone_map.min, zone_map.max) = extremes(&pages.min, &pages.max, &with_values);
    }
    zone_map
}

/// The least of some minima and the greatest of as many maxima. One null among the minima means that the least is unknown;
/// the same holds for the maxima.
///
/// A minimum or maximum that is NaN, or a minimum above its maximum, is damage: then both are unknown.
fn extremes(
    min: &ArrayRef,
    max: &ArrayRef,
    places: &[usize],
) -> (Option<ArrayRef>, Option<ArrayRef>) {
    let options = SortOptions::default();
    let (Ok(across), Ok(of_min), Ok(of_max)) = (
        make_comparator(min, max, options),
        make_comparator(min, min, options),
        make_comparator(max, max, options),
    ) else {
        return (None, None);
    };
    let is_reversed = |&place: &usize| {
        min.is_valid(place) && max.is_valid(place) && across(place, place) == Ordering::Greater
    };
    if places
        .iter()
        .any(|place| is_reversed(place) || is_nan(min, *place) || is_nan(max, *place))
    {
        return (None, None);
    }
    let best = |array: &ArrayRef, compare: &dyn Fn(usize, usize) -> Ordering, better: Ordering| {
        if places.iter().any(|&place| array.is_null(place)) {
            return None;
        }
        let better = |best: usize, next: usize| {
            if compare(next, best) == better {
                next
            } else {
                best
            }
        };
        let best = places.iter().copied().reduce(better)?;
        arrow_select::take::take(array, &UInt64Array::from(vec![best as u64]), None).ok()
    };
    (
        best(min, &of_min, Ordering::Less),
        best(max, &of_max, Ordering::Greater),
    )
}

fn is_nan(array: &ArrayRef, place: usize) -> bool {
    let any = array.as_any();
    let wide = any.downcast_ref::<Float64Array>();
    let narrow = any.downcast_ref::<Float32Array>();
    wide.is_some_and(|array| array.value(place).is_nan())
        || narrow.is_some_and(|array| array.value(place).is_nan())
}

impl ZoneMap {
    /// Of a column that no file of a fragment holds: all values are null.
    pub(super) fn of_nulls(num_rows: u64) -> Self {
        Self {
            num_rows,
            null_count: Some(num_rows),
            ..Self::default()
        }
    }

    fn has_values(&self) -> bool {
        self.null_count != Some(self.num_rows)
    }

    /// That of several sets of rows together.
    pub(super) fn joined(parts: &[Arc<Self>]) -> Self {
        let mut joined = Self {
            num_rows: parts.iter().map(|part| part.num_rows).sum(),
            num_pages: parts.iter().map(|part| part.num_pages).sum(),
            min: None,
            max: None,
            null_count: parts
                .iter()
                .try_fold(0_u64, |sum, part| sum.checked_add(part.null_count?)),
            covers_nan: parts
                .iter()
                .all(|part| part.covers_nan || !part.has_values()),
        };
        let with_values = || parts.iter().filter(|part| part.has_values());
        let side = |of: fn(&Self) -> &Option<ArrayRef>| -> Option<ArrayRef> {
            let all: Option<Vec<&dyn Array>> = with_values()
                .map(|part| of(part).as_ref().map(AsRef::as_ref))
                .collect();
            arrow_select::concat::concat(&all.filter(|all| !all.is_empty())?).ok()
        };
        let places: Vec<usize> = (0..with_values().count()).collect();
        let (min, max) = (side(|part| &part.min), side(|part| &part.max));
        // Where only one side is known, it stands in for the other, and the other is removed again below.
        if let Some(one) = min.as_ref().or(max.as_ref()) {
            let (min, max) = (min.as_ref().unwrap_or(one), max.as_ref().unwrap_or(one));
            (joined.min, joined.max) = extremes(min, max, &places);
        }
        joined.min = joined.min.filter(|_| min.is_some());
        joined.max = joined.max.filter(|_| max.is_some());
        joined
    }
}
