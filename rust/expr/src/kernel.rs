//! Operations on Arrow arrays, one file per group of operations; none knows the expression tree.

pub(crate) mod arithmetic;
pub(crate) mod call;
pub(crate) mod cast;
pub(crate) mod compare;
pub(crate) mod function;
pub(crate) mod in_set;
pub(crate) mod pattern;
pub(crate) mod prefix;
pub(crate) mod round;
pub(crate) mod scalar_function;
pub(crate) mod text_function;
pub(crate) mod time_function;
pub(crate) mod value;
pub(crate) mod zone;
