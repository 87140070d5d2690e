//! Expressions as Python objects: operators and methods build the engine's tree.

use pilum_table::expr::{
    ArithmeticOp, CompareOp, Expr, Function, Values, call, case_when, coalesce, from_substrait,
    lit, parse_sql, parse_type,
};
use pyo3::basic::CompareOp as Comparison;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::errors::{Ended, Failure, guarded};
use crate::ffi::{Source, import, import_schema};
use crate::literal::{literal, literal_expression};

/// Characters of the text that `repr` shows.
const SHOWN: usize = 4096;

/// A condition or value over the columns of a table.
#[pyclass(frozen, name = "Expr", module = "pilum", from_py_object)]
#[derive(Clone, Debug)]
pub(crate) struct PyExpr(pub(crate) Expr);

/// Work of the engine's expressions, its errors as exceptions.
fn checked<T>(work: impl FnOnce() -> Result<T, pilum_table::expr::Error>) -> PyResult<T> {
    guarded(|| {
        work().map_err(|error| {
            let failure: Failure = pilum_table::Error::from(error).into();
            PyErr::from(failure)
        })
    })
}

/// An argument that is SQL text or an expression.
#[derive(Debug, FromPyObject)]
pub(crate) enum Given {
    Tree(PyExpr),
    Text(String),
}

impl Given {
    /// The expression; text is parsed here, so that an error gets the address of the table.
    pub(crate) fn tree(self) -> Result<Expr, Failure> {
        match self {
            Self::Tree(expr) => Ok(expr.0),
            Self::Text(text) => {
                parse_sql(&text).map_err(|error| pilum_table::Error::from(error).into())
            }
        }
    }
}

impl PyExpr {
    fn with(&self, other: &Bound<'_, PyAny>, build: impl Fn(Expr, Expr) -> Expr) -> PyResult<Self> {
        let other = operand(other)?;
        Ok(Self(build(self.0.clone(), other)))
    }

    fn reflected(
        &self,
        other: &Bound<'_, PyAny>,
        build: impl Fn(Expr, Expr) -> Expr,
    ) -> PyResult<Self> {
        self.with(other, |own, other| build(other, own))
    }

    fn called(&self, function: Function, others: &[&Bound<'_, PyAny>]) -> PyResult<Self> {
        let mut arguments = vec![self.0.clone()];
        for other in others {
            arguments.push(operand(other)?);
        }
        Ok(Self(call(function, arguments)))
    }

    fn one(&self, function: Function) -> Self {
        Self(call(function, vec![self.0.clone()]))
    }
}

fn arithmetic(op: ArithmeticOp) -> impl Fn(Expr, Expr) -> Expr {
    move |left, right| left.arithmetic(op, right)
}

/// A type as SQL names it: the name itself, or a pyarrow type.
fn data_type(given: &Bound<'_, PyAny>) -> PyResult<arrow_schema::DataType> {
    if let Ok(name) = given.extract::<String>() {
        return checked(|| parse_type(&name));
    }
    let py = given.py();
    if !given.hasattr(intern!(py, "__arrow_c_schema__"))? {
        let message = "cast takes a type of pyarrow, or the name of a type in SQL";
        return Err(Failure::invalid(message).into());
    }
    let fields = [("type", given)];
    let schema = py
        .import("pyarrow")?
        .call_method1("schema", (fields.to_vec(),))?;
    let schema = import_schema(&schema.call_method0(intern!(py, "__arrow_c_schema__"))?)?;
    let field = schema.fields().first();
    let data_type = field.map(|field| field.data_type().clone());
    data_type.ok_or_else(|| Failure::bug("a schema of one field has none").into())
}

/// Returns an expression unchanged, and any other value as a literal. Scalars of float16 and float32 keep their type.
fn operand(value: &Bound<'_, PyAny>) -> PyResult<Expr> {
    if let Ok(expr) = value.cast::<PyExpr>() {
        return Ok(expr.get().0.clone());
    }
    literal_expression(value)
}

#[pymethods]
impl PyExpr {
    /// Reads SQL text.
    #[new]
    fn new(sql: &str) -> PyResult<Self> {
        checked(|| parse_sql(sql)).map(Self)
    }

    /// The expression as SQL text.
    #[getter]
    fn sql(&self) -> String {
        self.0.to_string()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let text = self.0.to_string();
        let (shown, more) = match text.char_indices().nth(SHOWN) {
            None => (text.as_str(), ""),
            Some((end, _)) => (text.get(..end).unwrap_or_default(), "…"),
        };
        let shown = PyString::new(py, shown).repr()?;
        Ok(format!("Expr({}{more})", shown.to_str()?))
    }

    /// Operators with values of numpy are those of this class.
    #[classattr]
    fn __array_ufunc__() -> Option<bool> {
        None
    }

    fn __bool__(&self) -> PyResult<bool> {
        Err(PyTypeError::new_err(
            "a condition has no truth value before it meets rows: combine with & | ~, not and / or / not",
        ))
    }

    fn __iter__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "an expression cannot be iterated: it has no rows",
        ))
    }

    fn __contains__(&self, _item: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(PyTypeError::new_err(
            "`in` needs a truth value: use .isin(..), .contains(..) or .list_contains(..)",
        ))
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let message = checked(|| self.0.to_message())?;
        let read = py.import("pilum.expr")?.getattr("from_message")?;
        Ok((read, (PyBytes::new(py, &message),)))
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: Comparison) -> PyResult<Self> {
        let op = match op {
            Comparison::Eq => CompareOp::Eq,
            Comparison::Ne => CompareOp::NotEq,
            Comparison::Lt => CompareOp::Lt,
            Comparison::Le => CompareOp::LtEq,
            Comparison::Gt => CompareOp::Gt,
            Comparison::Ge => CompareOp::GtEq,
        };
        self.with(other, |left, right| left.compare(op, right))
    }

    fn __add__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.with(other, arithmetic(ArithmeticOp::Add))
    }

    fn __radd__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.reflected(other, arithmetic(ArithmeticOp::Add))
    }

    fn __sub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.with(other, arithmetic(ArithmeticOp::Subtract))
    }

    fn __rsub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.reflected(other, arithmetic(ArithmeticOp::Subtract))
    }

    fn __mul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.with(other, arithmetic(ArithmeticOp::Multiply))
    }

    fn __rmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.reflected(other, arithmetic(ArithmeticOp::Multiply))
    }

    fn __truediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.with(other, arithmetic(ArithmeticOp::Divide))
    }

    fn __rtruediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.reflected(other, arithmetic(ArithmeticOp::Divide))
    }

    fn __floordiv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.with(other, arithmetic(ArithmeticOp::IntegerDivide))
    }

    fn __rfloordiv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.reflected(other, arithmetic(ArithmeticOp::IntegerDivide))
    }

    fn __mod__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.with(other, arithmetic(ArithmeticOp::Modulo))
    }

    fn __rmod__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.reflected(other, arithmetic(ArithmeticOp::Modulo))
    }

    fn __neg__(&self) -> Self {
        Self(self.0.clone().neg())
    }

    fn __pos__(&self) -> Self {
        self.clone()
    }

    fn __abs__(&self) -> Self {
        self.one(Function::Abs)
    }

    fn __and__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.with(other, Expr::and)
    }

    fn __rand__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.reflected(other, Expr::and)
    }

    fn __or__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.with(other, Expr::or)
    }

    fn __ror__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.reflected(other, Expr::or)
    }

    fn __invert__(&self) -> Self {
        Self(self.0.clone().not())
    }

    /// A member of a struct, the value of a key of a map, or an item of a list from 0.
    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Self> {
        // Text is written as `s['x']`; positions of lists are counted from 1 there.
        let function = match key.extract::<String>() {
            Ok(_) => Function::Element,
            Err(_) => Function::Item,
        };
        self.called(function, &[key])
    }

    fn is_null(&self) -> Self {
        Self(self.0.clone().is_null())
    }

    fn is_not_null(&self) -> Self {
        Self(self.0.clone().is_not_null())
    }

    fn is_nan(&self) -> Self {
        self.one(Function::IsNan)
    }

    fn is_finite(&self) -> Self {
        self.one(Function::IsFinite)
    }

    fn is_inf(&self) -> Self {
        self.one(Function::IsInf)
    }

    fn is_true(&self) -> Self {
        Self(self.0.clone().is_truth(true))
    }

    fn is_false(&self) -> Self {
        Self(self.0.clone().is_truth(false))
    }

    fn is_distinct_from(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.with(other, Expr::is_distinct_from)
    }

    fn between(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (low, high) = (operand(low)?, operand(high)?);
        Ok(Self(self.0.clone().between(low, high)))
    }

    #[pyo3(signature = (pattern, escape=None))]
    fn like(&self, pattern: &Bound<'_, PyAny>, escape: Option<char>) -> PyResult<Self> {
        self.with(pattern, |own, pattern| {
            own.like_with(pattern, escape, false)
        })
    }

    #[pyo3(signature = (pattern, escape=None))]
    fn ilike(&self, pattern: &Bound<'_, PyAny>, escape: Option<char>) -> PyResult<Self> {
        self.with(pattern, |own, pattern| own.like_with(pattern, escape, true))
    }

    fn similar_to(&self, pattern: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.called(Function::SimilarTo, &[pattern])
    }

    fn regexp_matches(&self, pattern: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.called(Function::RegexpMatches, &[pattern])
    }

    fn starts_with(&self, prefix: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.called(Function::StartsWith, &[prefix])
    }

    fn ends_with(&self, suffix: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.called(Function::EndsWith, &[suffix])
    }

    fn contains(&self, part: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.called(Function::Contains, &[part])
    }

    fn lower(&self) -> Self {
        self.one(Function::Lower)
    }

    fn upper(&self) -> Self {
        self.one(Function::Upper)
    }

    fn length(&self) -> Self {
        self.one(Function::Length)
    }

    #[pyo3(signature = (characters=None))]
    fn trim(&self, characters: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        self.called(Function::Trim, characters.as_slice())
    }

    #[pyo3(signature = (characters=None))]
    fn ltrim(&self, characters: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        self.called(Function::LTrim, characters.as_slice())
    }

    #[pyo3(signature = (characters=None))]
    fn rtrim(&self, characters: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        self.called(Function::RTrim, characters.as_slice())
    }

    fn replace(&self, old: &Bound<'_, PyAny>, new: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.called(Function::Replace, &[old, new])
    }

    #[pyo3(signature = (start, length=None))]
    fn substring(
        &self,
        start: &Bound<'_, PyAny>,
        length: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let others: Vec<_> = std::iter::once(start).chain(length).collect();
        self.called(Function::Substring, &others)
    }

    fn position(&self, part: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.called(Function::Position, &[part])
    }

    #[pyo3(signature = (*others))]
    fn concat(&self, others: Vec<Bound<'_, PyAny>>) -> PyResult<Self> {
        let mut arguments = vec![self.0.clone()];
        for other in others {
            arguments.push(operand(&other)?);
        }
        Ok(Self(call(Function::Concat, arguments)))
    }

    fn abs(&self) -> Self {
        self.one(Function::Abs)
    }

    #[pyo3(signature = (digits=None))]
    fn round(&self, digits: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        self.called(Function::Round, digits.as_slice())
    }

    #[pyo3(signature = (digits=None))]
    fn trunc(&self, digits: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        self.called(Function::Trunc, digits.as_slice())
    }

    fn floor(&self) -> Self {
        self.one(Function::Floor)
    }

    fn ceil(&self) -> Self {
        self.one(Function::Ceil)
    }

    fn year(&self) -> Self {
        self.one(Function::Year)
    }

    fn month(&self) -> Self {
        self.one(Function::Month)
    }

    fn day(&self) -> Self {
        self.one(Function::Day)
    }

    fn hour(&self) -> Self {
        self.one(Function::Hour)
    }

    fn minute(&self) -> Self {
        self.one(Function::Minute)
    }

    fn second(&self) -> Self {
        self.one(Function::Second)
    }

    fn date_trunc(&self, unit: String) -> Self {
        let unit = lit(unit);
        Self(call(Function::DateTrunc, vec![unit, self.0.clone()]))
    }

    fn date_part(&self, part: String) -> Self {
        let part = lit(part);
        Self(call(Function::DatePart, vec![part, self.0.clone()]))
    }

    fn list_contains(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.called(Function::ListContains, &[value])
    }

    fn cast(&self, r#type: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(self.0.clone().cast(data_type(r#type)?)))
    }

    fn try_cast(&self, r#type: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(self.0.clone().try_cast(data_type(r#type)?)))
    }

    /// Whether the value is one of others: an Arrow array, or Python values.
    fn isin(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<Self> {
        let sugar = py.import("pilum.expr")?;
        let rows = sugar.call_method1(intern!(py, "arrow_values"), (values,))?;
        let values = match rows.cast::<PyList>() {
            Ok(scalars) => scalars.as_any(),
            Err(_) if rows.is_none() => values,
            Err(_) => return self.is_among(py, &rows),
        };
        let values = values.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        // An expression among the values is compared as it is.
        if values.iter().any(|value| value.is_instance_of::<Self>()) {
            let items = values.iter().map(operand).collect::<PyResult<_>>()?;
            return Ok(Self(self.0.clone().is_in(items)));
        }
        let literals = values.iter().map(literal).collect::<PyResult<Vec<_>>>()?;
        drop(values);
        let own = self.0.clone();
        Ok(py.detach(|| {
            // Up to this many values are kept as single literals: the SQL text of the expression then parses to an equal tree.
            const FEW: usize = 1000;
            let array = (literals.len() > FEW)
                .then(|| Values::of_literals(&literals))
                .flatten();
            Self(match array {
                Some(values) => own.is_among(values),
                None => own.is_in(literals.into_iter().map(lit).collect()),
            })
        }))
    }
}

impl PyExpr {
    /// Whether the value is one of the first column of an Arrow stream.
    fn is_among(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut source = import(rows)?;
        let pull = |source: &mut Source| -> Result<Vec<_>, Ended> {
            let mut arrays = Vec::new();
            while let Some(batch) = source.pull(py)? {
                arrays.extend(batch.columns().first().cloned());
            }
            Ok(arrays)
        };
        let arrays = pull(&mut source)?;
        let values = checked(|| Values::new(&arrays))?;
        Ok(Self(self.0.clone().is_among(values)))
    }
}

/// The column of a name or path.
#[pyfunction]
pub(crate) fn column(names: Vec<String>) -> PyExpr {
    let path = pilum_table::expr::ColumnPath::new(names);
    PyExpr(Expr::column(path))
}

/// A value of Python as an expression.
#[pyfunction]
pub(crate) fn value(value: &Bound<'_, PyAny>) -> PyResult<PyExpr> {
    Ok(PyExpr(operand(value)?))
}

/// The first value that is not null.
#[pyfunction]
pub(crate) fn first_valid(values: Vec<Bound<'_, PyAny>>) -> PyResult<PyExpr> {
    let values = values.into_iter().map(|value| operand(&value));
    Ok(PyExpr(coalesce(values.collect::<PyResult<_>>()?)))
}

/// `CASE WHEN .. THEN .. ELSE .. END`.
#[pyfunction]
#[pyo3(signature = (branches, otherwise=None))]
pub(crate) fn case(
    branches: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    otherwise: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyExpr> {
    let branches = branches
        .into_iter()
        .map(|(when, then)| Ok((operand(&when)?, operand(&then)?)))
        .collect::<PyResult<Vec<_>>>()?;
    if branches.is_empty() {
        return Err(Failure::invalid("case_when needs a condition with its value").into());
    }
    let otherwise = otherwise.map(operand).transpose()?;
    Ok(PyExpr(case_when(branches, otherwise)))
}

/// A comparison in which NaN equals nothing and has no order.
#[pyfunction]
pub(crate) fn ieee(comparison: &PyExpr) -> PyExpr {
    PyExpr(comparison.0.clone().ieee())
}

/// The division of Arrow's kernels.
#[pyfunction]
pub(crate) fn divide(dividend: &PyExpr, divisor: &PyExpr) -> PyExpr {
    let arguments = vec![dividend.0.clone(), divisor.0.clone()];
    PyExpr(call(Function::Divide, arguments))
}

/// An expression in Substrait.
#[pyfunction]
pub(crate) fn substrait(message: &[u8]) -> PyResult<PyExpr> {
    checked(|| from_substrait(message)).map(PyExpr)
}

/// An expression from the bytes of its pickle.
#[pyfunction]
pub(crate) fn expr_from_message(message: &[u8]) -> PyResult<PyExpr> {
    checked(|| Expr::from_message(message)).map(PyExpr)
}

/// A float with its exact value.
#[pyfunction]
pub(crate) fn exact(value: f64) -> PyExpr {
    PyExpr(lit(value))
}
