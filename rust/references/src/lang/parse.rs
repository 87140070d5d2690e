//! Parses tokens into expressions, with Jinja's precedence, which differs from Python's: `~` binds tighter than `+`, a unary minus
//! tighter than `**`, and `**` associates to the left.

use std::sync::Arc;

use crate::error::Fault;
use crate::lang::lex::{Piece, Token, pieces};
use crate::lang::limits::MAX_DEPTH;
use crate::lang::value::Value;

/// An expression.
#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Const(Value),
    Name(Arc<str>),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Concat(Vec<Expr>),
    Compare(Box<Expr>, Vec<(&'static str, Expr)>),
    If(Box<Expr>, Box<Expr>, Option<Box<Expr>>),
    Attribute(Box<Expr>, String),
    Item(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    Call(Box<Expr>, Arguments),
    Filter(Box<Expr>, String, Arguments),
    Test(Box<Expr>, String, Arguments, bool),
}

/// The arguments of a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments {
    pub(crate) positional: Vec<Expr>,
    pub(crate) named: Vec<(String, Expr)>,
}

/// A part of a parsed template.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Text(String),
    Output(Expr),
    If(Vec<(Expr, Vec<Node>)>, Vec<Node>),
    For {
        targets: Vec<Arc<str>>,
        over: Expr,
        only: Option<Expr>,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
    Set(Arc<str>, Expr),
}

/// Parses a template.
pub(crate) fn parse(source: &str) -> Result<Vec<Node>, Fault> {
    let pieces = pieces(source)?;
    let mut blocks = Blocks {
        pieces: &pieces,
        at: 0,
    };
    let (nodes, end) = blocks.nodes(0)?;
    match end {
        None => Ok(nodes),
        Some((word, _)) => Err(Fault::value(format!("{{% {word} %}} ends no block"))),
    }
}

struct Blocks<'a> {
    pieces: &'a [Piece],
    at: usize,
}

type End<'a> = Option<(String, &'a [Token])>;

impl<'a> Blocks<'a> {
    /// The nodes up to the statement that ends or continues a block, with that statement.
    fn nodes(&mut self, depth: usize) -> Result<(Vec<Node>, End<'a>), Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::limit("blocks are nested too deeply"));
        }
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.get(self.at) {
            self.at += 1;
            match piece {
                Piece::Text(text) => nodes.push(Node::Text(text.clone())),
                Piece::Output(tokens) => nodes.push(Node::Output(whole(tokens)?)),
                Piece::Statement(tokens) => {
                    let Some((Token::Name(word), rest)) = tokens.split_first() else {
                        return Err(Fault::value("a statement has no name"));
                    };
                    match word.as_str() {
                        "if" => nodes.push(self.branches(rest, depth)?),
                        "for" => nodes.push(self.repeated(rest, depth)?),
                        "set" => nodes.push(assignment(rest)?),
                        "elif" | "else" | "endif" | "endfor" => {
                            return Ok((nodes, Some((word.clone(), rest))));
                        }
                        other => {
                            return Err(Fault::value(format!(
                                "{{% {other} %}} is not supported; if, for, set and raw are"
                            )));
                        }
                    }
                }
            }
        }
        Ok((nodes, None))
    }

    fn branches(&mut self, condition: &'a [Token], depth: usize) -> Result<Node, Fault> {
        let mut branches = Vec::new();
        let mut condition = whole(condition)?;
        loop {
            let (body, end) = self.nodes(depth + 1)?;
            branches.push((condition, body));
            match end {
                Some((word, rest)) if word == "elif" => condition = whole(rest)?,
                Some((word, _)) if word == "endif" => return Ok(Node::If(branches, Vec::new())),
                Some((word, _)) if word == "else" => {
                    let (body, end) = self.nodes(depth + 1)?;
                    return match end {
                        Some((word, _)) if word == "endif" => Ok(Node::If(branches, body)),
                        _ => Err(Fault::value("{% if %} has no end: write {% endif %}")),
                    };
                }
                _ => return Err(Fault::value("{% if %} has no end: write {% endif %}")),
            }
        }
    }

    fn repeated(&mut self, head: &'a [Token], depth: usize) -> Result<Node, Fault> {
        let mut parser = Parser::new(head);
        let mut targets = vec![parser.name()?];
        while parser.takes(",") {
            targets.push(parser.name()?);
        }
        if !parser.takes_word("in") {
            return Err(Fault::value("{% for %} needs `in`"));
        }
        let over = parser.or()?;
        let only = if parser.takes_word("if") {
            Some(parser.condition()?)
        } else {
            None
        };
        parser.end()?;
        let no_end = || Fault::value("{% for %} has no end: write {% endfor %}");
        let (body, end) = self.nodes(depth + 1)?;
        let otherwise = match end {
            Some((word, _)) if word == "endfor" => Vec::new(),
            Some((word, _)) if word == "else" => {
                let (otherwise, end) = self.nodes(depth + 1)?;
                if end.is_none_or(|(word, _)| word != "endfor") {
                    return Err(no_end());
                }
                otherwise
            }
            _ => return Err(no_end()),
        };
        Ok(Node::For {
            targets,
            over,
            only,
            body,
            otherwise,
        })
    }
}

fn assignment(tokens: &[Token]) -> Result<Node, Fault> {
    let mut parser = Parser::new(tokens);
    let name = parser.name()?;
    if !parser.takes("=") {
        return Err(Fault::value("{% set %} needs `name = value`"));
    }
    let value = parser.tuple()?;
    parser.end()?;
    Ok(Node::Set(name, value))
}

/// Parses tokens that are one expression.
fn whole(tokens: &[Token]) -> Result<Expr, Fault> {
    let mut parser = Parser::new(tokens);
    let expr = parser.tuple()?;
    parser.end()?;
    Ok(expr)
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(tokens: &'a [Token]) -> Self {
        Self {
            tokens,
            at: 0,
            depth: 0,
        }
    }

    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Some(Token::Symbol(it)) if *it == symbol)
    }

    fn takes(&mut self, symbol: &str) -> bool {
        let is = self.is(symbol);
        self.at += usize::from(is);
        is
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Name(it)) if it == word);
        self.at += usize::from(is);
        is
    }

    fn expects(&mut self, symbol: &str) -> Result<(), Fault> {
        if self.takes(symbol) {
            return Ok(());
        }
        Err(Fault::value(format!("{symbol:?} is expected")))
    }

    fn name(&mut self) -> Result<Arc<str>, Fault> {
        match self.peek() {
            Some(Token::Name(name)) => {
                self.at += 1;
                Ok(name.as_str().into())
            }
            _ => Err(Fault::value("a name is expected")),
        }
    }

    fn end(&self) -> Result<(), Fault> {
        match self.peek() {
            None => Ok(()),
            Some(token) => Err(Fault::value(format!("unexpected {}", shown(token)))),
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Fault::limit("an expression is nested too deeply"));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn tuple(&mut self) -> Result<Expr, Fault> {
        let first = self.condition()?;
        if !self.is(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.takes(",") {
            if self.peek().is_none() || self.is(")") {
                break;
            }
            items.push(self.condition()?);
        }
        Ok(Expr::Tuple(items))
    }

    fn condition(&mut self) -> Result<Expr, Fault> {
        self.deeper(|it| {
            let mut value = it.or()?;
            while it.takes_word("if") {
                let test = it.or()?;
                let otherwise = if it.takes_word("else") {
                    Some(Box::new(it.condition()?))
                } else {
                    None
                };
                value = Expr::If(Box::new(test), Box::new(value), otherwise);
            }
            Ok(value)
        })
    }

    fn or(&mut self) -> Result<Expr, Fault> {
        let mut left = self.and()?;
        while self.takes_word("or") {
            left = Expr::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expr, Fault> {
        let mut left = self.not()?;
        while self.takes_word("and") {
            left = Expr::And(Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expr, Fault> {
        if self.takes_word("not") {
            return self.deeper(|it| Ok(Expr::Not(Box::new(it.not()?))));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Expr, Fault> {
        let first = self.sum()?;
        let mut others = Vec::new();
        loop {
            let symbol = ["==", "!=", "<=", ">=", "<", ">"];
            let found = symbol.into_iter().find(|it| self.is(it));
            let is_not_in = matches!(self.peek(), Some(Token::Name(it)) if it == "not")
                && matches!(self.tokens.get(self.at + 1), Some(Token::Name(it)) if it == "in");
            let operator = match found {
                Some(symbol) => {
                    self.at += 1;
                    symbol
                }
                None if is_not_in => {
                    self.at += 2;
                    "not in"
                }
                None if self.takes_word("in") => "in",
                None => break,
            };
            others.push((operator, self.sum()?));
        }
        Ok(match others.is_empty() {
            true => first,
            false => Expr::Compare(Box::new(first), others),
        })
    }

    fn binary(
        &mut self,
        symbols: &[&'static str],
        operand: fn(&mut Self) -> Result<Expr, Fault>,
    ) -> Result<Expr, Fault> {
        let mut left = operand(self)?;
        let mut count = 0;
        while let Some(symbol) = symbols.iter().copied().find(|it| self.is(it)) {
            self.at += 1;
            count += 1;
            if count > MAX_DEPTH * 4 {
                return Err(Fault::limit("an expression has too many operators"));
            }
            left = Expr::Binary(symbol, Box::new(left), Box::new(operand(self)?));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expr, Fault> {
        self.binary(&["+", "-"], Self::concat)
    }

    fn concat(&mut self) -> Result<Expr, Fault> {
        let first = self.product()?;
        if !self.is("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.takes("~") {
            parts.push(self.product()?);
        }
        Ok(Expr::Concat(parts))
    }

    fn product(&mut self) -> Result<Expr, Fault> {
        self.binary(&["*", "//", "/", "%"], Self::power)
    }

    fn power(&mut self) -> Result<Expr, Fault> {
        self.binary(&["**"], |it| it.unary(true))
    }

    fn unary(&mut self, with_filters: bool) -> Result<Expr, Fault> {
        let expr = if self.takes("-") {
            self.deeper(|it| Ok(Expr::Negative(Box::new(it.unary(false)?))))?
        } else if self.takes("+") {
            self.deeper(|it| Ok(Expr::Positive(Box::new(it.unary(false)?))))?
        } else {
            self.primary()?
        };
        let expr = self.postfix(expr)?;
        if with_filters {
            return self.filters(expr);
        }
        Ok(expr)
    }

    fn primary(&mut self) -> Result<Expr, Fault> {
        let Some(token) = self.peek() else {
            return Err(Fault::value("the expression ends too early"));
        };
        self.at += 1;
        match token {
            Token::Name(name) => Ok(match name.as_str() {
                "true" | "True" => Expr::Const(Value::Bool(true)),
                "false" | "False" => Expr::Const(Value::Bool(false)),
                "none" | "None" => Expr::Const(Value::None),
                "range" => Expr::Const(Value::Range),
                _ => Expr::Name(name.as_str().into()),
            }),
            Token::Text(first) => {
                let mut text = first.clone();
                while let Some(Token::Text(more)) = self.peek() {
                    text.push_str(more);
                    self.at += 1;
                }
                Ok(Expr::Const(Value::text(text)))
            }
            Token::Int(it) => Ok(Expr::Const(Value::Int(*it))),
            Token::Float(it) => Ok(Expr::Const(Value::Float(*it))),
            Token::Symbol("(") => self.deeper(|it| {
                if it.takes(")") {
                    return Ok(Expr::Tuple(Vec::new()));
                }
                let inner = it.tuple()?;
                it.expects(")")?;
                Ok(inner)
            }),
            Token::Symbol("[") => self.deeper(|it| {
                let mut items = Vec::new();
                while !it.takes("]") {
                    if !items.is_empty() {
                        it.expects(",")?;
                        if it.takes("]") {
                            break;
                        }
                    }
                    items.push(it.condition()?);
                }
                Ok(Expr::List(items))
            }),
            Token::Symbol("{") => self.deeper(|it| {
                let mut items = Vec::new();
                while !it.takes("}") {
                    if !items.is_empty() {
                        it.expects(",")?;
                        if it.takes("}") {
                            break;
                        }
                    }
                    let key = it.condition()?;
                    it.expects(":")?;
                    items.push((key, it.condition()?));
                }
                Ok(Expr::Dict(items))
            }),
            other => Err(Fault::value(format!("unexpected {}", shown(other)))),
        }
    }

    fn postfix(&mut self, mut expr: Expr) -> Result<Expr, Fault> {
        let mut count = 0;
        loop {
            count += 1;
            if count > MAX_DEPTH {
                return Err(Fault::limit("an expression is nested too deeply"));
            }
            if self.takes(".") {
                expr = match self.peek() {
                    Some(Token::Name(name)) => Expr::Attribute(Box::new(expr), name.clone()),
                    Some(Token::Int(index)) => {
                        Expr::Item(Box::new(expr), Box::new(Expr::Const(Value::Int(*index))))
                    }
                    _ => return Err(Fault::value("a name is expected after the dot")),
                };
                self.at += 1;
            } else if self.takes("[") {
                expr = self.subscript(expr)?;
            } else if self.takes("(") {
                let arguments = self.arguments()?;
                expr = Expr::Call(Box::new(expr), arguments);
            } else {
                return Ok(expr);
            }
        }
    }

    fn subscript(&mut self, of: Expr) -> Result<Expr, Fault> {
        self.deeper(|it| {
            let mut parts: [Option<Box<Expr>>; 3] = [None, None, None];
            let mut colons = 0;
            loop {
                if it.takes("]") {
                    break;
                }
                if it.takes(":") {
                    colons += 1;
                    if colons > 2 {
                        return Err(Fault::value("a slice has three parts at most"));
                    }
                    continue;
                }
                let slot = parts.get_mut(colons).filter(|slot| slot.is_none());
                let slot = slot.ok_or_else(|| Fault::value("\"]\" is expected"))?;
                *slot = Some(Box::new(it.tuple()?));
            }
            let [start, stop, step] = parts;
            if colons > 0 {
                return Ok(Expr::Slice(Box::new(of), [start, stop, step]));
            }
            let index = start.ok_or_else(|| Fault::value("an index is expected"))?;
            Ok(Expr::Item(Box::new(of), index))
        })
    }

    /// The arguments up to the closing bracket.
    fn arguments(&mut self) -> Result<Arguments, Fault> {
        self.deeper(|it| {
            let mut arguments = Arguments::default();
            let mut is_first = true;
            while !it.takes(")") {
                if !is_first {
                    it.expects(",")?;
                    if it.takes(")") {
                        break;
                    }
                }
                is_first = false;
                let is_named = matches!(it.peek(), Some(Token::Name(_)))
                    && matches!(it.tokens.get(it.at + 1), Some(Token::Symbol("=")));
                if is_named {
                    let name = it.name()?;
                    it.at += 1;
                    arguments.named.push((name.to_string(), it.condition()?));
                } else if arguments.named.is_empty() {
                    arguments.positional.push(it.condition()?);
                } else {
                    return Err(Fault::value("a positional argument follows a named one"));
                }
            }
            Ok(arguments)
        })
    }

    fn filters(&mut self, mut expr: Expr) -> Result<Expr, Fault> {
        let mut count = 0;
        loop {
            count += 1;
            if count > MAX_DEPTH {
                return Err(Fault::limit("an expression has too many filters"));
            }
            if self.takes("|") {
                let name = self.name()?.to_string();
                let arguments = if self.takes("(") {
                    self.arguments()?
                } else {
                    Arguments::default()
                };
                expr = Expr::Filter(Box::new(expr), name, arguments);
            } else if self.takes_word("is") {
                let negated = self.takes_word("not");
                let name = self.name()?.to_string();
                let arguments = self.test_arguments()?;
                expr = Expr::Test(Box::new(expr), name, arguments, negated);
            } else if self.takes("(") {
                let arguments = self.arguments()?;
                expr = Expr::Call(Box::new(expr), arguments);
            } else {
                return Ok(expr);
            }
        }
    }

    fn test_arguments(&mut self) -> Result<Arguments, Fault> {
        if self.takes("(") {
            return self.arguments();
        }
        let begins_value = match self.peek() {
            Some(Token::Name(word)) => !matches!(
                word.as_str(),
                "else" | "or" | "and" | "is" | "if" | "in" | "not"
            ),
            Some(Token::Text(_) | Token::Int(_) | Token::Float(_)) => true,
            Some(Token::Symbol(symbol)) => matches!(*symbol, "[" | "{"),
            None => false,
        };
        let mut arguments = Arguments::default();
        if begins_value {
            let value = self.primary()?;
            arguments.positional.push(self.postfix(value)?);
        }
        Ok(arguments)
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Name(it) => format!("{it:?}"),
        Token::Text(it) => format!("text {it:?}"),
        Token::Int(it) => it.to_string(),
        Token::Float(it) => it.to_string(),
        Token::Symbol(it) => format!("{it:?}"),
    }
}
