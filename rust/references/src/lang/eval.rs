//! Evaluates parsed templates. The work of one rendering is bounded: steps, length of text, nesting.

use std::sync::Arc;

use crate::error::{Fault, Peer};
use crate::lang::filters::{Given, add, contains, filter, method, test};
use crate::lang::format::{check_length, percent};
use crate::lang::limits::{MAX_DEPTH, MAX_TEXT};
use crate::lang::number::range_length;
use crate::lang::parse::{Arguments, Expr, Node};
use crate::lang::value::Value;

/// The steps that one rendering may take.
const MOST_STEPS: u64 = 200_000;

/// The variables of a rendering, and what is left of its budget.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    names: Vec<(Arc<str>, Value)>,
    callables: &'a [Vec<Node>],
    steps: u64,
    depth: usize,
}

impl<'a> Scope<'a> {
    /// A scope with these variables; `callables` are the bodies of templates with arguments.
    pub(crate) fn new(names: Vec<(Arc<str>, Value)>, callables: &'a [Vec<Node>]) -> Self {
        Self {
            names,
            callables,
            steps: MOST_STEPS,
            depth: 0,
        }
    }

    /// Sets the variable at a place of the list that `new` got.
    pub(crate) fn set(&mut self, at: usize, value: Value) {
        if let Some((_, slot)) = self.names.get_mut(at) {
            *slot = value;
        }
    }

    /// Appends the rendered nodes.
    pub(crate) fn render(&mut self, nodes: &[Node], out: &mut String) -> Result<(), Fault> {
        self.steps = MOST_STEPS;
        let known = self.names.len();
        let rendered = self.nodes(nodes, out);
        self.names.truncate(known);
        rendered
    }

    fn step(&mut self, cost: usize) -> Result<(), Fault> {
        let left = self.steps.checked_sub(1 + cost as u64);
        self.steps = left.ok_or_else(|| {
            Fault::limit(format!("a template takes more than {MOST_STEPS} steps"))
        })?;
        Ok(())
    }

    fn nodes(&mut self, nodes: &[Node], out: &mut String) -> Result<(), Fault> {
        for node in nodes {
            self.step(0)?;
            match node {
                Node::Text(text) => out.push_str(text),
                Node::Output(Expr::Const(value)) => value.print(out)?,
                Node::Output(expr) => self.value(expr)?.print(out)?,
                Node::If(branches, otherwise) => {
                    let mut body = otherwise;
                    for (condition, branch) in branches {
                        if self.value(condition)?.is_true() {
                            body = branch;
                            break;
                        }
                    }
                    self.nodes(body, out)?;
                }
                Node::Set(name, expr) => {
                    let value = self.value(expr)?;
                    self.names.push((Arc::clone(name), value));
                }
                Node::For { .. } => self.repeated(node, out)?,
            }
            check_length(out)?;
        }
        Ok(())
    }

    fn repeated(&mut self, node: &Node, out: &mut String) -> Result<(), Fault> {
        let Node::For {
            targets,
            over,
            only,
            body,
            otherwise,
        } = node
        else {
            return Ok(());
        };
        let items = self.value(over)?.elements()?;
        let known = self.names.len();
        let mut kept = Vec::new();
        for item in items {
            self.step(0)?;
            self.bind(targets, &item)?;
            let is_kept = match only {
                Some(only) => self.value(only)?.is_true(),
                None => true,
            };
            self.names.truncate(known);
            if is_kept {
                kept.push(item);
            }
        }
        let count = kept.len();
        for (at, item) in kept.iter().enumerate() {
            self.bind(targets, item)?;
            self.names.push(("loop".into(), loop_value(at, count)));
            let rendered = self.nodes(body, out);
            self.names.truncate(known);
            rendered?;
        }
        if count == 0 {
            self.nodes(otherwise, out)?;
        }
        Ok(())
    }

    fn bind(&mut self, targets: &[Arc<str>], item: &Value) -> Result<(), Fault> {
        if let [only] = targets {
            self.names.push((Arc::clone(only), item.clone()));
            return Ok(());
        }
        let parts = item.elements()?;
        if parts.len() != targets.len() {
            return Err(Fault::value(
                "an item has another number of parts than {% for %} names",
            ));
        }
        for (name, part) in targets.iter().zip(parts) {
            self.names.push((Arc::clone(name), part));
        }
        Ok(())
    }

    fn name(&self, name: &Arc<str>) -> Value {
        let found = self.names.iter().rev().find(|(it, _)| it == name);
        found.map_or_else(
            || Value::Undefined(Arc::clone(name)),
            |(_, value)| value.clone(),
        )
    }

    fn value(&mut self, expr: &Expr) -> Result<Value, Fault> {
        self.step(0)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH * 8 {
            return Err(Fault::limit("an expression is nested too deeply"));
        }
        let value = self.evaluated(expr);
        self.depth -= 1;
        value
    }

    fn values(&mut self, exprs: &[Expr]) -> Result<Vec<Value>, Fault> {
        exprs.iter().map(|it| self.value(it)).collect()
    }

    fn evaluated(&mut self, expr: &Expr) -> Result<Value, Fault> {
        Ok(match expr {
            Expr::Const(value) => value.clone(),
            Expr::Name(name) => self.name(name),
            Expr::List(items) => Value::List(Arc::new(self.values(items)?)),
            Expr::Tuple(items) => Value::Tuple(Arc::new(self.values(items)?)),
            Expr::Dict(items) => self.dict(items)?,
            Expr::Negative(of) => match self.value(of)? {
                Value::Float(it) => Value::Float(-it),
                other => Value::Int(integer(&other)?.checked_neg().ok_or_else(too_large)?),
            },
            Expr::Positive(of) => match self.value(of)? {
                Value::Float(it) => Value::Float(it),
                other => Value::Int(integer(&other)?),
            },
            Expr::Not(of) => Value::Bool(!self.value(of)?.is_true()),
            Expr::And(a, b) => {
                let first = self.value(a)?;
                if first.is_true() {
                    self.value(b)?
                } else {
                    first
                }
            }
            Expr::Or(a, b) => {
                let first = self.value(a)?;
                if first.is_true() {
                    first
                } else {
                    self.value(b)?
                }
            }
            Expr::If(condition, then, otherwise) => {
                match (self.value(condition)?.is_true(), otherwise) {
                    (true, _) => self.value(then)?,
                    (false, Some(otherwise)) => self.value(otherwise)?,
                    (false, None) => Value::Undefined("a value without `else`".into()),
                }
            }
            Expr::Concat(parts) => {
                let mut text = String::new();
                for part in parts {
                    self.value(part)?.print(&mut text)?;
                    check_length(&text)?;
                }
                self.step(text.len() / 16)?;
                Value::text(text)
            }
            Expr::Binary(operator, a, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                let made = binary(operator, &a, &b)?;
                self.step(weight(&made))?;
                made
            }
            Expr::Compare(first, others) => self.compared(first, others)?,
            Expr::Attribute(of, name) => {
                let of = self.value(of)?;
                attribute(&of, name)?
            }
            Expr::Item(of, index) => {
                let (of, index) = (self.value(of)?, self.value(index)?);
                item(&of, &index)?
            }
            Expr::Slice(of, bounds) => self.sliced(of, bounds)?,
            Expr::Call(of, arguments) => self.called(of, arguments)?,
            Expr::Filter(of, name, arguments) => {
                let of = self.value(of)?;
                let given = self.given(arguments)?;
                let made = filter(name, &of, &given)?;
                self.step(weight(&made))?;
                made
            }
            Expr::Test(of, name, arguments, negated) => {
                let of = self.value(of)?;
                let given = self.given(arguments)?;
                Value::Bool(test(name, &of, &given)? != *negated)
            }
        })
    }

    fn dict(&mut self, items: &[(Expr, Expr)]) -> Result<Value, Fault> {
        let mut made: Vec<(Value, Value)> = Vec::with_capacity(items.len());
        for (key, value) in items {
            let (key, value) = (self.value(key)?, self.value(value)?);
            match made.iter_mut().find(|(it, _)| it.equals(&key)) {
                Some((_, slot)) => *slot = value,
                None => made.push((key, value)),
            }
        }
        Ok(Value::Dict(Arc::new(made)))
    }

    fn sliced(&mut self, of: &Expr, bounds: &[Option<Box<Expr>>; 3]) -> Result<Value, Fault> {
        let of = self.value(of)?;
        let mut parts = [None, None, None];
        for (part, bound) in parts.iter_mut().zip(bounds) {
            let bound = bound.as_ref().map(|bound| self.value(bound));
            let bound = bound.transpose()?.filter(|it| !matches!(it, Value::None));
            *part = bound.as_ref().map(integer).transpose()?;
        }
        slice(&of, parts)
    }

    fn compared(&mut self, first: &Expr, others: &[(&'static str, Expr)]) -> Result<Value, Fault> {
        let mut left = self.value(first)?;
        for (operator, right) in others {
            let right = self.value(right)?;
            let holds = match *operator {
                "==" => left.equals(&right),
                "!=" => !left.equals(&right),
                "in" => contains(&right, &left)?,
                "not in" => !contains(&right, &left)?,
                other => {
                    let order = left.order(&right)?;
                    match other {
                        "<" => order.is_some_and(std::cmp::Ordering::is_lt),
                        "<=" => order.is_some_and(std::cmp::Ordering::is_le),
                        ">" => order.is_some_and(std::cmp::Ordering::is_gt),
                        _ => order.is_some_and(std::cmp::Ordering::is_ge),
                    }
                }
            };
            if !holds {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    fn given(&mut self, arguments: &Arguments) -> Result<Given, Fault> {
        let mut given = Given {
            positional: self.values(&arguments.positional)?,
            named: Vec::with_capacity(arguments.named.len()),
        };
        for (name, value) in &arguments.named {
            if given.named.iter().any(|(it, _)| it == name) {
                return Err(Fault::value(format!("argument {name:?} is given twice")));
            }
            given.named.push((name.clone(), self.value(value)?));
        }
        Ok(given)
    }

    fn called(&mut self, of: &Expr, arguments: &Arguments) -> Result<Value, Fault> {
        if let Expr::Attribute(of, name) = of {
            let of = self.value(of)?;
            let given = self.given(arguments)?;
            let made = method(&of, name, &given)?;
            self.step(weight(&made))?;
            return Ok(made);
        }
        let function = self.value(of)?;
        let given = self.given(arguments)?;
        match function {
            Value::Callable(number) => self.template(number, given),
            Value::Range => {
                let made = range(&given)?;
                self.step(weight(&made))?;
                Ok(made)
            }
            Value::Undefined(name) => Err(Fault::value(format!("{name:?} is undefined"))),
            other => Err(Fault::type_of(format!(
                "{} cannot be called",
                other.type_name()
            ))),
        }
    }

    /// Renders a template with arguments, which alone it can see.
    fn template(&mut self, number: usize, given: Given) -> Result<Value, Fault> {
        if !given.positional.is_empty() {
            return Err(Fault::type_of(
                "a template takes arguments by name: {{name(argument='text')}}",
            ));
        }
        let body = self.callables.get(number);
        let body = body.ok_or_else(|| Fault::value("a template is undefined"))?;
        let names = given
            .named
            .into_iter()
            .map(|(name, value)| (name.into(), value));
        let mut inner = Scope {
            names: names.collect(),
            callables: self.callables,
            steps: self.steps,
            depth: self.depth + MAX_DEPTH,
        };
        if inner.depth > MAX_DEPTH * 8 {
            return Err(Fault::limit("templates call each other too deeply"));
        }
        let mut text = String::new();
        let rendered = inner.nodes(body, &mut text);
        self.steps = inner.steps;
        rendered?;
        Ok(Value::text(text))
    }
}

/// The steps that a value costs beyond the one of its expression.
fn weight(value: &Value) -> usize {
    match value {
        Value::Str(text) => text.len() / 16,
        Value::List(items) | Value::Tuple(items) => items.len(),
        _ => 0,
    }
}

fn loop_value(at: usize, count: usize) -> Value {
    let number = |it: usize| Value::Int(i128::try_from(it).unwrap_or(i128::MAX));
    let items = [
        ("index", number(at + 1)),
        ("index0", number(at)),
        ("first", Value::Bool(at == 0)),
        ("last", Value::Bool(at + 1 == count)),
        ("length", number(count)),
    ];
    let items = items
        .into_iter()
        .map(|(name, value)| (Value::text(name), value));
    Value::Dict(Arc::new(items.collect()))
}

fn too_large() -> Fault {
    Fault::limit("an integer has more than 38 digits")
}

fn integer(value: &Value) -> Result<i128, Fault> {
    if let Value::Undefined(name) = value {
        return Err(Fault::value(format!("{name:?} is undefined")));
    }
    value
        .as_int()
        .ok_or_else(|| Fault::type_of(format!("a number is expected, not {}", value.type_name())))
}

fn binary(operator: &str, a: &Value, b: &Value) -> Result<Value, Fault> {
    for side in [a, b] {
        if let Value::Undefined(name) = side {
            return Err(Fault::value(format!("{name:?} is undefined")));
        }
    }
    match (operator, a, b) {
        ("+", a, b) => return add(a, b),
        ("%", Value::Str(template), arguments) => {
            return Ok(Value::text(percent(template, arguments)?));
        }
        ("*", Value::Str(text), times) | ("*", times, Value::Str(text)) => {
            let times = usize::try_from(integer(times)?.max(0)).unwrap_or(usize::MAX);
            if text.len().saturating_mul(times) > MAX_TEXT {
                return Err(Fault::limit(format!(
                    "the text would be longer than {MAX_TEXT} bytes"
                )));
            }
            return Ok(Value::text(text.repeat(times)));
        }
        _ => {}
    }
    if let (Some(a), Some(b)) = (a.as_int(), b.as_int()) {
        return whole(operator, a, b);
    }
    let (Some(a), Some(b)) = (a.as_float(), b.as_float()) else {
        return Err(Fault::type_of(format!(
            "{operator} cannot be applied to {} and {}",
            a.type_name(),
            b.type_name()
        )));
    };
    real(operator, a, b)
}

#[expect(clippy::cast_precision_loss, reason = "the quotient is a double")]
fn whole(operator: &str, a: i128, b: i128) -> Result<Value, Fault> {
    let no_zero = || {
        if b == 0 {
            return Err(Fault::value("division by zero"));
        }
        Ok(())
    };
    let made = match operator {
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "//" => {
            no_zero()?;
            // Python's division goes towards minus infinity.
            let quotient = a.checked_div(b);
            quotient.map(|it| {
                if a % b != 0 && (a < 0) != (b < 0) {
                    it - 1
                } else {
                    it
                }
            })
        }
        "%" => {
            no_zero()?;
            let rest = a.checked_rem(b);
            rest.map(|it| {
                if it != 0 && (it < 0) != (b < 0) {
                    it + b
                } else {
                    it
                }
            })
        }
        "/" => {
            no_zero()?;
            return Ok(Value::Float(a as f64 / b as f64));
        }
        _ if b < 0 => return real("**", a as f64, b as f64),
        _ => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
    };
    made.map(Value::Int).ok_or_else(too_large)
}

fn real(operator: &str, a: f64, b: f64) -> Result<Value, Fault> {
    if b == 0.0 && matches!(operator, "/" | "//" | "%") {
        return Err(Fault::value("division by zero"));
    }
    Ok(Value::Float(match operator {
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        "//" => (a / b).floor(),
        "%" => {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
                rest + b
            } else {
                rest
            }
        }
        _ => {
            if a == 0.0 && b < 0.0 {
                return Err(Fault::value("division by zero"));
            }
            a.powf(b)
        }
    }))
}

fn attribute(of: &Value, name: &str) -> Result<Value, Fault> {
    if name.starts_with('_') {
        return Err(Fault::new(
            Peer::Attribute,
            format!("attribute {name:?} is refused: its name begins with an underscore"),
        ));
    }
    match of {
        Value::Undefined(of) => Err(Fault::value(format!("{of:?} is undefined"))),
        Value::Dict(items) => {
            let found = items
                .iter()
                .find(|(key, _)| matches!(key, Value::Str(it) if **it == *name));
            Ok(found.map_or_else(|| Value::Undefined(name.into()), |(_, value)| value.clone()))
        }
        _ => Ok(Value::Undefined(name.into())),
    }
}

fn item(of: &Value, index: &Value) -> Result<Value, Fault> {
    let missing = || Value::Undefined("an item out of range".into());
    let place = |length: usize, index: i128| {
        let length = i128::try_from(length).unwrap_or(i128::MAX);
        let at = if index < 0 { index + length } else { index };
        usize::try_from(at).ok()
    };
    match (of, index.as_int()) {
        (Value::Undefined(name), _) => Err(Fault::value(format!("{name:?} is undefined"))),
        (Value::Dict(items), _) => {
            let found = items.iter().find(|(key, _)| key.equals(index));
            Ok(found.map_or_else(missing, |(_, value)| value.clone()))
        }
        (Value::Str(text), Some(index)) => {
            let at = place(text.chars().count(), index);
            let it = at.and_then(|at| text.chars().nth(at));
            Ok(it.map_or_else(missing, |it| Value::text(it.encode_utf8(&mut [0; 4]))))
        }
        (Value::List(items) | Value::Tuple(items), Some(index)) => {
            let found = place(items.len(), index).and_then(|at| items.get(at));
            Ok(found.cloned().unwrap_or_else(missing))
        }
        (of, None) => match index {
            Value::Str(name) => attribute(of, name),
            _ => Ok(missing()),
        },
        _ => Ok(missing()),
    }
}

fn slice(of: &Value, [start, stop, step]: [Option<i128>; 3]) -> Result<Value, Fault> {
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Fault::value("the step of a slice is zero"));
    }
    let items = match of {
        Value::Str(_) | Value::List(_) | Value::Tuple(_) => of.elements()?,
        Value::Undefined(name) => return Err(Fault::value(format!("{name:?} is undefined"))),
        other => {
            return Err(Fault::type_of(format!(
                "{} has no slices",
                other.type_name()
            )));
        }
    };
    let length = i128::try_from(items.len()).unwrap_or(i128::MAX);
    let (low, high) = if step > 0 {
        (0, length)
    } else {
        (-1, length - 1)
    };
    let clamp = |bound: Option<i128>, default: i128| match bound {
        None => default,
        Some(it) if it < 0 => it.saturating_add(length).clamp(low, high),
        Some(it) => it.clamp(low, high),
    };
    let (mut at, end) = if step > 0 {
        (clamp(start, 0), clamp(stop, length))
    } else {
        (clamp(start, length - 1), clamp(stop, -1))
    };
    let mut kept = Vec::new();
    while if step > 0 { at < end } else { at > end } {
        if let Some(item) = usize::try_from(at).ok().and_then(|it| items.get(it)) {
            kept.push(item.clone());
        }
        at = at.saturating_add(step);
    }
    Ok(match of {
        Value::Str(_) => {
            let mut text = String::new();
            for item in &kept {
                item.print(&mut text)?;
            }
            Value::text(text)
        }
        Value::Tuple(_) => Value::Tuple(Arc::new(kept)),
        _ => Value::List(Arc::new(kept)),
    })
}

fn range(given: &Given) -> Result<Value, Fault> {
    let numbers: Result<Vec<i128>, Fault> = given.positional.iter().map(integer).collect();
    let (start, stop, step) = match numbers?.as_slice() {
        [stop] => (0, *stop, 1),
        [start, stop] => (*start, *stop, 1),
        [start, stop, step] => (*start, *stop, *step),
        _ => return Err(Fault::type_of("range takes one to three integers")),
    };
    let count = range_length(start, stop, step)?;
    if count > MAX_TEXT as u64 {
        return Err(Fault::limit(format!(
            "a range has more than {MAX_TEXT} items"
        )));
    }
    let items = (0..i128::from(count)).map(|it| Value::Int(start + it * step));
    Ok(Value::List(Arc::new(items.collect())))
}
