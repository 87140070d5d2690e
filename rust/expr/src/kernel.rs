//! Operations on Arrow arrays, one file per group of operations; none knows the expression tree.

pub(crate) mod arithmetic;
pub(crate) mod cast;
pub(crate) mod compare;
pub(crate) mod function;
pub(crate) mod in_set;
pub(crate) mod pattern;
pub(crate) mod prefix;
pub(crate) mod value;
pub(crate) mod zone;
