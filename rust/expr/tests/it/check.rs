//! Values that their own type cannot hold are found, with their row.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Date64Array, Decimal128Array, DictionaryArray, Int8Array, Int32Array,
    ListArray, RunArray, StringArray, StructArray, Time32SecondArray, Time64NanosecondArray,
    builder::{Decimal128Builder, ListBuilder},
    make_array,
    types::Int32Type,
};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field};
use pilum_expr::{InvalidValue, check_ranges, check_values};

fn check(array: impl Array + 'static) -> Result<(), InvalidValue> {
    check_values(&(Arc::new(array) as ArrayRef), "c")
}

#[test]
fn decimals_beyond_their_precision() {
    let decimals = |values: Vec<Option<i128>>| {
        Decimal128Array::from(values)
            .with_precision_and_scale(5, 2)
            .unwrap()
    };
    assert!(check(decimals(vec![Some(99_999), Some(-99_999), None])).is_ok());
    let error = check(decimals(vec![None, Some(1), Some(9_999_900)])).unwrap_err();
    assert_eq!((error.row, error.value.as_str()), (Some(2), "99999.00"));
    assert_eq!(
        error.to_string(),
        "column `c`, row 2: 99999.00 is no decimal128(5, 2): it has more digits than its precision; correct the value, \
         or write a type that holds it"
    );
}

#[test]
fn values_under_nulls_do_not_count() {
    let raw = Decimal128Array::new(vec![1, 9_999_900].into(), Some(vec![true, false].into()));
    assert!(check(raw.with_precision_and_scale(5, 2).unwrap()).is_ok());
    let inner: ArrayRef = Arc::new(Time32SecondArray::from(vec![1, 100_000]));
    let member = Arc::new(Field::new(
        "t",
        DataType::Time32(arrow_schema::TimeUnit::Second),
        true,
    ));
    let nulls = |valid: Vec<bool>| Some(valid.into());
    let parent = |valid| {
        StructArray::new(
            vec![Arc::clone(&member)].into(),
            vec![Arc::clone(&inner)],
            nulls(valid),
        )
    };
    assert!(check(parent(vec![true, false])).is_ok());
    let error = check(parent(vec![true, true])).unwrap_err();
    assert_eq!((error.path.as_str(), error.row), ("c.t", Some(1)));
}

#[test]
fn times_and_dates() {
    assert!(check(Time32SecondArray::from(vec![0, 86_399])).is_ok());
    assert_eq!(
        check(Time32SecondArray::from(vec![0, 86_400]))
            .unwrap_err()
            .row,
        Some(1)
    );
    assert_eq!(
        check(Time64NanosecondArray::from(vec![-1]))
            .unwrap_err()
            .row,
        Some(0)
    );
    assert!(check(Date64Array::from(vec![86_400_000, -86_400_000])).is_ok());
    assert_eq!(
        check(Date64Array::from(vec![86_400_001])).unwrap_err().row,
        Some(0)
    );
}

#[test]
fn items_of_lists_are_told_by_their_row() {
    let mut lists =
        ListBuilder::new(Decimal128Builder::new().with_data_type(DataType::Decimal128(2, 0)));
    lists.append_value([Some(1), Some(99)]);
    lists.append_null();
    lists.append_value([Some(2), Some(100)]);
    let error = check(lists.finish()).unwrap_err();
    assert_eq!((error.path.as_str(), error.row), ("c.item", Some(2)));
}

#[expect(unsafe_code, reason = "foreign memory is what the check is for")]
fn unchecked(array: &dyn Array, buffers: Vec<Buffer>, data_type: DataType) -> ArrayRef {
    let data = array
        .to_data()
        .into_builder()
        .buffers(buffers)
        .data_type(data_type);
    // SAFETY: the array is read by the check alone, which looks at raw buffers.
    make_array(unsafe { data.build_unchecked() })
}

#[test]
fn bytes_that_are_no_text() {
    let text = StringArray::from(vec!["ab", "cd", "e"]);
    let offsets = text.to_data().buffers()[0].clone();
    let bad = unchecked(
        &text,
        vec![offsets.clone(), Buffer::from(b"ab\xff\xfee")],
        DataType::Utf8,
    );
    assert_eq!(check_values(&bad, "c").unwrap_err().row, Some(1));
    // Every byte is part of a character, but a border lies inside of one.
    let split = unchecked(
        &text,
        vec![offsets, Buffer::from(b"a\xc3\xb6be")],
        DataType::Utf8,
    );
    assert_eq!(check_values(&split, "c").unwrap_err().row, Some(0));
}

#[test]
fn keys_beyond_the_dictionary() {
    let values = Arc::new(StringArray::from(vec!["a", "b"]));
    let good = DictionaryArray::new(Int8Array::from(vec![Some(1), None, Some(0)]), values);
    assert!(check(good.clone()).is_ok());
    let keys = Buffer::from_slice_ref([1_i8, 100, 2]);
    let bad = unchecked(&good, vec![keys], good.data_type().clone());
    assert_eq!(
        check_values(&bad, "c").unwrap_err().row,
        Some(2),
        "the key under a null does not count"
    );
}

#[test]
fn offsets_that_leave_the_items() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1)]),
        Some(vec![Some(2)]),
    ]);
    // Arrow itself refuses offsets that fall; the end it takes on trust.
    let far = Buffer::from_slice_ref([0_i32, 1, 9]);
    let data = lists.to_data().into_builder().buffers(vec![far]);
    assert!(data.build().is_err());
    assert!(check(lists).is_ok());
}

#[test]
fn a_check_of_ranges_finds_numbers_at_any_depth_and_leaves_texts_alone() {
    let offsets = Buffer::from_slice_ref([0_i32, 1]);
    let broken = unchecked(
        &StringArray::from(vec!["a"]),
        vec![offsets, Buffer::from(b"\xff")],
        DataType::Utf8,
    );
    assert!(check_values(&broken, "c").is_err());
    let times: ArrayRef = Arc::new(Time32SecondArray::from(vec![86_400]));
    let field =
        |name: &str, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
    let both = |time: &ArrayRef| -> ArrayRef {
        Arc::new(StructArray::from(vec![
            (field("text", &broken), Arc::clone(&broken)),
            (field("time", time), Arc::clone(time)),
        ]))
    };
    let error = check_ranges(&both(&times), "c").unwrap_err();
    assert_eq!((error.path.as_str(), error.row), ("c.time", Some(0)));
    let good: ArrayRef = Arc::new(Time32SecondArray::from(vec![86_399]));
    assert!(check_ranges(&both(&good), "c").is_ok());
    let ends = Int32Array::from(vec![2, 3]);
    let times = Time32SecondArray::from(vec![1, 86_400]);
    let runs: ArrayRef = Arc::new(RunArray::<Int32Type>::try_new(&ends, &times).unwrap());
    assert_eq!(check_ranges(&runs, "c").unwrap_err().row, Some(2));
}
