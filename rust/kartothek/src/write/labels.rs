//! The labels of an inverted index: each is kept once, and values refer to it by number. An index of many values has millions of
//! entries, and a label is some 60 bytes long.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, Int32Array, ListArray, StringArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use arrow_select::concat::concat;
use arrow_select::take::take;

/// For each value the labels of the partitions that have it.
#[derive(Debug, Clone)]
pub(super) struct Labels {
    names: StringArray,
    /// Places in `names`.
    numbers: Vec<i32>,
    /// Value `i` has the labels `numbers[starts[i]..starts[i + 1]]`.
    starts: Vec<usize>,
}

impl Labels {
    /// The labels of an index without values.
    pub(super) fn empty() -> Self {
        Self {
            names: StringArray::from_iter_values(std::iter::empty::<&str>()),
            numbers: Vec::new(),
            starts: vec![0],
        }
    }

    /// The type in which [`of_lists`](Self::of_lists) takes the labels.
    pub(super) fn read_type() -> DataType {
        let texts = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        DataType::List(Arc::new(Field::new_list_field(texts, true)))
    }

    /// The item of the lists that [`lists`](Self::lists) makes.
    fn item() -> FieldRef {
        Arc::new(Field::new_list_field(DataType::Utf8, true))
    }

    /// The type of the lists in an index file.
    pub(super) fn written_type() -> DataType {
        DataType::List(Self::item())
    }

    /// Takes lists of the type [`read_type`](Self::read_type). None if there is a null.
    pub(super) fn of_lists(lists: &ArrayRef) -> Option<Self> {
        let lists = lists.as_list_opt::<i32>()?;
        let items = lists.values().as_dictionary_opt::<Int32Type>()?;
        let names = items.values().as_string_opt::<i32>()?;
        let place = |offset: &i32| usize::try_from(*offset).unwrap_or_default();
        let offsets = lists.value_offsets();
        let (first, last) = (
            offsets.first().map_or(0, place),
            offsets.last().map_or(0, place),
        );
        let numbers = items.keys().slice(first, last - first);
        let has_null = |number: &i32| names.is_null(place(number));
        let is_whole = lists.null_count() == 0
            && numbers.null_count() == 0
            && (names.null_count() == 0 || !numbers.values().iter().any(has_null));
        is_whole.then(|| Self {
            names: names.clone(),
            numbers: numbers.values().to_vec(),
            starts: offsets.iter().map(|it| place(it) - first).collect(),
        })
    }

    /// The numbers of the labels of a value.
    pub(super) fn of(&self, value: usize) -> &[i32] {
        let range = self.starts.get(value).zip(self.starts.get(value + 1));
        let range = range.map_or(0..0, |(start, end)| *start..*end);
        self.numbers.get(range).unwrap_or_default()
    }

    /// The label with a number.
    pub(super) fn name(&self, number: i32) -> &str {
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        match place < self.names.len() {
            true => self.names.value(place),
            false => "",
        }
    }

    /// The labels of some values, as an index file has them.
    pub(super) fn lists(&self, values: Range<usize>) -> Result<ListArray, ArrowError> {
        let starts = self.starts.get(values.start..=values.end).unwrap_or(&[0]);
        let (first, last) = (
            starts.first().copied().unwrap_or_default(),
            starts.last().copied().unwrap_or_default(),
        );
        let numbers = self.numbers.get(first..last).unwrap_or_default();
        let texts = take(&self.names, &Int32Array::from(numbers.to_vec()), None)?;
        let lengths = starts.windows(2).map(|pair| match pair {
            [start, end] => end - start,
            _ => 0,
        });
        let offsets = OffsetBuffer::from_lengths(lengths);
        ListArray::try_new(Self::item(), offsets, texts, None)
    }
}

/// Labels of values that are added one after the other, in part from labels that are there.
pub(super) struct Merged<'a> {
    known: &'a Labels,
    /// For each known label, whether it is removed.
    is_removed: Vec<bool>,
    /// Labels that come after the known ones.
    new: Vec<&'a str>,
    numbers: Vec<i32>,
    starts: Vec<usize>,
}

impl<'a> Merged<'a> {
    pub(super) fn of(known: &'a Labels, is_removed: impl Fn(&str) -> bool) -> Self {
        Self {
            known,
            is_removed: known
                .names
                .iter()
                .map(|it| it.is_some_and(&is_removed))
                .collect(),
            new: Vec::new(),
            numbers: Vec::with_capacity(known.numbers.len()),
            starts: vec![0],
        }
    }

    /// The number of a label that is not known yet.
    pub(super) fn number_of(&mut self, label: &'a str) -> Result<i32, ArrowError> {
        if self.new.last() != Some(&label) {
            self.new.push(label);
        }
        i32::try_from(self.known.names.len() + self.new.len() - 1)
            .map_err(|_| ArrowError::ComputeError("more than 2^31 labels".to_owned()))
    }

    /// Adds the labels that a known value keeps.
    pub(super) fn keep(&mut self, value: usize) {
        for number in self.known.of(value) {
            let place = usize::try_from(*number).unwrap_or(usize::MAX);
            if self.is_removed.get(place) == Some(&false) {
                self.numbers.push(*number);
            }
        }
    }

    pub(super) fn add(&mut self, number: i32) {
        self.numbers.push(number);
    }

    /// Ends the labels of a value; false if it has none, and is no value then.
    pub(super) fn end(&mut self) -> bool {
        let has_some = self.starts.last() != Some(&self.numbers.len());
        if has_some {
            self.starts.push(self.numbers.len());
        }
        has_some
    }

    pub(super) fn finish(self) -> Result<Labels, ArrowError> {
        let new = StringArray::from(self.new);
        let names = concat(&[&self.known.names as &dyn Array, &new])?;
        Ok(Labels {
            names: names.as_string::<i32>().clone(),
            numbers: self.numbers,
            starts: self.starts,
        })
    }
}
