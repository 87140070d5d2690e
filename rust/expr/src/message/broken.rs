//! The error of bytes that are no message.

use std::fmt::Display;

use crate::error::Error;

pub(super) fn broken(why: &(impl Display + ?Sized)) -> Error {
    Error::invalid("a message of an expression", why.to_string())
}
