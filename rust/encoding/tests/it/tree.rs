//! A small writer and reader of one column: the walk over the field tree that a file does.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{DataType, Field};
use pilum_encoding::*;

/// Where the pages of one node lie.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) page: Page,
    pub(crate) rows: u64,
    pub(crate) validity: Vec<Validity>,
    pub(crate) dictionary: Option<(Page, Vec<Validity>)>,
    pub(crate) children: Vec<Node>,
}

fn append(file: &mut Vec<u8>, page: &EncodedPage) -> (Page, Vec<Validity>) {
    let start = file.len() as u64;
    for buffer in &page.buffers {
        file.extend_from_slice(buffer);
    }
    assert_eq!(file.len() as u64 - start, page.byte_len);
    let table = Page {
        position: start + page.pointer,
        length: page.length,
    };
    let needs = page
        .validity
        .iter()
        .any(|v| !matches!(v, LevelValidity::V1));
    assert_eq!(needs, page.needs_extension());
    let validity = page.validity.iter().map(|level| match level {
        LevelValidity::V1 => Validity::V1,
        LevelValidity::AllValid => Validity::AllValid,
        LevelValidity::AllNull => Validity::AllNull,
        LevelValidity::Bitmap(bits) => {
            let position = file.len() as u64;
            file.extend_from_slice(bits);
            Validity::Bitmap { position }
        }
    });
    let validity: Vec<_> = validity.collect();
    (table, validity)
}

pub(crate) fn write(
    field: &Field,
    array: &dyn Array,
    hidden: Option<&NullBuffer>,
    file: &mut Vec<u8>,
) -> Result<Node, Error> {
    let encoded = encode_page(array, field.is_nullable(), hidden, file.len() as u64)?;
    assert_eq!(encoded.validity.len(), validity_levels(field.data_type()));
    let (page, validity) = append(file, &encoded);
    let mut children = Vec::new();
    let mut dictionary = None;
    match field.data_type() {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => {
            let child = list_child(array, hidden)?;
            children.push(write(item, &child, None, file)?);
        }
        DataType::FixedSizeList(item, _) if has_item_page(field) => {
            let (child, hidden) = items_child(array.as_fixed_size_list(), hidden)?;
            children.push(write(item, &child, hidden.as_ref(), file)?);
        }
        DataType::Struct(fields) => {
            let members = struct_children(array.as_struct(), hidden)?;
            for (field, (child, hidden)) in fields.iter().zip(members) {
                children.push(write(field, &child, hidden.as_ref(), file)?);
            }
        }
        DataType::Dictionary(_, _) => {
            let values = array.as_any_dictionary().values();
            let encoded = encode_dictionary_values(values, file.len() as u64)?;
            dictionary = Some(append(file, &encoded));
        }
        _ => {}
    }
    Ok(Node {
        page,
        rows: array.len() as u64,
        validity,
        dictionary,
        children,
    })
}

fn has_item_page(field: &Field) -> bool {
    matches!(Layout::of(field.data_type()), Ok(Layout::Items { .. }))
}

/// How the bytes reach the decoder.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fetch {
    /// The whole file is at hand.
    Mapped,
    /// Only what the plans ask for, each range on its own.
    Planned,
    /// The whole file, at an address where no value is aligned.
    Misaligned,
}

pub(crate) struct File<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) fetch: Fetch,
}

impl File<'_> {
    fn source(&self, ranges: &[Range<u64>]) -> Segments {
        match self.fetch {
            Fetch::Mapped => Segments::new([(0, Buffer::from(self.bytes))]),
            Fetch::Misaligned => {
                let shifted: Vec<u8> = [0].into_iter().chain(self.bytes.iter().copied()).collect();
                Segments::new([(0, Buffer::from_vec(shifted).slice(1))])
            }
            Fetch::Planned => Segments::new(ranges.iter().map(|r| {
                let bytes = &self.bytes[r.start as usize..r.end as usize];
                (r.start, Buffer::from(bytes))
            })),
        }
    }
}

pub(crate) fn read(
    field: &Field,
    node: &Node,
    rows: &Rows,
    file: &File<'_>,
) -> Result<ArrayRef, Error> {
    let data_type = field.data_type();
    let mut ranges = Vec::new();
    plan_fixed(data_type, &node.page, rows, &mut ranges)?;
    plan_validity(&node.validity, data_type, node.rows, rows, &mut ranges)?;
    let first = file.source(&ranges);
    plan_bytes(data_type, &node.page, rows, &first, &mut ranges)?;
    let source = file.source(&ranges);
    let (page, validity) = (&node.page, &node.validity);
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => {
            let child = &node.children[0];
            let lists = decode_list_offsets(
                field,
                page,
                node.rows,
                child.page_length(),
                validity,
                rows,
                &source,
            )?;
            let values = read(item, child, &lists.child_rows, file)?;
            assemble_list(data_type, lists, values)
        }
        DataType::FixedSizeList(item, size) if has_item_page(field) => {
            let nulls = decode_nulls(field, node.rows, validity, rows, &source)?;
            let items = rows.times(*size as u64)?;
            let items = read(item, &node.children[0], &items, file)?;
            assemble_items(data_type, items, nulls, rows.len() as usize)
        }
        DataType::Struct(fields) => {
            let nulls = decode_nulls(field, node.rows, validity, rows, &source)?;
            let members = fields.iter().zip(&node.children);
            let members = members
                .map(|(f, n)| read(f, n, rows, file))
                .collect::<Result<_, _>>()?;
            assemble_struct(data_type, members, nulls, rows.len() as usize)
        }
        DataType::Dictionary(_, value_type) => {
            let keys = decode_page(field, page, node.rows, validity, rows, &source)?;
            let (values, validity) = node.dictionary.as_ref().unwrap();
            let everything = File {
                bytes: file.bytes,
                fetch: Fetch::Mapped,
            }
            .source(&[]);
            let values = decode_dictionary_values(value_type, values, validity, true, &everything)?;
            assemble_dictionary(&keys, values, data_type)
        }
        _ => decode_page(field, page, node.rows, validity, rows, &source),
    }
}

impl Node {
    /// Slots of the node: what a list above may point into.
    fn page_length(&self) -> u64 {
        self.rows
    }
}

pub(crate) fn shared(field: Field) -> Arc<Field> {
    Arc::new(field)
}
