//! The cases of other implementations: where they are kept, and rows of record batches in their notation.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::i256;
use pilum_skiff::yson::{Limits, Node, Value, parse};
use pilum_skiff::{Slot, TableSchema, WireNode, WireType};
use serde_json::{Map, Value as Json, json};

/// One stream with what it holds.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) schema: Json,
    pub(crate) expected: Json,
    pub(crate) stream: Vec<u8>,
}

/// The cases of this repository, and all of the larger collection beside it where that is present.
pub(crate) fn all() -> Vec<Case> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kept = std::fs::read_to_string(here.join("tests/fixtures/cases.jsonl")).unwrap();
    let mut cases: Vec<Case> = kept.lines().map(from_line).collect();
    assert!(cases.len() > 70);
    for up in ["../../../shared", "../../../../shared"] {
        let folder = here.join(up).join("fixtures/skiff");
        if folder.is_dir() {
            cases.extend(from_folder(&folder));
            break;
        }
    }
    cases
}

fn from_line(line: &str) -> Case {
    let mut case: Json = serde_json::from_str(line).unwrap();
    let hex = case["hex"].as_str().unwrap();
    let byte = |place| u8::from_str_radix(&hex[place..place + 2], 16).unwrap();
    let stream = (0..hex.len()).step_by(2).map(byte).collect();
    Case {
        name: case["name"].as_str().unwrap().to_owned(),
        stream,
        schema: case["schema"].take(),
        expected: case["expected"].take(),
    }
}

fn from_folder(folder: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(name) = name.strip_suffix(".schema.json") else {
            continue;
        };
        let json = |kind: &str| -> Json {
            let text = std::fs::read_to_string(folder.join(format!("{name}.{kind}.json"))).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        cases.push(Case {
            name: name.to_owned(),
            schema: json("schema"),
            expected: json("expected"),
            stream: std::fs::read(folder.join(format!("{name}.skiff"))).unwrap_or_default(),
        });
    }
    cases
}

/// The rows of a batch in the notation of the cases.
pub(crate) fn rows(number: usize, table: &TableSchema, batch: &RecordBatch) -> Vec<Json> {
    (0..batch.num_rows())
        .map(|row| row_of(number, table, batch, row))
        .collect()
}

fn row_of(number: usize, table: &TableSchema, batch: &RecordBatch, row: usize) -> Json {
    let mut control = Map::new();
    let mut dense = Map::new();
    let mut whole = Map::from_iter([("table".to_owned(), json!(number))]);
    let mut columns = batch.columns().iter();
    for (slot, node) in table.slots().iter().zip(&table.root().children) {
        let name = node.name.clone();
        if let Slot::Sparse { num_columns } = slot {
            let mut sparse = Map::new();
            for child in &node.children {
                let column = columns.next().unwrap();
                if column.is_valid(row) {
                    sparse.insert(child.name.clone(), value(child, column, row));
                }
            }
            assert_eq!(node.children.len(), *num_columns);
            whole.insert("sparse".to_owned(), sparse.into());
            continue;
        }
        let column = columns.next().unwrap();
        match slot {
            Slot::Dense => {
                dense.insert(name, value(node, column, row));
            }
            Slot::Other => {
                let node = parse(column.as_binary::<i32>().value(row), Limits::default()).unwrap();
                let Value::Map(pairs) = node.value else {
                    panic!("{node:?}");
                };
                let pair = |(key, node): &(Vec<u8>, Node)| {
                    (String::from_utf8(key.clone()).unwrap(), tree(node))
                };
                let other: Map<String, Json> = pairs.iter().map(pair).collect();
                whole.insert("other".to_owned(), other.into());
            }
            Slot::KeySwitch => {
                control.insert(
                    "key_switch".to_owned(),
                    column.as_boolean().value(row).into(),
                );
            }
            Slot::RemainingRowBytes => {
                let value = column.as_primitive::<Int32Type>().value(row);
                control.insert("remaining_row_bytes".to_owned(), value.into());
            }
            _ => {
                let value = column.as_primitive::<Int64Type>();
                let value = value.is_valid(row).then(|| value.value(row));
                control.insert(name.trim_start_matches('$').to_owned(), value.into());
            }
        }
    }
    whole.insert("control".to_owned(), control.into());
    whole.insert("dense".to_owned(), dense.into());
    whole.into()
}

fn value(node: &WireNode, array: &ArrayRef, row: usize) -> Json {
    if let Some(inner) = node.optional_value() {
        if array.is_null(row) {
            return Json::Null;
        }
        let is_wrapped = inner.optional_value().is_some()
            || !matches!(inner.wire_type, WireType::Tuple) && array.as_struct_opt().is_some();
        if is_wrapped {
            let inside = value(inner, array.as_struct().column(0), row);
            let can_be_null =
                inner.optional_value().is_some() || inner.wire_type == WireType::Nothing;
            return if can_be_null {
                json!({ "some": inside })
            } else {
                inside
            };
        }
        return value(inner, array, row);
    }
    assert!(array.is_valid(row) || node.wire_type == WireType::Nothing);
    match node.wire_type {
        WireType::Nothing => Json::Null,
        WireType::Boolean => array.as_boolean().value(row).into(),
        WireType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        WireType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        WireType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        WireType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        WireType::Uint8 => array.as_primitive::<UInt8Type>().value(row).into(),
        WireType::Uint16 => array.as_primitive::<UInt16Type>().value(row).into(),
        WireType::Uint32 => array.as_primitive::<UInt32Type>().value(row).into(),
        WireType::Uint64 => array.as_primitive::<UInt64Type>().value(row).into(),
        WireType::Double => double(array.as_primitive::<Float64Type>().value(row)),
        WireType::String32 => {
            text(array.as_binary::<i32>().value(row), "b64").unwrap_or_else(|text| text.into())
        }
        WireType::Yson32 => {
            let node = parse(array.as_binary::<i32>().value(row), Limits::default()).unwrap();
            json!({ "yson": tree(&node) })
        }
        WireType::Int128 => wide(array, row, true),
        WireType::Uint128 => wide(array, row, false),
        WireType::Int256 => wide(array, row, true),
        WireType::Uint256 => wide(array, row, false),
        WireType::Tuple => {
            let columns = array.as_struct().columns();
            let pairs = node.children.iter().zip(columns);
            if node.children.iter().all(|child| !child.name.is_empty()) {
                let pairs =
                    pairs.map(|(child, column)| (child.name.clone(), value(child, column, row)));
                Json::Object(pairs.collect())
            } else {
                pairs
                    .map(|(child, column)| value(child, column, row))
                    .collect()
            }
        }
        WireType::Variant8 | WireType::Variant16 => alternative(&node.children, array, row),
        WireType::RepeatedVariant8 | WireType::RepeatedVariant16 => {
            let items = array.as_list::<i32>().value(row);
            let item = |place| match node.children.as_slice() {
                [child] => value(child, &items, place),
                children => alternative(children, &items, place),
            };
            (0..items.len()).map(item).collect()
        }
    }
}

fn alternative(children: &[std::sync::Arc<WireNode>], array: &ArrayRef, row: usize) -> Json {
    let union = array.as_union();
    let mut tag = usize::try_from(union.type_id(row)).unwrap();
    let mut place = union.value_offset(row);
    let mut column = union.child(union.type_id(row));
    if children.len() > 128 {
        let page = column.as_union();
        let id = page.type_id(place);
        tag = tag * 128 + usize::try_from(id).unwrap();
        place = page.value_offset(place);
        column = page.child(id);
    }
    json!({ "tag": tag, "value": value(&children[tag], column, place) })
}

fn double(value: f64) -> Json {
    if value.is_finite() && !(value == 0.0 && value.is_sign_negative()) {
        value.into()
    } else {
        json!({ "f64": format!("{:016x}", value.to_bits()) })
    }
}

fn wide(array: &ArrayRef, row: usize, is_signed: bool) -> Json {
    let bytes = array.as_fixed_size_binary().value(row);
    let is_negative = is_signed && bytes.last().unwrap() & 0x80 != 0;
    let mut all = vec![if is_negative { 0xff } else { 0 }; 32];
    all[..bytes.len()].copy_from_slice(bytes);
    let value = i256::from_le_bytes(all.as_slice().try_into().unwrap());
    if is_signed || bytes.len() < 32 || !value.is_negative() {
        return value.to_string().into();
    }
    // A uint256 of 2^255 or more: its decimal digits by long division.
    let mut digits = Vec::new();
    while all.iter().any(|byte| *byte != 0) {
        let mut rest = 0_u16;
        for byte in all.iter_mut().rev() {
            let part = rest << 8 | u16::from(*byte);
            *byte = u8::try_from(part / 10).unwrap();
            rest = part % 10;
        }
        digits.push(char::from(b'0' + u8::try_from(rest).unwrap()));
    }
    digits.iter().rev().collect::<String>().into()
}

/// Text, or an object with its base64 form under this key.
fn text(bytes: &[u8], key: &str) -> Result<Json, String> {
    match String::from_utf8(bytes.to_vec()) {
        Ok(text) => Err(text),
        Err(_) => Ok(json!({ key: base64(bytes) })),
    }
}

fn base64(bytes: &[u8]) -> String {
    let mut node = vec![1];
    let mut length = u64::try_from(bytes.len()).unwrap() << 1;
    while length > 0x7f {
        node.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    node.push(u8::try_from(length).unwrap());
    node.extend_from_slice(bytes);
    let json =
        pilum_skiff::yson::yson_to_json(&node, Default::default(), Limits::default()).unwrap();
    let json: Json = serde_json::from_str(&json).unwrap();
    json["$value"].as_str().unwrap().to_owned()
}

pub(crate) fn tree(node: &Node) -> Json {
    let pairs = |pairs: &[(Vec<u8>, Node)]| -> Json {
        let pair = |(key, node): &(Vec<u8>, Node)| {
            json!([
                text(key, "s64").unwrap_or_else(|text| text.into()),
                tree(node)
            ])
        };
        pairs.iter().map(pair).collect()
    };
    let value = match &node.value {
        Value::Entity => Json::Null,
        Value::Boolean(value) => (*value).into(),
        Value::Int64(value) => json!({ "i": value }),
        Value::Uint64(value) => json!({ "u": value }),
        Value::Double(value) => json!({ "d": double(*value) }),
        Value::String(value) => text(value, "s64").unwrap_or_else(|text| json!({ "s": text })),
        Value::List(items) => json!({ "l": items.iter().map(tree).collect::<Vec<_>>() }),
        Value::Map(map) => json!({ "m": pairs(map) }),
    };
    if node.attributes.is_empty() {
        value
    } else {
        json!({ "a": pairs(&node.attributes), "v": value })
    }
}
