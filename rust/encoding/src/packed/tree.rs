//! Builds decoders from a checked node table. No other module lists the parsers of all encodings.

use super::cascade::{Kind, check};
use super::constant::{self, Constant};
use super::decoder::{Numbers, Texts};
use super::encoding::Encoding;
use super::float::{alp, alp_rd, binary_scale};
use super::header::NodeTable;
use super::node::{Node, NodeId};
use super::plain::{self, Plain};
use super::small::{coded, planes};
use super::text::{chars, front, fsst, pair, raw};
use super::{bits, delta, dictionary, frame, run, wide};
use crate::error::Error;

/// The root of a page.
#[derive(Debug)]
pub(crate) enum Decoder {
    /// Numbers of at most 8 bytes, or of 16 that 8 hold, sign-extended.
    Numbers(Box<dyn Numbers>),
    /// Numbers of 16 bytes in two halves.
    Wide(wide::Wide),
    /// Values of one size as they lie.
    Plain(Plain),
    /// One value of one size.
    Constant(Constant),
    Texts(Box<dyn Texts>),
    Bits(bits::Bits),
}

/// Builds the decoders of a page from its head.
///
/// # Errors
/// `Corrupt` names the node; `Unsupported` an encoding that this release does not know.
pub(crate) fn build(table: &NodeTable, head: &[u8], kind: Kind) -> Result<Decoder, Error> {
    check(table, kind)?;
    let mut builder = Builder {
        table,
        head,
        next: 0,
    };
    builder.root(kind)
}

/// Walks the node table in its order. Recursion is bounded by the 16 nodes of a table.
struct Builder<'a> {
    table: &'a NodeTable,
    head: &'a [u8],
    next: u8,
}

impl<'a> Builder<'a> {
    fn take_node(&mut self) -> Result<Node<'a>, Error> {
        let node = self.table.node(self.next, self.head)?;
        self.next += 1;
        Ok(node)
    }

    fn root(&mut self, kind: Kind) -> Result<Decoder, Error> {
        let encoding = self.table.entries.first().map(|it| it.encoding);
        Ok(match (kind, encoding) {
            (Kind::Texts, _) => Decoder::Texts(self.texts()?),
            (Kind::Bits, _) => Decoder::Bits(bits::parse(&self.take_node()?)?),
            (Kind::Numbers { width: 16 } | Kind::Fixed { .. }, Some(Encoding::Plain)) => {
                Decoder::Plain(plain::parse(&self.take_node()?)?)
            }
            (Kind::Numbers { width: 16 } | Kind::Fixed { .. }, Some(Encoding::Constant)) => {
                Decoder::Constant(constant::parse(&self.take_node()?)?)
            }
            (Kind::Numbers { .. }, Some(Encoding::Wide)) => {
                let node = self.take_node()?;
                let (high, low) = (self.numbers()?, self.numbers()?);
                Decoder::Wide(wide::parse(&node, high, low)?)
            }
            (Kind::Numbers { .. } | Kind::Fixed { .. }, _) => Decoder::Numbers(self.numbers()?),
        })
    }

    fn numbers(&mut self) -> Result<Box<dyn Numbers>, Error> {
        let node = self.take_node()?;
        let node = &node;
        Ok(match node.id.encoding {
            Encoding::Plain => Box::new(plain::parse_numbers(node)?),
            Encoding::Constant => Box::new(constant::parse_number(node)?),
            Encoding::For => Box::new(frame::parse(node)?),
            Encoding::Delta => Box::new(delta::parse(node)?),
            Encoding::Run => {
                let (values, lengths) = (self.numbers()?, self.numbers()?);
                Box::new(run::parse(node, values, lengths)?)
            }
            Encoding::Dictionary => {
                let (values, codes) = (self.numbers()?, self.numbers()?);
                Box::new(dictionary::parse(node, values, codes)?)
            }
            Encoding::BinaryScale => binary_scale::parse(node, self.numbers()?)?,
            Encoding::Alp => alp::parse(node, self.numbers()?)?,
            Encoding::AlpRd => {
                let (codes, rights) = (self.numbers()?, self.numbers()?);
                Box::new(alp_rd::parse(node, codes, rights)?)
            }
            Encoding::Planes => Box::new(planes::parse(node)?),
            Encoding::Coded => Box::new(coded::parse(node, self.numbers()?)?),
            other => return Err(unknown(node.id, other)),
        })
    }

    fn texts(&mut self) -> Result<Box<dyn Texts>, Error> {
        let node = self.take_node()?;
        let node = &node;
        Ok(match node.id.encoding {
            Encoding::Constant => Box::new(constant::parse(node)?),
            Encoding::Dictionary => {
                let (values, codes) = (self.texts()?, self.numbers()?);
                Box::new(dictionary::parse_texts(node, values, codes)?)
            }
            Encoding::Raw => Box::new(raw::parse(node, self.numbers()?)?),
            Encoding::Fsst => Box::new(fsst::parse(node, self.numbers()?)?),
            Encoding::Pair => Box::new(pair::parse(node, self.numbers()?)?),
            Encoding::Chars => Box::new(chars::parse(node, self.numbers()?)?),
            Encoding::Front => {
                let (shared, rests) = (self.numbers()?, self.texts()?);
                Box::new(front::parse(node, shared, rests)?)
            }
            Encoding::Coded => Box::new(coded::parse_texts(node, self.texts()?)?),
            other => return Err(unknown(node.id, other)),
        })
    }
}

fn unknown(id: NodeId, encoding: Encoding) -> Error {
    let (number, name) = (encoding.number(), encoding.name());
    let index = id.index;
    Error::unsupported(format!(
        "encoding {number} ({name}) of node {index} of a packed page"
    ))
}
