//! `gen`: references that expressions make over the product of dimensions. Each expression is compiled once, and evaluated
//! again only when a dimension changes that it names.

use std::sync::Arc;

use crate::error::{Fault, Peer, Result};
use crate::json::Json;
use crate::lang::{Template, Templates, Value, parse_int, range_length};
use crate::set::ReferenceSet;

/// Most references that `gen` makes, unless the caller allows more.
pub(crate) const MAX_REFERENCES: u64 = 1 << 24;
/// Most bytes of keys and URLs together: a million entries of 64 KiB each are refused before they fill the memory.
const MAX_BYTES: usize = 2 << 30;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) max_references: u64,
}

/// The values of one dimension.
enum Dimension {
    Values(Vec<Value>),
    Range { start: i128, step: i128, count: u64 },
}

impl Dimension {
    fn len(&self) -> u64 {
        match self {
            Self::Values(values) => values.len() as u64,
            Self::Range { count, .. } => *count,
        }
    }

    fn get(&self, at: u64) -> Value {
        match self {
            Self::Values(values) => {
                let value = usize::try_from(at).ok().and_then(|at| values.get(at));
                value.cloned().unwrap_or(Value::None)
            }
            Self::Range { start, step, .. } => Value::Int(start + step * i128::from(at)),
        }
    }
}

/// Appends all references of the member `gen`.
pub(crate) fn expand(
    generated: &Json,
    templates: &Templates,
    limits: Limits,
    set: &mut ReferenceSet,
) -> Result<()> {
    let entries = match generated {
        Json::Array(entries) => entries.as_slice(),
        Json::Null => &[],
        _ => return Err(Fault::type_of("an array is expected").at("gen", "value")),
    };
    let mut left = limits.max_references;
    let mut bytes_left = MAX_BYTES;
    for (at, entry) in entries.iter().enumerate() {
        let name = format!("gen[{at}]");
        let entry = Entry::of(entry, templates, &name)?;
        let mut total: u64 = 1;
        for (_, dimension) in &entry.dimensions {
            total = total.saturating_mul(dimension.len());
        }
        left = left.checked_sub(total).ok_or_else(|| {
            let reason = format!(
                "the dimensions make {total} references, and {} are allowed; raise max_references if the set is genuine",
                limits.max_references
            );
            Fault::limit(reason).at(&name, "dimensions")
        })?;
        entry.expand(templates, total, &mut bytes_left, set)?;
    }
    Ok(())
}

struct Entry<'a> {
    name: &'a str,
    dimensions: Vec<(Arc<str>, Dimension)>,
    key: Template,
    url: Template,
    range: Option<(Template, Template)>,
}

impl<'a> Entry<'a> {
    fn of(entry: &Json, templates: &Templates, name: &'a str) -> Result<Self> {
        if !matches!(entry, Json::Object(_)) {
            return Err(Fault::type_of("an object is expected").at(name, "value"));
        }
        let needed = |member: &str| {
            let missing = || Fault::new(Peer::Key, "the member is missing").at(name, member);
            entry.get(member).ok_or_else(missing)
        };
        let template = |member: &str| {
            let text = needed(member)?.as_text();
            let text = text.ok_or_else(|| {
                Fault::type_of("a text is expected; write a number in quotes").at(name, member)
            })?;
            Template::compile(text).map_err(|fault| fault.at(name, member))
        };
        let Json::Object(members) = needed("dimensions")? else {
            let fault = Fault::new(Peer::Attribute, "an object is expected");
            return Err(fault.at(name, "dimensions"));
        };
        let mut dimensions: Vec<(Arc<str>, Dimension)> = Vec::new();
        for (variable, values) in members {
            let member = format!("dimension {variable:?}");
            if templates.has(variable) {
                let reason = "a template has the same name; rename one of them";
                return Err(Fault::type_of(reason).at(name, member));
            }
            let dimension = dimension(values).map_err(|fault| fault.at(name, member))?;
            // Of equal names the last counts, at the place of the first.
            match dimensions.iter_mut().find(|(it, _)| **it == **variable) {
                Some((_, slot)) => *slot = dimension,
                None => dimensions.push((variable.as_str().into(), dimension)),
            }
        }
        let range = match (entry.get("offset").is_some(), entry.get("length").is_some()) {
            (false, false) => None,
            (true, true) => Some((template("offset")?, template("length")?)),
            (has_offset, _) => {
                let member = if has_offset { "length" } else { "offset" };
                let reason =
                    "the member is missing; offset and length stand together or not at all";
                return Err(Fault::value(reason).at(name, member));
            }
        };
        Ok(Self {
            name,
            dimensions,
            key: template("key")?,
            url: template("url")?,
            range,
        })
    }

    fn expand(
        &self,
        templates: &Templates,
        total: u64,
        bytes_left: &mut usize,
        set: &mut ReferenceSet,
    ) -> Result<()> {
        let variables: Vec<Arc<str>> = self
            .dimensions
            .iter()
            .map(|(it, _)| Arc::clone(it))
            .collect();
        let mut scope = templates.scope(&variables);
        let mut fields = Fields::of(self, &variables);
        let mut places = vec![0_u64; self.dimensions.len()];
        for (at, (_, dimension)) in self.dimensions.iter().enumerate() {
            if dimension.len() > 0 {
                scope.set(at, dimension.get(0));
            }
        }
        // The first dimension whose value differs from that of the last element.
        let mut changed = 0;
        for _ in 0..total {
            for (field, (member, text)) in fields.0.iter_mut().enumerate() {
                if !text.depends_on(changed) {
                    continue;
                }
                text.rendered.clear();
                scope
                    .template(text.template, &mut text.rendered)
                    .map_err(|fault| fault.at(self.name, *member))?;
                if field >= 2 {
                    text.number =
                        Some(int(&text.rendered).map_err(|fault| fault.at(self.name, *member))?);
                } else {
                    *bytes_left = bytes_left.checked_sub(text.rendered.len()).ok_or_else(|| {
                        Fault::limit(format!("keys and URLs take more than {MAX_BYTES} bytes"))
                            .at(self.name, *member)
                    })?;
                    text.code = None;
                }
            }
            fields.insert(set)?;
            changed = self.advance(&mut places, &mut scope);
        }
        Ok(())
    }

    /// Steps to the next element of the product, and returns the first dimension that changed.
    fn advance(&self, places: &mut [u64], scope: &mut crate::lang::Renderer<'_>) -> usize {
        for (at, (_, dimension)) in self.dimensions.iter().enumerate().rev() {
            let Some(place) = places.get_mut(at) else {
                continue;
            };
            *place += 1;
            if *place < dimension.len() {
                scope.set(at, dimension.get(*place));
                return at;
            }
            *place = 0;
            scope.set(at, dimension.get(0));
        }
        0
    }
}

/// A field's template with its last text.
struct Field<'a> {
    template: &'a Template,
    /// The last dimension that the template names: it is rendered again when this or an earlier one changes.
    last_used: Option<usize>,
    is_new: bool,
    rendered: String,
    number: Option<i64>,
    code: Option<u32>,
}

impl<'a> Field<'a> {
    fn of(template: &'a Template, variables: &[Arc<str>]) -> Self {
        Self {
            template,
            last_used: variables.iter().rposition(|name| template.mentions(name)),
            is_new: true,
            rendered: String::new(),
            number: None,
            code: None,
        }
    }

    fn depends_on(&mut self, changed: usize) -> bool {
        // When a dimension changes, all later ones begin again.
        let is_due = self.is_new || self.last_used.is_some_and(|last| last >= changed);
        self.is_new = false;
        is_due
    }
}

struct Fields<'a>(Vec<(&'static str, Field<'a>)>);

impl<'a> Fields<'a> {
    fn of(entry: &'a Entry<'_>, variables: &[Arc<str>]) -> Self {
        let mut fields = vec![
            ("key", Field::of(&entry.key, variables)),
            ("url", Field::of(&entry.url, variables)),
        ];
        if let Some((offset, length)) = &entry.range {
            fields.push(("offset", Field::of(offset, variables)));
            fields.push(("length", Field::of(length, variables)));
        }
        Self(fields)
    }

    fn insert(&mut self, set: &mut ReferenceSet) -> Result<()> {
        let [(_, key), (_, url), range @ ..] = self.0.as_mut_slice() else {
            return Ok(());
        };
        let code = match url.code {
            Some(code) => code,
            None => set.add_url(&url.rendered)?,
        };
        url.code = Some(code);
        let range = match range {
            [(_, offset), (_, length)] => offset.number.zip(length.number),
            _ => None,
        };
        set.insert_range(&key.rendered, code, range)
    }
}

fn int(text: &str) -> Result<i64, Fault> {
    let value = parse_int(text, 10).ok_or_else(|| {
        Fault::value(format!("{text:?} is no integer; use // to divide, or |int"))
    })?;
    i64::try_from(value).map_err(|_| Fault::limit(format!("{value} has more than 64 bits")))
}

fn dimension(values: &Json) -> Result<Dimension, Fault> {
    let integer = |name: &str, default: Option<i128>| -> Result<i128, Fault> {
        match values.get(name) {
            None => default
                .ok_or_else(|| Fault::new(Peer::Key, format!("the member {name:?} is missing"))),
            Some(Json::Bool(it)) => Ok(i128::from(*it)),
            Some(Json::Number(text)) => text
                .parse::<i64>()
                .map(i128::from)
                .map_err(|_| Fault::type_of(format!("{name}: {text} is no integer of 64 bits"))),
            Some(_) => Err(Fault::type_of(format!("{name}: an integer is expected"))),
        }
    };
    match values {
        Json::Array(items) => {
            let items = items.iter().map(|it| value(it, 0));
            Ok(Dimension::Values(items.collect::<Result<_, _>>()?))
        }
        Json::Object(_) => {
            let (start, stop) = (integer("start", Some(0))?, integer("stop", None)?);
            let step = integer("step", Some(1))?;
            let count = range_length(start, stop, step)?;
            Ok(Dimension::Range { start, step, count })
        }
        _ => Err(Fault::new(
            Peer::Attribute,
            "an array, or an object with start, stop and step, is expected",
        )),
    }
}

fn value(json: &Json, depth: usize) -> Result<Value, Fault> {
    if depth > 32 {
        return Err(Fault::limit("a value is nested too deeply"));
    }
    Ok(match json {
        Json::Null => Value::None,
        Json::Bool(it) => Value::Bool(*it),
        Json::Text(text) => Value::text(text),
        Json::Number(text) => match text.parse() {
            Ok(int) => Value::Int(int),
            Err(_) => Value::Float(text.parse().unwrap_or(f64::NAN)),
        },
        Json::Array(items) => {
            let items = items.iter().map(|it| value(it, depth + 1));
            Value::List(Arc::new(items.collect::<Result<_, _>>()?))
        }
        Json::Object(members) => {
            let mut made = Vec::with_capacity(members.len());
            for (name, it) in members {
                made.push((Value::text(name), value(it, depth + 1)?));
            }
            Value::Dict(Arc::new(made))
        }
    })
}
