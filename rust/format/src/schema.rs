//! The column tree: Arrow fields with the ids, and the protobuf fields, of a Lance schema.
//!
//! Ids belong to a table, never to a position in a file. They are given depth first (`docs/format.md`, section 2.3).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, FieldRef, Schema as ArrowSchema, SchemaRef};
use pilum_encoding::{Layout, is_beyond_v1};

use crate::error::{Error, Result, of_column};
use crate::proto::file as proto;
use crate::type_declarations::{self as declarations, Declared, has_plain_item, plain};

/// The id of a field, unique in a table. -1 stands for "no parent", -2 for a tombstone.
pub type FieldId = i32;

/// Deepest nesting of a schema that is read or written.
pub const MAX_DEPTH: usize = 64;

const EXTENSION_NAME: &str = "ARROW:extension:name";

/// The extension of texts that are JSON. Other readers of v1 take the names for a binary form of their own.
const JSON: [&str; 2] = ["arrow.json", "lance.json"];

/// A schema whose fields carry ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// Top-level fields in order.
    pub fields: Vec<Field>,
    /// Schema metadata.
    pub metadata: BTreeMap<String, String>,
}

/// One node of a [`Schema`].
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Id in the table.
    pub id: FieldId,
    /// Name, unique among its siblings.
    pub name: String,
    /// Whether a null may be stored.
    pub nullable: bool,
    /// The Arrow type, children included.
    pub data_type: DataType,
    /// Arrow field metadata, extension types included.
    pub metadata: BTreeMap<String, String>,
    /// Struct members, the one list item, the pairs of a map.
    pub children: Vec<Field>,
    /// Marked by a peer as part of an unenforced primary key; kept.
    pub primary_key: bool,
    /// Where the dictionary values lie in the file that holds this schema.
    pub dictionary: Option<DictionaryPosition>,
    /// The order of the dictionary values means something.
    pub dictionary_is_ordered: bool,
}

/// Position and count of dictionary values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DictionaryPosition {
    /// First plain byte, or the offset array of var-binary values.
    pub offset: u64,
    /// Number of values.
    pub length: u64,
}

impl From<DictionaryPosition> for proto::Dictionary {
    fn from(position: DictionaryPosition) -> Self {
        // No file has so many bytes.
        let number = |number| i64::try_from(number).unwrap_or(i64::MAX);
        Self {
            offset: number(position.offset),
            length: number(position.length),
        }
    }
}

/// The Arrow fields below a node that have ids: struct members, the item of a list or list view, the pair of a map, the item
/// of a fixed-size list that is not flattened into the list's own page.
fn arrow_children(data_type: &DataType) -> &[FieldRef] {
    match data_type {
        DataType::Struct(members) => members,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => std::slice::from_ref(item),
        DataType::FixedSizeList(item, _)
            if matches!(Layout::of(data_type), Ok(Layout::Items { .. })) =>
        {
            std::slice::from_ref(item)
        }
        _ => &[],
    }
}

impl Schema {
    /// Gives ids to an Arrow schema, depth first from `first_id`.
    ///
    /// # Errors
    /// `Unsupported` names the column whose type v1 cannot store, `InvalidInput` a bad or repeated name.
    pub fn from_arrow(schema: &ArrowSchema, first_id: FieldId) -> Result<Self> {
        let mut next_id = first_id;
        let mut names = BTreeSet::new();
        let mut fields = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            if field.name().contains('.') {
                return Err(Error::invalid(
                    format!("column `{}`", field.name()),
                    "a column name may not contain \".\"; rename it",
                ));
            }
            if !names.insert(field.name()) {
                return Err(Error::invalid(
                    format!("column `{}`", field.name()),
                    "appears twice; rename one of them",
                ));
            }
            fields.push(Field::from_arrow(field, &mut next_id, field.name(), 1)?);
        }
        let metadata = schema
            .metadata()
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        Ok(Self { fields, metadata })
    }

    /// The Arrow schema.
    #[must_use]
    pub fn to_arrow(&self) -> SchemaRef {
        let fields: Vec<FieldRef> = self.fields.iter().map(|f| Arc::new(f.to_arrow())).collect();
        let metadata: HashMap<_, _> = self.metadata.clone().into_iter().collect();
        Arc::new(ArrowSchema::new_with_metadata(fields, metadata))
    }

    /// Builds the tree from protobuf fields, which name their parents; `file` goes into errors.
    ///
    /// # Errors
    /// `Corrupt` when a parent is missing or the nesting passes [`MAX_DEPTH`], `Unsupported` for an unknown type.
    pub fn from_protos(
        file: &str,
        fields: &[proto::Field],
        metadata: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Self> {
        // Depth first order means that a parent lies on the path to the field before; a writer that does not keep the order
        // still names parents, so look for them when the path does not hold them.
        let mut nodes: Vec<Vec<usize>> = vec![Vec::new(); fields.len()];
        let mut top = Vec::new();
        let mut depth = vec![1_usize; fields.len()];
        let mut path: Vec<usize> = Vec::new();
        let mut seen: BTreeMap<FieldId, usize> = BTreeMap::new();
        for (index, field) in fields.iter().enumerate() {
            if field.parent_id == -1 {
                top.push(index);
                path.clear();
            } else {
                while path
                    .last()
                    .is_some_and(|&last| fields[last].id != field.parent_id)
                {
                    path.pop();
                }
                let parent = path
                    .last()
                    .copied()
                    .or_else(|| seen.get(&field.parent_id).copied())
                    .ok_or_else(|| {
                        let what = format!(
                            "schema: field {} has no parent {}",
                            field.id, field.parent_id
                        );
                        Error::corrupt(what).at(file)
                    })?;
                depth[index] = depth[parent] + 1;
                if depth[index] > MAX_DEPTH {
                    return Err(Error::Limit {
                        what: format!("{file}: the nesting of the schema"),
                        needed: format!("{} levels", depth[index]),
                        limit: format!("{MAX_DEPTH} levels"),
                    });
                }
                nodes[parent].push(index);
            }
            path.push(index);
            seen.entry(field.id).or_insert(index);
        }
        let fields = top
            .iter()
            .map(|&index| Field::from_proto(file, fields, &nodes, index))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            fields,
            metadata: text_map(file, metadata)?,
        })
    }

    /// The protobuf fields, depth first.
    ///
    /// # Errors
    /// `Unsupported` for a type without a Lance name.
    pub fn to_protos(&self) -> Result<Vec<proto::Field>> {
        let mut protos = Vec::new();
        for field in &self.fields {
            field.push_protos(-1, false, &mut protos)?;
        }
        Ok(protos)
    }

    /// Schema metadata as protobuf holds it.
    #[must_use]
    pub fn metadata_protos(&self) -> BTreeMap<String, Vec<u8>> {
        self.metadata
            .iter()
            .map(|(k, v)| (k.clone(), v.clone().into_bytes()))
            .collect()
    }

    /// Every node, depth first.
    pub fn walk(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().flat_map(Field::walk)
    }

    /// Whether a column has a type that v1 has no form for: a file with this schema needs the extension.
    #[must_use]
    pub fn is_beyond_v1(&self) -> bool {
        self.fields.iter().any(Field::is_beyond_v1)
    }

    /// The dotted path and the node of the first type that v1 has no form for.
    #[must_use]
    pub fn first_beyond_v1(&self) -> Option<(String, &Field)> {
        let beyond = |field: &&Field| field.is_beyond_v1();
        let mut field = self.fields.iter().find(beyond)?;
        let mut path = field.name.clone();
        // A type of v1 around one that is not is not to blame.
        while let DataType::Struct(_) | DataType::List(_) | DataType::LargeList(_) = field.data_type
            && let Some(child) = field.children.iter().find(beyond)
        {
            path = format!("{path}.{}", child.name);
            field = child;
        }
        Some((path, field))
    }

    /// The part of the schema that a file with these field ids holds: a struct may be spread over several files.
    #[must_use]
    pub fn held_by(&self, ids: &[FieldId]) -> Self {
        let fields = self.fields.iter();
        Self {
            fields: fields.filter_map(|field| field.held_by(ids)).collect(),
            metadata: BTreeMap::new(),
        }
    }

    /// Every id, depth first.
    #[must_use]
    pub fn ids(&self) -> Vec<FieldId> {
        self.walk().map(|field| field.id).collect()
    }

    /// The node with this id.
    #[must_use]
    pub fn field_by_id(&self, id: FieldId) -> Option<&Field> {
        self.walk().find(|field| field.id == id)
    }

    /// The columns named, in that order; `a.b` selects member `b` of struct `a`.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown or repeated name.
    pub fn project<S: AsRef<str>>(&self, columns: &[S]) -> Result<Self> {
        let mut fields: Vec<Field> = Vec::with_capacity(columns.len());
        for column in columns {
            let column = column.as_ref();
            let selected = select(&self.fields, column).ok_or_else(|| self.unknown(column))?;
            match fields.iter_mut().find(|field| field.name == selected.name) {
                None => fields.push(selected),
                Some(present) => {
                    if !present.merge(&selected) {
                        return Err(Error::invalid(
                            format!("column `{column}`"),
                            "is asked for twice; name it once",
                        ));
                    }
                }
            }
        }
        Ok(Self {
            fields,
            metadata: self.metadata.clone(),
        })
    }

    fn unknown(&self, column: &str) -> Error {
        let names: Vec<_> = self
            .fields
            .iter()
            .take(50)
            .map(|f| format!("`{}`", f.name))
            .collect();
        let more = if self.fields.len() > 50 { ", …" } else { "" };
        Error::invalid(
            format!("column `{column}`"),
            format!(
                "there is no column of that name; the columns are {}{more}",
                names.join(", ")
            ),
        )
    }
}

/// Finds `path` among `fields`: the whole path as a name first, then a struct and the rest.
fn select(fields: &[Field], path: &str) -> Option<Field> {
    if let Some(field) = fields.iter().find(|field| field.name == path) {
        return Some(field.clone());
    }
    path.match_indices('.').find_map(|(dot, _)| {
        let parent = fields.iter().find(|field| field.name == path[..dot])?;
        matches!(parent.data_type, DataType::Struct(_)).then_some(())?;
        let child = select(&parent.children, &path[dot + 1..])?;
        Some(parent.with_children(vec![child]))
    })
}

impl Field {
    fn from_arrow(
        field: &ArrowField,
        next_id: &mut FieldId,
        path: &str,
        depth: usize,
    ) -> Result<Self> {
        if depth > MAX_DEPTH {
            return Err(Error::invalid(
                format!("column `{path}`"),
                format!("nested deeper than {MAX_DEPTH} levels"),
            ));
        }
        // The name of the type is made here only to refuse, with the column's path, what has none.
        pilum_encoding::logical_type(field).map_err(|error| of_column(path, error).at("schema"))?;
        if let DataType::Struct(members) = field.data_type() {
            let mut names = BTreeSet::new();
            if let Some(twice) = members.iter().find(|member| !names.insert(member.name())) {
                return Err(Error::invalid(
                    format!("column `{path}.{}`", twice.name()),
                    "appears twice in its struct; rename one of them",
                ));
            }
        }
        let id = *next_id;
        *next_id = next_id
            .checked_add(1)
            .ok_or_else(|| Error::invalid("the schema", "too many columns"))?;
        let children = arrow_children(field.data_type())
            .iter()
            .map(|child| {
                Self::from_arrow(
                    child,
                    next_id,
                    &format!("{path}.{}", child.name()),
                    depth + 1,
                )
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            id,
            name: field.name().clone(),
            nullable: field.is_nullable(),
            data_type: field.data_type().clone(),
            // What the type declares is written anew: rows that come from another reader bring the old.
            metadata: field
                .metadata()
                .iter()
                .filter(|(key, _)| !declarations::declares(field.data_type(), key))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
            children,
            primary_key: false,
            dictionary: None,
            dictionary_is_ordered: field.dict_is_ordered().unwrap_or(false),
        })
    }

    fn held_by(&self, ids: &[FieldId]) -> Option<Self> {
        if !ids.contains(&self.id) {
            return None;
        }
        if !matches!(self.data_type, DataType::Struct(_)) {
            return Some(self.clone());
        }
        let members = self.children.iter();
        let members: Vec<Self> = members.filter_map(|child| child.held_by(ids)).collect();
        (!members.is_empty()).then(|| self.with_children(members))
    }

    /// Whether v1 has no form for the type, or other readers of v1 take it for another one.
    fn is_beyond_v1(&self) -> bool {
        is_beyond_v1(&plain(&self.data_type))
            || self.walk().any(|field| field.json_name().is_some())
    }

    /// The name of the extension, if this is JSON as text.
    fn json_name(&self) -> Option<&String> {
        let name = self.metadata.get(EXTENSION_NAME);
        let is_text = self.data_type != DataType::LargeBinary;
        name.filter(|name| is_text && JSON.contains(&name.as_str()))
    }

    /// The type as a message tells it.
    #[must_use]
    pub fn shown_type(&self) -> String {
        match self.json_name() {
            Some(name) => format!("{name} stored as {}", self.data_type),
            None => self.data_type.to_string(),
        }
    }

    /// This node and every node below it, depth first.
    pub fn walk(&self) -> impl Iterator<Item = &Self> {
        let mut stack = vec![self];
        std::iter::from_fn(move || {
            let field = stack.pop()?;
            stack.extend(field.children.iter().rev());
            Some(field)
        })
    }

    /// The Arrow field.
    #[must_use]
    pub fn to_arrow(&self) -> ArrowField {
        let metadata: HashMap<_, _> = self.metadata.clone().into_iter().collect();
        ArrowField::new(&self.name, self.data_type.clone(), self.nullable)
            .with_dict_is_ordered(self.dictionary_is_ordered)
            .with_metadata(metadata)
    }

    /// The same node over other children: its type follows.
    #[must_use]
    pub fn with_children(&self, children: Vec<Self>) -> Self {
        let mut arrow: Vec<FieldRef> = children.iter().map(|c| Arc::new(c.to_arrow())).collect();
        let data_type = match (&self.data_type, arrow.pop()) {
            (DataType::List(_), Some(item)) => DataType::List(item),
            (DataType::LargeList(_), Some(item)) => DataType::LargeList(item),
            (DataType::ListView(_), Some(item)) => DataType::ListView(item),
            (DataType::LargeListView(_), Some(item)) => DataType::LargeListView(item),
            (DataType::Map(_, sorted), Some(entries)) => DataType::Map(entries, *sorted),
            (DataType::FixedSizeList(_, n), Some(item)) => DataType::FixedSizeList(item, *n),
            (DataType::Struct(_), last) => {
                arrow.extend(last);
                DataType::Struct(arrow.into())
            }
            (other, _) => other.clone(),
        };
        Self {
            data_type,
            children,
            ..self.clone()
        }
    }

    /// Adds the members of `other`, a projection of the same struct; false if a member is there already.
    fn merge(&mut self, other: &Self) -> bool {
        let mut children = std::mem::take(&mut self.children);
        let mut fresh = !children.is_empty();
        for child in &other.children {
            match children.iter_mut().find(|present| present.id == child.id) {
                Some(present) => fresh &= present.merge(child),
                None => children.push(child.clone()),
            }
        }
        *self = self.with_children(children);
        fresh
    }

    fn from_proto(
        file: &str,
        fields: &[proto::Field],
        nodes: &[Vec<usize>],
        index: usize,
    ) -> Result<Self> {
        let field = &fields[index];
        let children = nodes[index]
            .iter()
            .map(|&child| Self::from_proto(file, fields, nodes, child))
            .collect::<Result<Vec<_>>>()?;
        let arrow = children
            .iter()
            .map(|child| Arc::new(child.to_arrow()))
            .collect();
        let data_type = pilum_encoding::parse_logical_type(&field.logical_type, arrow)
            .map_err(|error| of_column(&field.name, error).at(file))?;
        let mut metadata = text_map(file, &field.metadata)?;
        let declared = declarations::taken(&field.logical_type, &mut metadata);
        if !field.extension_name.is_empty() {
            metadata
                .entry(EXTENSION_NAME.to_owned())
                .or_insert_with(|| field.extension_name.clone());
        }
        let dictionary = field
            .dictionary
            .as_ref()
            .map(|d| {
                let offset = u64::try_from(d.offset);
                let length = u64::try_from(d.length);
                match (offset, length) {
                    (Ok(offset), Ok(length)) => Ok(DictionaryPosition { offset, length }),
                    _ => Err(
                        Error::corrupt(format!("dictionary of `{}`: negative", field.name))
                            .at(file),
                    ),
                }
            })
            .transpose()?;
        let stored = Self {
            id: field.id,
            name: field.name.clone(),
            nullable: field.nullable,
            data_type,
            metadata,
            children,
            primary_key: field.unenforced_primary_key,
            dictionary,
            dictionary_is_ordered: field.logical_type.starts_with("dict:")
                && field.logical_type.ends_with(":true"),
        };
        Ok(match Declared::of(&declared) {
            Some(declared) => stored.declared(&declared),
            None => stored,
        })
    }

    /// The field with its type, and its items, as they were declared.
    fn declared(mut self, declared: &Declared<'_>) -> Self {
        if let Some((data_type, is_ordered)) = declared.data_type(&self.data_type) {
            self.data_type = data_type;
            self.dictionary_is_ordered = is_ordered;
        }
        if self.children.is_empty() {
            self.data_type = declared.flattened(&self.data_type);
            return self;
        }
        if !has_plain_item(&self.data_type) {
            return self;
        }
        let of_item = declared.item();
        let children = std::mem::take(&mut self.children).into_iter();
        let children = children.map(|mut item| {
            if let Some(name) = of_item.name() {
                item.name.clone_from(name);
            }
            item.nullable = of_item.nullable().unwrap_or(item.nullable);
            item.metadata.extend(of_item.metadata());
            item.declared(&of_item)
        });
        let children = children.collect();
        self.with_children(children)
    }

    /// `is_plain_item`: this is the item of a list, which declares it; readers of v1 know no other items than nullable fields
    /// "item" without metadata.
    fn push_protos(
        &self,
        parent_id: FieldId,
        is_plain_item: bool,
        protos: &mut Vec<proto::Field>,
    ) -> Result<()> {
        let arrow = self.to_arrow();
        let failed = |error| of_column(&self.name, error).at("schema");
        let stored = match declarations::declared_type(&arrow) {
            Some(_) => arrow.clone().with_dict_is_ordered(false),
            None => arrow.clone(),
        };
        let stored = stored.with_data_type(plain(&self.data_type));
        let logical_type = pilum_encoding::logical_type(&stored).map_err(failed)?;
        let metadata = if is_plain_item {
            BTreeMap::new()
        } else {
            let mut metadata = self.metadata.clone();
            metadata.extend(declarations::declarations(&arrow));
            metadata
        };
        let name = match is_plain_item {
            true => "item".to_owned(),
            false => self.name.clone(),
        };
        protos.push(proto::Field {
            r#type: 0,
            name,
            id: self.id,
            parent_id,
            logical_type,
            nullable: self.nullable || is_plain_item,
            encoding: pilum_encoding::page_encoding(stored.data_type()).map_err(failed)? as i32,
            dictionary: self.dictionary.map(Into::into),
            extension_name: metadata.get(EXTENSION_NAME).cloned().unwrap_or_default(),
            metadata: metadata
                .into_iter()
                .map(|(key, value)| (key, value.into_bytes()))
                .collect(),
            unenforced_primary_key: self.primary_key,
        });
        for child in &self.children {
            child.push_protos(self.id, has_plain_item(&self.data_type), protos)?;
        }
        Ok(())
    }
}

/// Protobuf metadata as text; Arrow metadata is text only.
fn text_map(file: &str, map: &BTreeMap<String, Vec<u8>>) -> Result<BTreeMap<String, String>> {
    map.iter()
        .map(|(key, value)| match String::from_utf8(value.clone()) {
            Ok(value) => Ok((key.clone(), value)),
            Err(_) => Err(Error::corrupt(format!("schema metadata `{key}` is not UTF-8")).at(file)),
        })
        .collect()
}
