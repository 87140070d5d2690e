//! Files of a table that no honest writer would write, byte by byte.

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{DataType, Field, Schema};
use pilum_testing::Message;

/// A field of a schema.
pub(crate) fn field(name: &str, id: u64, parent: u64, logical_type: &str) -> Message {
    Message::new()
        .bytes(2, name)
        .number(3, id)
        .number(4, parent)
        .bytes(5, logical_type)
        .number(6, 1)
}

/// No parent.
pub(crate) const TOP: u64 = u64::MAX;

/// A column `id` of integers.
pub(crate) fn id_field() -> Message {
    field("id", 0, TOP, "int64")
}

/// The least that a manifest of version 1 says, without fields.
pub(crate) fn bare() -> Message {
    let writer = Message::new().bytes(1, "pilum").bytes(2, "0.1.0");
    let format = Message::new().bytes(1, "lance").bytes(2, "0.1");
    Message::new()
        .number(3, 1)
        .bytes(7, Message::new().number(1, 1_700_000_000))
        .bytes(13, writer)
        .bytes(15, format)
}

/// A manifest message of one column.
pub(crate) fn plain() -> Message {
    bare().bytes(1, id_field())
}

/// A message and its length before it.
pub(crate) fn behind_length(message: &[u8]) -> Vec<u8> {
    let len = u32::try_from(message.len()).unwrap();
    [&len.to_le_bytes()[..], message].concat()
}

/// A file of a manifest message behind other bytes.
pub(crate) fn manifest_file(before: &[u8], message: impl AsRef<[u8]>) -> Vec<u8> {
    let message = message.as_ref();
    let mut file = before.to_vec();
    file.extend(behind_length(message));
    file.extend((before.len() as u64).to_le_bytes());
    file.extend(b"\0\0\x02\0LANC");
    file
}

/// A data file of a fragment.
pub(crate) fn data_file(path: &str) -> Message {
    Message::new().bytes(1, path).bytes(2, [0]).number(5, 2)
}

/// A fragment of one data file.
pub(crate) fn fragment(id: u64, rows: u64, path: &str) -> Message {
    Message::new()
        .number(1, id)
        .bytes(2, data_file(path))
        .number(4, rows)
}

/// An Arrow file of many equal offsets, which compress to nearly nothing.
pub(crate) fn compressed_offsets(len: usize, codec: Option<CompressionType>) -> Vec<u8> {
    let schema = Schema::new(vec![Field::new("row_id", DataType::UInt32, false)]);
    let offsets = Arc::new(UInt32Array::from(vec![1; len]));
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![offsets]).unwrap();
    let options = IpcWriteOptions::default()
        .try_with_compression(codec)
        .unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}
