//! What an Arrow type declares beyond the type of Lance v1 that its pages have, kept where other readers need not look.
//!
//! Views are stored as strings and binaries. The item of a list is a nullable field "item" without metadata for readers of
//! v1: they open a list with another item and then fail to read it. The items of a fixed-size list that is one page have no
//! field of their own at all. So all that differs is kept in the metadata of the nearest field above that is no item itself,
//! which other readers carry along and need not understand:
//!
//! ```text
//! pilum:type                           the type, where pages have those of a related type
//! pilum:item:{level}:name              the items' name, where it is not "item"
//! pilum:item:{level}:nullable          "false", where they are never null
//! pilum:item:{level}:type              as pilum:type
//! pilum:item:{level}:metadata:{key}    their metadata
//! ```
//!
//! Level 1 is the item of the list, level 2 the item of a list that is an item, and so on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, FieldRef};
use pilum_encoding::{Layout, is_beyond_v1, logical_type, parse_logical_type};

const ITEM: &str = "pilum:item:";
pub(crate) const TYPE: &str = "pilum:type";

/// The declarations of one field, out of its metadata.
pub(crate) type Declarations = BTreeMap<String, String>;

/// True for a key in the metadata of a field with this logical type that is part of the type: not the user's, and never
/// edited alone.
#[must_use]
pub fn is_type_declaration(logical_type: &str, key: &str) -> bool {
    let is_list = logical_type.starts_with("fixed_size_list:")
        || matches!(
            logical_type,
            "list" | "list.struct" | "large_list" | "large_list.struct"
        );
    key == TYPE || is_list && key.starts_with(ITEM)
}

/// As [`is_type_declaration`], for an Arrow type.
pub(crate) fn declares(data_type: &DataType, key: &str) -> bool {
    let is_list = matches!(
        data_type,
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
    );
    key == TYPE || is_list && key.starts_with(ITEM)
}

/// True for the types of lists whose items readers of v1 take for nullable fields "item" without metadata.
pub(crate) fn has_plain_item(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::LargeList(_))
}

/// True for a fixed-size list that is one page with its items.
fn is_flattened(data_type: &DataType) -> bool {
    matches!(data_type, DataType::FixedSizeList(..))
        && !matches!(Layout::of(data_type), Ok(Layout::Items { .. }))
}

/// The related type, of v1 where there is one, that the pages of `data_type` have.
pub(crate) fn plain(data_type: &DataType) -> DataType {
    let item = |item: &FieldRef| Arc::new(ArrowField::new("item", plain(item.data_type()), true));
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(index, value) => {
            DataType::Dictionary(index.clone(), Box::new(plain(value)))
        }
        DataType::List(it) => DataType::List(item(it)),
        DataType::LargeList(it) => DataType::LargeList(item(it)),
        DataType::Struct(members) => {
            let member = |it: &FieldRef| it.as_ref().clone().with_data_type(plain(it.data_type()));
            DataType::Struct(members.iter().map(member).collect())
        }
        flattened if is_flattened(flattened) => {
            let named = logical_type(&ArrowField::new("", flattened.clone(), true));
            let parsed = named.and_then(|name| parse_logical_type(&name, Vec::new()));
            parsed.unwrap_or_else(|_| flattened.clone())
        }
        other => other.clone(),
    }
}

/// What `field` declares of its type and of its items, beyond the plain type.
pub(crate) fn declarations(field: &ArrowField) -> Declarations {
    let mut found = Declarations::new();
    let whole = plain(field.data_type());
    let (mut declared, mut plain, mut level) = (field, &whole, 0_usize);
    loop {
        if let Some(name) = declared_type(declared) {
            found.insert(key(level, "type"), name);
        }
        let (item, known) = match (declared.data_type(), plain) {
            (DataType::List(item), DataType::List(known))
            | (DataType::LargeList(item), DataType::LargeList(known)) => (item, known),
            (list @ DataType::FixedSizeList(item, _), DataType::FixedSizeList(known, _))
                if is_flattened(list) =>
            {
                (item, known)
            }
            _ => return found,
        };
        level += 1;
        if item.name() != known.name() {
            found.insert(key(level, "name"), item.name().clone());
        }
        if item.is_nullable() != known.is_nullable() {
            found.insert(key(level, "nullable"), item.is_nullable().to_string());
        }
        for (name, value) in item.metadata() {
            if known.metadata().get(name) != Some(value) {
                found.insert(key(level, &format!("metadata:{name}")), value.clone());
            }
        }
        (declared, plain) = (item, known.data_type());
    }
}

fn key(level: usize, word: &str) -> String {
    match level {
        0 => format!("pilum:{word}"),
        _ => format!("{ITEM}{level}:{word}"),
    }
}

/// The name of a type whose pages have those of a related type of v1.
pub(crate) fn declared_type(field: &ArrowField) -> Option<String> {
    let data_type = field.data_type();
    let is_view = |it: &DataType| matches!(it, DataType::Utf8View | DataType::BinaryView);
    let is_declared = match data_type {
        // Other writers store every dictionary as one without order, and refuse rows for one with.
        DataType::Dictionary(_, value) => is_view(value) || field.dict_is_ordered() == Some(true),
        other => is_view(other),
    };
    let is_declared = is_declared && !is_beyond_v1(&plain(data_type));
    is_declared.then(|| logical_type(field).ok()).flatten()
}

/// Takes the declarations out of the metadata of a field with this logical type.
pub(crate) fn taken(logical_type: &str, metadata: &mut BTreeMap<String, String>) -> Declarations {
    metadata
        .extract_if(.., |key, _| is_type_declaration(logical_type, key))
        .collect()
}

/// What is declared of the items at one level; level 0 is the field with the metadata itself.
pub(crate) struct Declared<'a> {
    declarations: &'a Declarations,
    level: usize,
}

impl<'a> Declared<'a> {
    /// Of the field itself; `None` if it declares nothing.
    pub(crate) fn of(declarations: &'a Declarations) -> Option<Self> {
        (!declarations.is_empty()).then_some(Self {
            declarations,
            level: 0,
        })
    }

    /// Of the items.
    pub(crate) fn item(&self) -> Self {
        Self {
            declarations: self.declarations,
            level: self.level + 1,
        }
    }

    fn word(&self, word: &str) -> Option<&'a String> {
        self.declarations.get(&key(self.level, word))
    }

    pub(crate) fn name(&self) -> Option<&'a String> {
        self.word("name")
    }

    pub(crate) fn nullable(&self) -> Option<bool> {
        self.word("nullable").map(|nullable| nullable != "false")
    }

    pub(crate) fn metadata(&self) -> impl Iterator<Item = (String, String)> {
        let start = key(self.level, "metadata:");
        let all = self.declarations.iter();
        all.filter_map(move |(key, value)| {
            Some((key.strip_prefix(&start)?.to_owned(), value.clone()))
        })
    }

    /// The type that is declared for pages of the type `stored`, and whether it is a dictionary with an order. A declaration
    /// that does not fit, because another writer changed the type, means nothing.
    pub(crate) fn data_type(&self, stored: &DataType) -> Option<(DataType, bool)> {
        let name = self.word("type")?;
        let declared = parse_logical_type(name, Vec::new()).ok()?;
        let is_ordered = matches!(declared, DataType::Dictionary(..)) && name.ends_with(":true");
        (plain(&declared) == *stored).then_some((declared, is_ordered))
    }

    /// A flattened list with its items as they were declared.
    pub(crate) fn flattened(&self, plain: &DataType) -> DataType {
        let DataType::FixedSizeList(known, size) = plain else {
            return plain.clone();
        };
        let item = self.item();
        let name = item.name().unwrap_or_else(|| known.name());
        let nullable = item.nullable().unwrap_or_else(|| known.is_nullable());
        let metadata: HashMap<String, String> = (known.metadata().clone().into_iter())
            .chain(item.metadata())
            .collect();
        let made = ArrowField::new(name, item.flattened(known.data_type()), nullable);
        DataType::FixedSizeList(Arc::new(made.with_metadata(metadata)), *size)
    }
}
