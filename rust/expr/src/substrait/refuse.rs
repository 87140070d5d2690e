//! Decoding, and messages for what a Substrait expression may not hold.

use bytes::Bytes;
use prost::Message;

use crate::{
    error::{Error, Result, shorten},
    expr::MAX_DEPTH,
};

/// Names the expression in messages.
pub(super) const PLACE: &str = "a Substrait expression";

pub(super) fn decode<M: Message + Default>(bytes: Bytes) -> Result<M> {
    M::decode(bytes).map_err(|error| Error::invalid(PLACE, format!("the bytes are none: {error}")))
}

pub(super) fn too_deep() -> Error {
    Error::Limit {
        what: "nesting of the expression".into(),
        limit: usize::from(MAX_DEPTH),
    }
}

pub(super) fn unsupported(what: impl std::fmt::Display) -> Error {
    Error::unsupported(format!(
        "{} in {PLACE}; write the condition as SQL text",
        shorten(&what)
    ))
}
