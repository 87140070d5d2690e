//! What a fixed-size list declares of its items, kept where the type string has no place for it.
//!
//! The items of a list that is one page with its values have no field of their own in v1: name, nullability and metadata
//! would be lost, extension types with them. They are kept in the metadata of the nearest field above, which other readers
//! carry along and need not understand:
//!
//! ```text
//! pilum:item:{level}:name              the items' name, where it is not "item"
//! pilum:item:{level}:nullable          "false", where they are never null
//! pilum:item:{level}:metadata:{key}    their metadata
//! ```
//!
//! Level 1 is the item of the list, level 2 the item of a list that is an item, and so on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField};

const PREFIX: &str = "pilum:item:";

/// True for a key of field metadata that is part of the type: not the user's, and never edited alone.
#[must_use]
pub fn is_item_declaration(key: &str) -> bool {
    key.starts_with(PREFIX)
}

/// What `data_type` declares of its items and `plain`, the type that its type string makes, does not.
pub(crate) fn declarations(data_type: &DataType, plain: &DataType) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let (mut declared, mut plain, mut level) = (data_type, plain, 1_usize);
    while let (DataType::FixedSizeList(item, _), DataType::FixedSizeList(known, _)) =
        (declared, plain)
    {
        if item.name() != known.name() {
            found.insert(format!("{PREFIX}{level}:name"), item.name().clone());
        }
        if !item.is_nullable() {
            found.insert(format!("{PREFIX}{level}:nullable"), "false".to_owned());
        }
        for (key, value) in item.metadata() {
            if known.metadata().get(key) != Some(value) {
                found.insert(format!("{PREFIX}{level}:metadata:{key}"), value.clone());
            }
        }
        (declared, plain, level) = (item.data_type(), known.data_type(), level + 1);
    }
    found
}

/// Takes the declarations out of the metadata of a field.
pub(crate) fn taken(metadata: &mut BTreeMap<String, String>) -> BTreeMap<String, String> {
    metadata
        .extract_if(.., |key, _| is_item_declaration(key))
        .collect()
}

/// The type with its items as they were declared.
pub(crate) fn declared(plain: &DataType, declarations: &BTreeMap<String, String>) -> DataType {
    at_level(plain, declarations, 1)
}

fn at_level(plain: &DataType, declarations: &BTreeMap<String, String>, level: usize) -> DataType {
    let DataType::FixedSizeList(item, size) = plain else {
        return plain.clone();
    };
    let word = |word: &str| declarations.get(&format!("{PREFIX}{level}:{word}"));
    let name = word("name").unwrap_or_else(|| item.name());
    let nullable = word("nullable").is_none_or(|nullable| nullable != "false");
    let start = format!("{PREFIX}{level}:metadata:");
    let kept = declarations
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix(&start)?.to_owned(), value.clone())));
    let metadata: HashMap<String, String> =
        item.metadata().clone().into_iter().chain(kept).collect();
    let data_type = at_level(item.data_type(), declarations, level + 1);
    let item = ArrowField::new(name, data_type, nullable).with_metadata(metadata);
    DataType::FixedSizeList(Arc::new(item), *size)
}
