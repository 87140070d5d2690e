//! Predicates and expressions over Arrow batches, without a query engine: parse, bind, evaluate, prune. Pure: no IO, no
//! threads, no clock.
//!
//! ```text
//!  SQL text --parse_sql---+
//!  Substrait from_substrait                                  +--> evaluate -----> one value per row
//!  tuples ---from_dnf-----+--> Expr --bind(schema)--> BoundExpr --> filter_mask --> which rows match
//!  code ----col, lit------+     |                            +--> prune --------> drop, keep all, or look
//!                               +--to_string---> SQL text that parses back
//!                               +--to_message--> bytes for other processes
//! ```
//!
//! [`Expr`] knows names and literals, [`BoundExpr`] columns and types. Binding is where all decisions on types are made:
//! literals are converted exactly to the types of the columns they meet, so that evaluation is one kernel call per node.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{Int32Array, RecordBatch};
//! use pilum_expr::{bind, col, filter_mask, lit, parse_sql};
//!
//! let qty = Int32Array::from(vec![Some(1), Some(3), None]);
//! let batch = RecordBatch::try_from_iter([("qty", Arc::new(qty) as _)]).unwrap();
//!
//! let filter = parse_sql("qty > 2.5").unwrap();
//! assert_eq!(filter, col("qty").gt(lit(pilum_expr::Scalar::Decimal { unscaled: 25, scale: 1 })));
//!
//! let mask = filter_mask(&bind(&filter, &batch.schema()).unwrap(), &batch).unwrap();
//! assert_eq!(mask.values().iter().collect::<Vec<_>>(), [false, true, false]);
//! ```
//!
//! # Meaning
//!
//! Where SQL systems differ, this crate does the following:
//!
//! | | |
//! |---|---|
//! | null | three-valued logic; only `true` keeps a row; `x IN ()` is false even for null |
//! | NaN | all NaN are equal, and greater than every other number; -0.0 equals 0.0 (as DuckDB) |
//! | division | `/` is in float64, or float32 (see floats): by zero it is infinite, or NaN for `0 / 0`; `//` divides integers and truncates |
//! | by zero | `//` and the remainder of integers and decimals are null, the remainder of floats is NaN (as DuckDB 1.5) |
//! | `DIVIDE(a, b)` | as `//` if both are integers, though by zero it is an error; else as `/`. Arrow's `divide` is this |
//! | `IEEE(a < b)` | a comparison in which NaN equals nothing and is neither less nor greater. Arrow's comparisons are this |
//! | remainder | has the sign of the dividend: `-7 % 3` is `-1` |
//! | integers | computed in 64 bits; with uint64 as decimal(20, 0); overflow is an error that names the expression (DuckDB computes in the operands' own width, so what is too large here is too large there) |
//! | floats | computed in float64; in float32 where one side is float32 and the other no float64; the remainder too; overflow is infinite (as DuckDB) |
//! | float32 | beside a decimal, the nearest float32; beside a float64 the exact value, also of every member of an `IN` list or `BETWEEN` that has a float64 in it (as DuckDB) |
//! | `CAST` | checked; to integers it rounds: floats half to even, decimals half away from zero (as DuckDB) |
//! | `2.5` | a decimal; beside a floating column the nearest float. `2.5e0` is a float64 |
//! | `LIKE` | no escape character unless `ESCAPE` names one; the pattern may be a column; one that ends with its escape character is an error |
//! | `LENGTH` | characters of a string, bytes of a binary value, items of a list |
//! | text | made of text alone: `'a' \|\| 1` is refused, a `CAST` says what is meant (DuckDB converts); case by Unicode's full rules: `UPPER('ß')` is `SS` |
//! | `SUBSTRING` | positions from 1, negative ones from the end; what lies outside of the text is cut off |
//! | regular expressions | in time linear in the text, without look-around and back references; `\d \w \s` know Unicode (ASCII in DuckDB) |
//! | `SIMILAR TO` | a regular expression that matches the whole text (as DuckDB) |
//! | `ROUND` | halves away from zero; integers stay int64 or uint64; decimals keep the digits asked for (as DuckDB) |
//! | `DATE_TRUNC` | a timestamp, of a date too (as DuckDB); in the zone of the column only where that is UTC or a fixed offset |
//! | `l[1]` | items of lists from 1, negative positions from the end, null outside (as DuckDB); `ITEM(l, 0)` counts from 0 |
//! | zones | a literal without zone beside a column with one is UTC; a literal with zone needs a column with one |
//! | parts of time | `YEAR` to `SECOND` and `CAST` to a date or wall clock are by the clocks of the column's zone |
//! | names | matched exactly, case included; `a.b` is a field of the struct `a`, and null where `a` is |
//!
//! # Limits
//!
//! Text of 4 MiB, 96 levels (chains of `AND` and `OR` are one level however long): stack and memory stay bounded
//! for every text.

mod adapter;
mod bind;
mod bound;
mod calendar;
mod check;
mod convert;
mod display;
mod dnf;
mod error;
mod eval;
mod expr;
mod function;
mod junction;
mod kernel;
mod lists;
mod message;
mod parse;
mod path;
mod place;
mod projection;
mod proto;
mod prune;
mod rename;
mod scalar;
mod substrait;
mod time_steps;
mod types;
mod values;

pub use adapter::{AdaptError, SchemaAdapter, in_order_of};
pub use bind::{bind, bind_as};
pub use bound::BoundExpr;
pub use check::{InvalidValue, check_ranges, check_values};
pub use convert::{
    AdaptOptions, Conversion, ConversionError, Extra, Missing, Mode, RULE_NOTES, Rule, RuleNote,
    convert, rule,
};
pub use dnf::{DnfTerm, DnfValue, from_dnf};
pub use error::{Error, Result};
pub use eval::{evaluate, filter_mask};
pub use expr::{ArithmeticOp, CompareOp, Expr, call, case_when, coalesce, col, lit};
pub use function::Function;
pub use junction::Junction;
pub use parse::{parse_sql, parse_type};
pub use path::{ColumnPath, similar};
pub use pilum_common::type_name;
pub use projection::Projection;
pub use prune::{ColumnStatistics, Truth, prune};
pub use scalar::Scalar;
pub use substrait::from_substrait;
pub use values::Values;
