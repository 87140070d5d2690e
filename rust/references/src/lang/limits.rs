//! What one value of the expression language may take.

/// The deepest nesting of values and expressions.
pub(crate) const MAX_DEPTH: usize = 64;

/// The longest text, in bytes, that an expression may make.
pub(crate) const MAX_TEXT: usize = 64 << 10;
