//! The format of an operation: one schema per table, read from and written to JSON and YSON attributes.

use std::collections::HashMap;
use std::sync::Arc;

use super::arrow::Strings;
use super::node::{WireNode, WireType};
use super::table::TableSchema;
use crate::error::{Error, Result};
use crate::yson::{Limits, Node, Style, Value, json_node, parse, write_json, write_node};

const SCHEMAS: &str = "table_skiff_schemas";
const REGISTRY: &str = "skiff_schema_registry";

/// Most nodes of a schema with all references resolved: registries can describe trees of any size in few bytes.
const MAX_NODES: usize = 1 << 17;
/// Most nodes that references add to all tables together, beyond the nodes that are written out.
const MAX_SHARED_NODES: usize = 1 << 18;
/// Most levels of a schema, and of references inside each other; readers and writers recurse.
const MAX_LEVELS: usize = 128;

/// Most tables of a stream: the last of the tags of 16 bits ends it.
const MAX_TABLES: usize = 65_535;

/// The schemas of the tables of a stream, in the order of their numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Format {
    tables: Vec<TableSchema>,
}

impl Format {
    /// A format of these tables.
    #[must_use]
    pub fn new(tables: Vec<TableSchema>) -> Self {
        Self { tables }
    }

    /// Reads the JSON form: `{"$value": "skiff", "$attributes": {..}}`, or the attributes alone.
    ///
    /// # Errors
    ///
    /// [`Error::Schema`] for a rule that a schema breaks, [`Error::Json`] for what is no JSON.
    pub fn from_json(text: &str, strings: Strings) -> Result<Self> {
        Self::from_node(&json_node(text, Limits::default())?, strings)
    }

    /// Reads the YSON form: `<table_skiff_schemas=[..]> skiff`, or a map of the attributes.
    ///
    /// # Errors
    ///
    /// As [`Format::from_json`]; [`Error::Yson`] for what is no YSON.
    pub fn from_yson(bytes: &[u8], strings: Strings) -> Result<Self> {
        Self::from_node(&parse(bytes, Limits::default())?, strings)
    }

    /// Reads the attributes from a YSON tree.
    ///
    /// # Errors
    ///
    /// As [`Format::from_json`].
    pub fn from_node(node: &Node, strings: Strings) -> Result<Self> {
        let get = |key| node.attribute(key).or_else(|| node.get(key));
        if let Value::String(name) = &node.value
            && name != b"skiff"
        {
            let name = name.escape_ascii();
            return Err(Error::schema(
                "the format",
                format!("it is `{name}`, not `skiff`"),
            ));
        }
        let Some(schemas) = get(SCHEMAS) else {
            return Err(Error::schema(
                "the format",
                format!("the attribute `{SCHEMAS}`, a list of one schema per table, is missing"),
            ));
        };
        let Some(schemas) = schemas.as_list() else {
            return Err(Error::schema(SCHEMAS, "it must be a list of schemas"));
        };
        if schemas.len() > MAX_TABLES {
            let reason = format!(
                "{} tables; a stream has at most {MAX_TABLES}",
                schemas.len()
            );
            return Err(Error::schema(SCHEMAS, reason));
        }
        let registry = get(REGISTRY);
        if registry.is_some_and(|registry| !matches!(registry.value, Value::Map(_))) {
            return Err(Error::schema(
                REGISTRY,
                "it must be a map from names to schemas",
            ));
        }
        let mut resolver = Resolver {
            registry,
            resolved: HashMap::new(),
            open: Vec::new(),
            num_written: 0,
        };
        let mut num_nodes = 0_usize;
        let mut tables: Vec<TableSchema> = Vec::with_capacity(schemas.len());
        // Thousands of tables may share one entry of the registry: they share one checked schema.
        let mut checked: HashMap<*const WireNode, usize> = HashMap::new();
        for (number, schema) in schemas.iter().enumerate() {
            let place = format!("table {number}");
            let Resolved {
                node: root, size, ..
            } = resolver.node(&place, schema, 0)?;
            let table = match checked
                .get(&Arc::as_ptr(&root))
                .and_then(|same| tables.get(*same))
            {
                Some(table) => table.clone(),
                None => {
                    num_nodes = num_nodes.saturating_add(size);
                    if num_nodes > resolver.num_written + MAX_SHARED_NODES {
                        let reason = format!(
                            "references add more than {MAX_SHARED_NODES} nodes to the tables up to this one; let tables of one \
                             schema refer to one entry of `{REGISTRY}`"
                        );
                        return Err(Error::schema(place, reason));
                    }
                    TableSchema::at(&place, Arc::clone(&root), strings)?
                }
            };
            checked.insert(Arc::as_ptr(&root), number);
            tables.push(table);
        }
        Ok(Self { tables })
    }

    /// The tables.
    #[must_use]
    pub fn tables(&self) -> &[TableSchema] {
        &self.tables
    }

    /// Replaces a table.
    pub(crate) fn replace_table(&mut self, table: usize, by: TableSchema) {
        if let Some(slot) = self.tables.get_mut(table) {
            *slot = by;
        }
    }

    /// The YSON form. Schemas that occur more than once go into the registry.
    #[must_use]
    pub fn to_yson(&self, style: Style) -> Vec<u8> {
        let mut out = Vec::new();
        write_node(&self.to_node(), style, false, &mut out);
        out
    }

    /// The JSON form. Schemas that occur more than once go into the registry.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = Vec::new();
        write_json(&self.to_node(), Default::default(), &mut out);
        // Names come from UTF-8 text only.
        String::from_utf8(out).unwrap_or_default()
    }

    /// What every column is on the wire and in Arrow, in words.
    #[must_use]
    pub fn explain(&self) -> String {
        super::explain::explain(&self.tables)
    }

    fn to_node(&self) -> Node {
        // Tables that share a schema are told by its address, so that it is compared once, not once per table.
        let mut firsts: HashMap<&WireNode, usize> = HashMap::new();
        let mut same: HashMap<*const WireNode, usize> = HashMap::new();
        let mut times = vec![0_usize; self.tables.len()];
        for (number, table) in self.tables.iter().enumerate() {
            let root = table.root();
            let first = *same
                .entry(Arc::as_ptr(root))
                .or_insert_with(|| *firsts.entry(root.as_ref()).or_insert(number));
            if let Some(times) = times.get_mut(first) {
                *times += 1;
            }
        }
        let mut registry: Vec<(Vec<u8>, Node)> = Vec::new();
        let mut names: HashMap<usize, String> = HashMap::new();
        let mut schemas = Vec::with_capacity(self.tables.len());
        for table in &self.tables {
            let first = same.get(&Arc::as_ptr(table.root()));
            let first = first.copied().unwrap_or_default();
            if times.get(first) == Some(&1) {
                schemas.push(node_of(table.root()));
                continue;
            }
            let name = names.entry(first).or_insert_with(|| {
                let name = format!("table{}", registry.len());
                registry.push((name.clone().into_bytes(), node_of(table.root())));
                name
            });
            schemas.push(Node::string(format!("${name}")));
        }
        let mut attributes = vec![(SCHEMAS.into(), Value::List(schemas).into())];
        if !registry.is_empty() {
            attributes.push((REGISTRY.into(), Value::Map(registry).into()));
        }
        Node {
            attributes,
            value: Value::String(b"skiff".to_vec()),
        }
    }
}

fn node_of(wire: &WireNode) -> Node {
    let mut pairs = vec![("wire_type".into(), Node::string(wire.wire_type.name()))];
    if !wire.name.is_empty() {
        pairs.push(("name".into(), Node::string(wire.name.as_str())));
    }
    if wire.wire_type.is_complex() {
        let children = wire.children.iter().map(|child| node_of(child)).collect();
        pairs.push(("children".into(), Value::List(children).into()));
    }
    Value::Map(pairs).into()
}

/// A wire node with the size of its tree. The tree shares nodes: counting it again could take time exponential in its depth.
#[derive(Clone)]
struct Resolved {
    node: Arc<WireNode>,
    size: usize,
    levels: usize,
}

/// Turns YSON nodes into wire nodes and resolves references, each entry of the registry once.
struct Resolver<'a> {
    registry: Option<&'a Node>,
    resolved: HashMap<String, Resolved>,
    /// The references that are being resolved, outermost first.
    open: Vec<String>,
    /// Nodes that were read, each once however often it is referred to.
    num_written: usize,
}

impl<'a> Resolver<'a> {
    fn node(&mut self, place: &str, node: &'a Node, depth: usize) -> Result<Resolved> {
        if depth > MAX_LEVELS {
            return Err(Error::schema(
                place,
                format!("more than {MAX_LEVELS} levels"),
            ));
        }
        match &node.value {
            Value::String(_) => {
                let reference = node.as_str().and_then(|text| text.strip_prefix('$'));
                match reference {
                    Some(key) => self.reference(place, key, depth),
                    None => Err(Error::schema(
                        place,
                        "a reference is a string that begins with `$`; a schema is a map",
                    )),
                }
            }
            Value::Map(_) => self.map(place, node, depth),
            _ => Err(Error::schema(
                place,
                "a schema is a map, or a string that refers to the registry",
            )),
        }
    }

    fn reference(&mut self, place: &str, key: &str, depth: usize) -> Result<Resolved> {
        if let Some(resolved) = self.resolved.get(key) {
            return Ok(resolved.clone());
        }
        if self.open.iter().any(|open| open == key) {
            return Err(Error::schema(
                place,
                format!("`${key}` refers to itself, directly or through other entries"),
            ));
        }
        let Some(entry) = self.registry.and_then(|registry| registry.get(key)) else {
            return Err(Error::schema(
                place,
                format!("`${key}` is not in `{REGISTRY}`; add the entry, or write the schema out"),
            ));
        };
        self.open.push(key.to_owned());
        let resolved = self.node(&format!("{place}, `${key}`"), entry, depth + 1)?;
        self.open.pop();
        self.resolved.insert(key.to_owned(), resolved.clone());
        Ok(resolved)
    }

    fn map(&mut self, place: &str, node: &'a Node, depth: usize) -> Result<Resolved> {
        let text = |key| match node.get(key) {
            None => Ok(None),
            Some(value) => match value.as_str() {
                Some(text) => Ok(Some(text)),
                None => Err(Error::schema(place, format!("`{key}` must be a string"))),
            },
        };
        let name = text("name")?.unwrap_or_default();
        let Some(wire_type) = text("wire_type")? else {
            return Err(Error::schema(
                place,
                "the key `wire_type`, such as int64 or string32, is missing",
            ));
        };
        let wire_type =
            WireType::from_name(wire_type).map_err(|reason| Error::schema(place, reason))?;
        let mut wire = WireNode::simple(wire_type).named(name);
        self.num_written += 1;
        let (mut size, mut levels) = (1, 0);
        if wire_type.is_complex() {
            let Some(children) = node.get("children").and_then(Node::as_list) else {
                return Err(Error::schema(
                    place,
                    format!("a {wire_type} needs a list `children`"),
                ));
            };
            if children.is_empty() && wire_type != WireType::Tuple {
                return Err(Error::schema(place, format!("a {wire_type} needs a child")));
            }
            for (number, child) in children.iter().enumerate() {
                let label = child.get("name").and_then(Node::as_str);
                let label = label.map_or_else(|| number.to_string(), str::to_owned);
                let child = self.node(&format!("{place}, `{label}`"), child, depth + 1)?;
                size += child.size;
                levels = levels.max(child.levels);
                if size > MAX_NODES || levels >= MAX_LEVELS {
                    let reason = format!(
                        "the schema has more than {MAX_NODES} nodes or {MAX_LEVELS} levels"
                    );
                    return Err(Error::schema(place, reason));
                }
                wire.children.push(child.node);
            }
        }
        Ok(Resolved {
            node: Arc::new(wire),
            size,
            levels: levels + 1,
        })
    }
}
