//! Formats of one table, and one batch through them.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use pilum_skiff::{DecodeOptions, EncodeOptions, Encoder, Error, Format, Reader, Strings};

/// A format of one table whose columns are `children`, as JSON.
pub(crate) fn table(children: &str) -> Format {
    let text = format!(
        r#"{{"table_skiff_schemas": [{{"wire_type": "tuple", "children": [{children}]}}]}}"#
    );
    Format::from_json(&text, Strings::Binary).unwrap()
}

/// The format of a table with these fields.
pub(crate) fn format_of(fields: Vec<Field>) -> Format {
    Format::from_arrow(&[&Schema::new(fields)]).unwrap()
}

pub(crate) fn encode(format: &Format, batch: &RecordBatch) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    Encoder::new(format.clone(), EncodeOptions::default()).encode(0, batch, &mut out)?;
    Ok(out)
}

/// A batch of one column, `c`, as bytes.
pub(crate) fn column(format: &Format, array: ArrayRef) -> Result<Vec<u8>, Error> {
    encode(format, &RecordBatch::try_from_iter([("c", array)]).unwrap())
}

/// The first batch of a stream.
pub(crate) fn decode(format: &Format, stream: &[u8]) -> RecordBatch {
    decode_with(format, stream, DecodeOptions::default()).unwrap()
}

/// The first batch of a stream, or the error that ends it.
pub(crate) fn decode_with(
    format: &Format,
    stream: &[u8],
    options: DecodeOptions,
) -> Result<RecordBatch, Error> {
    let mut batches = Reader::new(stream, format.clone(), options);
    batches.next().unwrap().map(|(_, batch)| batch)
}
