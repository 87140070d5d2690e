//! Parses SQL text.
//!
//! Tokens come from sqlparser, so strings, names, numbers and comments follow common SQL; the grammar of expressions is our
//! own, by precedence climbing. Compared with sqlparser's tree: every error names a place, depth is limited before
//! the parser recurses, and a chain of ten thousand `OR`s is one node.

mod literal;
mod tokens;

use arrow_schema::DataType;
use sqlparser::{
    dialect::GenericDialect,
    tokenizer::{Location, Token, Tokenizer},
};

use crate::{
    display::Level,
    error::{Error, Result, shorten},
    expr::{ArithmeticOp, CompareOp, Expr, MAX_DEPTH, Node, call, coalesce, lit},
    function::Function,
    path::{ColumnPath, is_reserved},
    scalar::Scalar,
};
use tokens::{Parser, syntax};

/// Size limit of the text in bytes; tokens take up to about eighty times the text in memory.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// Nesting limit of the text. One level of the tree can take two here: parentheses and the operation inside.
const MAX_NESTING: usize = 2 * MAX_DEPTH as usize + 8;

/// The operands that the grammar accepts, for messages.
const OPERANDS: &str = "a column, a literal, NOT, CASE, CAST, TRY_CAST, COALESCE, a function (LENGTH, LOWER, UPPER, ABS, YEAR, \
    MONTH, DAY, HOUR, MINUTE, SECOND, EXTRACT, DATE_PART, DATE_TRUNC, DIVIDE, ROUND, FLOOR, CEIL, TRUNC, ISNAN, ISFINITE, \
    ISINF, STARTS_WITH, ENDS_WITH, CONTAINS, REGEXP_MATCHES, SUBSTRING, TRIM, LTRIM, RTRIM, REPLACE, CONCAT, POSITION, \
    LIST_CONTAINS) or parentheses";

/// Reads a filter or an expression.
///
/// Comparison, `AND OR NOT`, `IN`, `BETWEEN`, `IS [NOT] NULL`, `[I]LIKE … ESCAPE`, `SIMILAR TO`, arithmetic, `||`, `l[1]`,
/// `s['x']`, `m['k']`, `CAST`, `CASE`, `COALESCE`,
/// the functions of [`Function`], and typed literals: `DATE '2026-01-31'`, `TIMESTAMP '2026-01-31 12:00:00[Z]'`,
/// `TIME '12:00:00'`, `INTERVAL '2 days 3 hours'`, `X'0aff'`. Names are quoted by `"` or back ticks; `a.b` is a field of
/// a struct. A number with a point is a decimal, one with an exponent a float64.
///
/// ```
/// let filter = pilum_expr::parse_sql("qty > 3 AND name LIKE 'a%'").unwrap();
/// assert_eq!(filter.to_string(), "qty > 3 AND name LIKE 'a%'");
/// ```
///
/// # Errors
/// [`Error::Syntax`] with line and column; [`Error::Limit`] for text of more than 4 MiB.
pub fn parse_sql(text: &str) -> Result<Expr> {
    let mut parser = parser(text)?;
    let expr = parser.expression(Level::Or)?;
    match parser.peek() {
        None => Ok(expr),
        Some(_) => Err(parser.unexpected("an operator (AND, OR, =, <, IN, LIKE, +, …) or the end")),
    }
}

/// Reads the SQL name of a type: `BIGINT`, `DECIMAL(12, 2)`, `TIMESTAMP(9) WITH TIME ZONE`.
///
/// # Errors
/// [`Error::Syntax`] for any other text.
pub fn parse_type(text: &str) -> Result<DataType> {
    let mut parser = parser(text)?;
    let data_type = parser.data_type()?;
    match parser.peek() {
        None => Ok(data_type),
        Some(_) => Err(parser.unexpected("the end of the type")),
    }
}

/// The tokens of a text of limited size.
fn parser(text: &str) -> Result<Parser> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(Error::Limit {
            what: "bytes of text".into(),
            limit: MAX_TEXT_BYTES,
        });
    }
    let tokens = Tokenizer::new(&GenericDialect {}, text)
        .tokenize_with_location()
        .map_err(|error| {
            syntax(
                error.location,
                format!("{}; quote names by \" and texts by '", error.message),
            )
        })?;
    let end = tokens
        .last()
        .map_or(Location { line: 1, column: 1 }, |token| token.span.end);
    let tokens = tokens
        .into_iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .collect::<Vec<_>>();
    Ok(Parser {
        tokens,
        position: 0,
        nesting: 0,
        end,
    })
}

impl Parser {
    /// An expression whose outermost operator binds at least as tightly as `level`.
    fn expression(&mut self, level: Level) -> Result<Expr> {
        if self.nesting >= MAX_NESTING {
            return Err(self.too_deep());
        }
        self.nesting += 1;
        let place = self.place();
        let result = self.climb(level);
        self.nesting -= 1;
        match result {
            Ok(expr) if matches!(expr.node(), Node::TooDeep) => Err(syntax(
                place,
                format!("nested deeper than {MAX_DEPTH} levels; split the filter"),
            )),
            other => other,
        }
    }

    fn too_deep(&self) -> Error {
        syntax(
            self.place(),
            format!("nested deeper than {MAX_DEPTH} levels; split the filter"),
        )
    }

    fn climb(&mut self, level: Level) -> Result<Expr> {
        let mut left = self.operand()?;
        while self.symbol(&Token::LBracket) {
            let key = self.expression(Level::Or)?;
            self.expect_symbol(&Token::RBracket)?;
            left = left.element(key);
        }
        loop {
            left = if level <= Level::Or && self.is_keyword_at(0, "OR") {
                self.chain(left, "OR", Level::And)?
            } else if level <= Level::And && self.is_keyword_at(0, "AND") {
                self.chain(left, "AND", Level::Not)?
            } else if level <= Level::Predicate && self.at_predicate() {
                self.predicate(left)?
            } else if level <= Level::Append && self.symbol(&Token::StringConcat) {
                let right = self.expression(Level::Append.tighter())?;
                call(Function::Append, vec![left, right])
            } else if self.symbol(&Token::DoubleColon) {
                let data_type = self.data_type()?;
                left.cast(data_type)
            } else {
                let op = match self.peek() {
                    Some(Token::Plus) => ArithmeticOp::Add,
                    Some(Token::Minus) => ArithmeticOp::Subtract,
                    Some(Token::Mul) => ArithmeticOp::Multiply,
                    Some(Token::Div) => ArithmeticOp::Divide,
                    Some(Token::DuckIntDiv) => ArithmeticOp::IntegerDivide,
                    Some(Token::Mod) => ArithmeticOp::Modulo,
                    _ => return Ok(left),
                };
                let own = Level::of_arithmetic(op);
                if level > own {
                    return Ok(left);
                }
                self.position += 1;
                let right = self.expression(own.tighter())?;
                left.arithmetic(op, right)
            };
        }
    }

    /// The rest of a chain of `AND` or of `OR`, as one node.
    fn chain(&mut self, first: Expr, keyword: &str, term: Level) -> Result<Expr> {
        let mut terms = vec![first];
        while self.keyword(keyword) {
            terms.push(self.expression(term)?);
        }
        let chained = if term == Level::And {
            Expr::any(terms)
        } else {
            Expr::all(terms)
        };
        chained.ok_or_else(|| self.unexpected(OPERANDS))
    }

    fn at_predicate(&self) -> bool {
        let word = usize::from(self.is_keyword_at(0, "NOT"));
        compare_op(self.peek()).is_some()
            || self.is_keyword_at(0, "IS")
            || ["IN", "BETWEEN", "LIKE", "ILIKE", "SIMILAR"]
                .iter()
                .any(|k| self.is_keyword_at(word, k))
    }

    fn predicate(&mut self, left: Expr) -> Result<Expr> {
        if let Some(op) = compare_op(self.peek()) {
            self.position += 1;
            return Ok(left.compare(op, self.expression(Level::Append)?));
        }
        if self.keyword("IS") {
            return self.is(left);
        }
        let negated = self.keyword("NOT");
        let predicate = if self.keyword("IN") {
            self.expect_symbol(&Token::LParen)?;
            left.is_in(self.list()?)
        } else if self.keyword("BETWEEN") {
            let low = self.expression(Level::Append)?;
            self.expect_keyword("AND")?;
            left.between(low, self.expression(Level::Append)?)
        } else if self.keyword("SIMILAR") {
            self.expect_keyword("TO")?;
            let pattern = self.expression(Level::Append)?;
            call(Function::SimilarTo, vec![left, pattern])
        } else {
            let ignore_case = self.keyword("ILIKE");
            if !ignore_case {
                self.expect_keyword("LIKE")?;
            }
            let pattern = self.expression(Level::Append)?;
            let escape = if self.keyword("ESCAPE") {
                self.escape()?
            } else {
                None
            };
            left.like_with(pattern, escape, ignore_case)
        };
        Ok(if negated { predicate.not() } else { predicate })
    }

    /// What follows `IS`.
    fn is(&mut self, left: Expr) -> Result<Expr> {
        let negated = self.keyword("NOT");
        let predicate = if self.keyword("NULL") {
            left.is_null()
        } else if self.keyword("TRUE") {
            left.is_truth(true)
        } else if self.keyword("FALSE") {
            left.is_truth(false)
        } else if self.keyword("DISTINCT") {
            self.expect_keyword("FROM")?;
            left.is_distinct_from(self.expression(Level::Append)?)
        } else {
            return Err(self.unexpected("NULL, TRUE, FALSE or DISTINCT FROM"));
        };
        Ok(if negated { predicate.not() } else { predicate })
    }

    /// One character, or an empty text for none.
    fn escape(&mut self) -> Result<Option<char>> {
        if let Some(Token::SingleQuotedString(text)) = self.peek() {
            let mut chars = text.chars();
            let escape = chars.next();
            if chars.next().is_none() {
                self.position += 1;
                return Ok(escape);
            }
        }
        Err(self.unexpected("one character in quotes"))
    }

    /// Expressions up to the closing parenthesis; the opening one is read.
    fn list(&mut self) -> Result<Vec<Expr>> {
        let mut items = Vec::new();
        if self.symbol(&Token::RParen) {
            return Ok(items);
        }
        loop {
            items.push(self.expression(Level::Or)?);
            if self.symbol(&Token::RParen) {
                return Ok(items);
            }
            if !self.symbol(&Token::Comma) {
                return Err(self.unexpected("a comma or a closing parenthesis"));
            }
        }
    }

    /// The arguments of `SUBSTRING(text FROM start [FOR length])`, or with commas.
    fn substring(&mut self) -> Result<Vec<Expr>> {
        let mut arguments = vec![self.expression(Level::Or)?];
        if self.symbol(&Token::Comma) {
            arguments.extend(self.list()?);
            return Ok(arguments);
        }
        self.expect_keyword("FROM")?;
        arguments.push(self.expression(Level::Or)?);
        if self.keyword("FOR") {
            arguments.push(self.expression(Level::Or)?);
        }
        self.expect_symbol(&Token::RParen)?;
        Ok(arguments)
    }

    /// `TRIM(text)`, `TRIM(text, characters)`, `TRIM([BOTH | LEADING | TRAILING] [characters] FROM text)`.
    fn trim(&mut self) -> Result<Expr> {
        let sides = [
            ("BOTH", Function::Trim),
            ("LEADING", Function::LTrim),
            ("TRAILING", Function::RTrim),
        ];
        // A column may have the name of a side.
        let names_a_side = matches!(
            self.peek_at(1),
            Some(Token::Word(_) | Token::SingleQuotedString(_) | Token::LParen)
        );
        let side = sides
            .into_iter()
            .find(|(word, _)| names_a_side && self.keyword(word))
            .map(|(_, function)| function);
        let function = side.unwrap_or(Function::Trim);
        if side.is_some() && self.keyword("FROM") {
            let text = self.expression(Level::Or)?;
            self.expect_symbol(&Token::RParen)?;
            return Ok(call(function, vec![text]));
        }
        let first = self.expression(Level::Or)?;
        if side.is_some() && !self.is_keyword_at(0, "FROM") {
            return Err(self.unexpected("FROM"));
        }
        if self.keyword("FROM") {
            let text = self.expression(Level::Or)?;
            self.expect_symbol(&Token::RParen)?;
            return Ok(call(function, vec![text, first]));
        }
        let mut arguments = vec![first];
        if self.symbol(&Token::Comma) {
            arguments.push(self.expression(Level::Or)?);
        }
        self.expect_symbol(&Token::RParen)?;
        Ok(call(function, arguments))
    }

    fn operand(&mut self) -> Result<Expr> {
        match self.peek() {
            Some(Token::LParen) => {
                self.position += 1;
                let inner = self.expression(Level::Or)?;
                self.expect_symbol(&Token::RParen)?;
                Ok(inner)
            }
            Some(Token::Minus) => {
                self.position += 1;
                if let Some(Token::Number(..)) = self.peek() {
                    return self.number("-");
                }
                Ok(self.expression(Level::Sign)?.neg())
            }
            Some(Token::Plus) => {
                self.position += 1;
                self.expression(Level::Sign)
            }
            Some(Token::Number(..)) => self.number(""),
            Some(Token::SingleQuotedString(_) | Token::HexStringLiteral(_)) => self.text(),
            Some(Token::Word(word)) if word.quote_style.is_some() => self.column(),
            Some(Token::Word(_)) => self.word(),
            _ => Err(self.unexpected(OPERANDS)),
        }
    }

    fn word(&mut self) -> Result<Expr> {
        let word = self.word_at(0).unwrap_or_default().to_ascii_uppercase();
        let opens = self.peek_at(1) == Some(&Token::LParen);
        match word.as_str() {
            "NOT" => {
                self.position += 1;
                Ok(self.expression(Level::Not)?.not())
            }
            "TRUE" | "FALSE" => {
                self.position += 1;
                Ok(lit(word == "TRUE"))
            }
            "NULL" => {
                self.position += 1;
                Ok(lit(Scalar::Null))
            }
            "CASE" => {
                self.position += 1;
                self.case()
            }
            "DATE" | "TIME" | "TIMESTAMP" | "TIMESTAMPTZ" | "DATETIME" | "INTERVAL"
                if self.typed_literal_follows(&word) =>
            {
                self.position += 1;
                self.typed_literal(&word)
            }
            _ if is_reserved(&word) && !(word == "CAST" && opens) => Err(self.unexpected(OPERANDS)),
            _ if opens => self.call(&word),
            _ => self.column(),
        }
    }

    fn column(&mut self) -> Result<Expr> {
        let mut names = Vec::new();
        loop {
            match self.peek() {
                Some(Token::Word(word))
                    if word.quote_style.is_some()
                        || !is_reserved(&word.value)
                        || !names.is_empty() => {}
                _ => return Err(self.unexpected("a name")),
            }
            if let Some(Token::Word(word)) = self.next() {
                names.push(word.value);
            }
            if names.len() > usize::from(MAX_DEPTH) {
                return Err(self.too_deep());
            }
            if !self.symbol(&Token::Period) {
                return Ok(Expr::column(ColumnPath::new(names)));
            }
        }
    }

    fn case(&mut self) -> Result<Expr> {
        let operand = if self.is_keyword_at(0, "WHEN") {
            None
        } else {
            Some(self.expression(Level::Or)?)
        };
        let mut branches = Vec::new();
        self.expect_keyword("WHEN")?;
        loop {
            let when = self.expression(Level::Or)?;
            self.expect_keyword("THEN")?;
            branches.push((when, self.expression(Level::Or)?));
            if !self.keyword("WHEN") {
                break;
            }
        }
        let otherwise = if self.keyword("ELSE") {
            Some(self.expression(Level::Or)?)
        } else {
            None
        };
        if !self.keyword("END") {
            return Err(self.unexpected("WHEN, ELSE or END"));
        }
        Ok(Expr::case(operand, branches, otherwise))
    }

    fn call(&mut self, name: &str) -> Result<Expr> {
        let place = self.place();
        let function = Function::named(name);
        let has_own_grammar =
            ["CAST", "TRY_CAST", "COALESCE", "POSITION", "EXTRACT"].contains(&name);
        if function.is_none() && !has_own_grammar {
            let name = shorten(name);
            return Err(syntax(
                place,
                format!("unknown function {name}, expected {OPERANDS}"),
            ));
        }
        self.position += 2; // the name and its parenthesis
        match name {
            "CAST" | "TRY_CAST" => {
                let operand = self.expression(Level::Or)?;
                self.expect_keyword("AS")?;
                let data_type = self.data_type()?;
                self.expect_symbol(&Token::RParen)?;
                return Ok(match name {
                    "CAST" => operand.cast(data_type),
                    _ => operand.try_cast(data_type),
                });
            }
            "POSITION" => {
                let part = self.expression(Level::Append)?;
                self.expect_keyword("IN")?;
                let text = self.expression(Level::Or)?;
                self.expect_symbol(&Token::RParen)?;
                return Ok(call(Function::Position, vec![text, part]));
            }
            "EXTRACT" => {
                let part = match self.next() {
                    Some(Token::Word(word)) => word.value,
                    Some(Token::SingleQuotedString(text)) => text,
                    _ => return Err(syntax(place, "EXTRACT needs a part: EXTRACT(YEAR FROM x)")),
                };
                self.expect_keyword("FROM")?;
                let of = self.expression(Level::Or)?;
                self.expect_symbol(&Token::RParen)?;
                return Ok(date_part(&part, of));
            }
            "TRIM" => return self.trim(),
            _ => {}
        }
        let arguments = match function {
            Some(Function::Substring) => self.substring()?,
            _ => self.list()?,
        };
        match function {
            None if arguments.is_empty() => Err(syntax(place, "COALESCE needs arguments")),
            None => Ok(coalesce(arguments)),
            Some(function) if function.arity().contains(&arguments.len()) => {
                Ok(called(function, arguments))
            }
            Some(function) => {
                let (arity, given) = (function.arity_text(), arguments.len());
                Err(syntax(
                    place,
                    format!("{name} takes {arity} arguments, found {given}"),
                ))
            }
        }
    }
}

/// Parts that have a function of their own become that function, which statistics decide better.
fn date_part(part: &str, of: Expr) -> Expr {
    let own = match part.to_ascii_uppercase().as_str() {
        "YEAR" | "Y" | "YR" | "YEARS" => Function::Year,
        "MONTH" | "MON" | "MONTHS" => Function::Month,
        "DAY" | "D" | "DAYS" | "DAYOFMONTH" => Function::Day,
        "HOUR" | "H" | "HR" | "HOURS" => Function::Hour,
        "MINUTE" | "M" | "MIN" | "MINUTES" => Function::Minute,
        "SECOND" | "S" | "SEC" | "SECONDS" => Function::Second,
        _ => return call(Function::DatePart, vec![lit(part), of]),
    };
    call(own, vec![of])
}

/// A call with its number of arguments checked.
fn called(function: Function, mut arguments: Vec<Expr>) -> Expr {
    if function == Function::DatePart
        && let Some(Node::Literal(Scalar::String(part))) = arguments.first().map(Expr::node)
    {
        let part = part.clone();
        if let Some(of) = arguments.pop() {
            return date_part(&part, of);
        }
    }
    call(function, arguments)
}

fn compare_op(token: Option<&Token>) -> Option<CompareOp> {
    Some(match token? {
        Token::Eq | Token::DoubleEq => CompareOp::Eq,
        Token::Neq => CompareOp::NotEq,
        Token::Lt => CompareOp::Lt,
        Token::LtEq => CompareOp::LtEq,
        Token::Gt => CompareOp::Gt,
        Token::GtEq => CompareOp::GtEq,
        _ => return None,
    })
}
