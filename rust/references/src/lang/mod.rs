//! The language of templates: what occurs of Jinja in reference sets, as a small evaluator with limits.
//!
//! There is no access to attributes of objects, no import, no file and no state: an expression sees its variables alone. One
//! rendering takes a bounded number of steps and makes a bounded text.

mod eval;
mod filters;
mod format;
mod lex;
mod limits;
mod number;
mod parse;
mod value;

use std::sync::Arc;

use crate::error::{Fault, Peer};
use eval::Scope;
pub(crate) use number::{parse_int, range_length};
use parse::{Node, parse};
pub(crate) use value::Value;
use value::push_int;

/// Which language the URLs of a set are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// A URL whose blocks are plain names of templates is substituted as it stands; any other URL is an expression. `gen` is
    /// expanded. This opens every set that one of the other modes opens, and never drops `gen`.
    #[default]
    Union,
    /// As fsspec with `simple_templates=True`, its default: Python's `str.format`. `gen` is ignored.
    Simple,
    /// As fsspec with `simple_templates=False`: Jinja. `gen` is expanded.
    Full,
}

/// A compiled template.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    nodes: Vec<Node>,
    source: String,
}

impl Template {
    pub(crate) fn compile(source: &str) -> Result<Self, Fault> {
        const MOST: usize = 64 << 10;
        if source.len() > MOST {
            return Err(Fault::limit(format!(
                "a template has more than {MOST} bytes"
            )));
        }
        Ok(Self {
            nodes: parse(source)?,
            source: source.to_owned(),
        })
    }

    /// Whether the source may use a variable of this name: its text occurs in it.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.source.contains(name)
    }
}

/// The templates of a document.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    names: Vec<(Arc<str>, Value)>,
    callables: Vec<Vec<Node>>,
}

impl Templates {
    /// Adds a template or replaces one. Text with `{{` takes arguments.
    pub(crate) fn insert(&mut self, name: &str, text: &str, mode: Mode) -> Result<(), Fault> {
        let value = if text.contains("{{") {
            // The simple mode never calls a template, so it does not read it either.
            let body = match mode {
                Mode::Simple => Vec::new(),
                _ => Template::compile(text)?.nodes,
            };
            self.callables.push(body);
            Value::Callable(self.callables.len() - 1)
        } else {
            Value::text(text)
        };
        match self.names.iter_mut().find(|(it, _)| **it == *name) {
            Some((_, slot)) => *slot = value,
            None => self.names.push((name.into(), value)),
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|(it, _)| **it == *name)
    }

    /// The URL with its templates filled in, if it has any.
    pub(crate) fn url(&self, url: &str, mode: Mode) -> Result<Option<String>, Fault> {
        if !url.contains("{{") {
            return Ok(None);
        }
        match mode {
            Mode::Simple => self.simple(url).map(Some),
            Mode::Union => match self.substituted(url) {
                Some(text) => Ok(Some(text)),
                None => self.rendered(url).map(Some),
            },
            Mode::Full => self.rendered(url).map(Some),
        }
    }

    fn rendered(&self, url: &str) -> Result<String, Fault> {
        let template = Template::compile(url)?;
        let mut out = String::new();
        self.scope(&[]).render(&template.nodes, &mut out)?;
        Ok(out)
    }

    /// The text of a URL whose blocks are all plain names: `{{name}}`.
    fn substituted(&self, url: &str) -> Option<String> {
        let mut out = String::new();
        let mut rest = url;
        while let Some(begin) = rest.find('{') {
            out.push_str(rest.get(..begin)?);
            let Some(block) = rest.get(begin..)?.strip_prefix("{{") else {
                // `{%` and `{#` begin blocks of the expression language.
                if matches!(rest.as_bytes().get(begin + 1), Some(b'%' | b'#')) {
                    return None;
                }
                out.push('{');
                rest = rest.get(begin + 1..)?;
                continue;
            };
            let (name, after) = block.split_once("}}")?;
            let value = self.names.iter().find(|(it, _)| **it == *name);
            match value {
                Some((_, Value::Str(text))) => out.push_str(text),
                _ => return None,
            }
            rest = after;
        }
        out.push_str(rest);
        Some(out)
    }

    /// `{{` and `}}` become single braces, and the result goes through `str.format`.
    fn simple(&self, url: &str) -> Result<String, Fault> {
        let format = url.replace("{{", "{").replace("}}", "}");
        let names = |name: &str| {
            let found = self.names.iter().find(|(it, _)| **it == *name);
            found.map(|(_, value)| value.clone())
        };
        if let Some(name) = format.strip_prefix('{').and_then(|it| it.split('}').next())
            && matches!(names(name), Some(Value::Callable(_)))
        {
            return Err(Fault::new(
                Peer::Key,
                format!("template {name:?} takes arguments, which the mode \"simple\" cannot pass"),
            ));
        }
        format::braces(&format, &[], &names)
    }

    /// A scope with these templates and more variables, which come first.
    pub(crate) fn scope(&self, variables: &[Arc<str>]) -> Renderer<'_> {
        let mut names: Vec<(Arc<str>, Value)> = variables
            .iter()
            .map(|name| (Arc::clone(name), Value::None))
            .collect();
        names.extend(self.names.iter().cloned());
        Renderer(Scope::new(names, &self.callables))
    }
}

/// Renders templates with variables that change between two renderings.
#[derive(Debug)]
pub(crate) struct Renderer<'a>(Scope<'a>);

impl Renderer<'_> {
    /// Sets the variable at this place of the list that the scope was made with.
    pub(crate) fn set(&mut self, at: usize, value: Value) {
        self.0.set(at, value);
    }

    /// Appends the text of a template.
    pub(crate) fn template(&mut self, template: &Template, out: &mut String) -> Result<(), Fault> {
        self.0.render(&template.nodes, out)
    }

    fn render(&mut self, nodes: &[Node], out: &mut String) -> Result<(), Fault> {
        self.0.render(nodes, out)
    }
}

/// Appends an integer to a text.
pub(crate) fn append_int(out: &mut String, value: i64) {
    push_int(out, i128::from(value));
}

#[cfg(test)]
mod tests;
