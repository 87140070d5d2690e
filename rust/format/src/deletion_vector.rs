//! Deletion files: the deleted rows of a fragment (`docs/format.md`, section 10). A file always lists all of them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, RecordBatch, UInt32Array};
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_ipc::{Block, CompressionType, MessageHeader};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use bytes::Bytes;
use roaring::RoaringBitmap;

use crate::error::{Error, Result};
use crate::fragment::DeletionFileKind;

/// A new set with this many offsets or more is written as a bitmap.
const FRESH_BITMAP: u64 = 5000;
/// An Arrow set that grows beyond this many offsets becomes a bitmap.
const GROWN_BITMAP: u64 = 5000;

/// Offsets that an Arrow file may unpack to beside one for each of its bytes.
const FREE_ROWS: u64 = 4 << 20;

/// Which kind of file a set of `len` offsets goes to, given the kind that it grew from.
#[must_use]
pub fn deletion_file_kind(len: u64, grown_from: Option<DeletionFileKind>) -> DeletionFileKind {
    let is_bitmap = match grown_from {
        None => len >= FRESH_BITMAP,
        Some(DeletionFileKind::Arrow) => len > GROWN_BITMAP,
        Some(DeletionFileKind::Bitmap) => true,
    };
    if is_bitmap {
        DeletionFileKind::Bitmap
    } else {
        DeletionFileKind::Arrow
    }
}

/// Reads a deletion file of a fragment with `physical_rows` rows (0 = unknown).
///
/// # Errors
/// `Corrupt` when the bytes are no deletion file of that kind, or name a row that the fragment does not have.
pub fn decode_deletions(
    bytes: &Bytes,
    kind: DeletionFileKind,
    physical_rows: u64,
) -> Result<RoaringBitmap> {
    let deleted = match kind {
        DeletionFileKind::Arrow => decode_arrow(bytes, physical_rows)?,
        DeletionFileKind::Bitmap => decode_bitmap(bytes)?,
    };
    match deleted.max() {
        Some(row) if physical_rows != 0 && u64::from(row) >= physical_rows => Err(Error::corrupt(
            format!("row {row} is deleted from a fragment of {physical_rows}"),
        )),
        _ => Ok(deleted),
    }
}

/// The bytes of a deletion file.
///
/// # Errors
/// `InvalidInput` when the set cannot be written.
pub fn encode_deletions(deleted: &RoaringBitmap, kind: DeletionFileKind) -> Result<Bytes> {
    match kind {
        DeletionFileKind::Arrow => encode_arrow(deleted)
            .map_err(|error| Error::invalid("deleted rows", format!("cannot be written: {error}"))),
        DeletionFileKind::Bitmap => {
            let mut plain = deleted.clone();
            // pylance writes no run containers, and other readers may not know them.
            plain.remove_run_compression();
            let mut out = Vec::with_capacity(plain.serialized_size());
            plain.serialize_into(&mut out).map_err(|error| {
                Error::invalid("deleted rows", format!("cannot be written: {error}"))
            })?;
            Ok(out.into())
        }
    }
}

fn decode_bitmap(bytes: &Bytes) -> Result<RoaringBitmap> {
    let mut rest = bytes.as_ref();
    let deleted = RoaringBitmap::deserialize_from(&mut rest)
        .map_err(|error| Error::corrupt(format!("deletion bitmap: {error}")))?;
    if !rest.is_empty() {
        return Err(Error::corrupt(format!(
            "{} bytes behind the deletion bitmap",
            rest.len()
        )));
    }
    Ok(deleted)
}

fn schema() -> Schema {
    Schema::new(vec![Field::new("row_id", DataType::UInt32, false)])
}

fn encode_arrow(deleted: &RoaringBitmap) -> std::result::Result<Bytes, ArrowError> {
    let schema = Arc::new(schema());
    let rows = Arc::new(UInt32Array::from_iter_values(deleted));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![rows])?;
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD))?;
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &schema, options)?;
    writer.write(&batch)?;
    Ok(writer.into_inner()?.into())
}

const MAGIC: &[u8] = b"ARROW1";
/// Footer length and magic at the end of an IPC file.
const TAIL_LEN: usize = 10;

/// Reads the IPC file piece by piece: every length is compared with the bytes that exist, and with the rows
/// of the fragment, before the decoder gets to allocate by it.
fn decode_arrow(bytes: &Bytes, physical_rows: u64) -> Result<RoaringBitmap> {
    let damaged = |what: &str| Error::corrupt(format!("deletion file: {what}"));
    let tail = bytes
        .len()
        .checked_sub(TAIL_LEN)
        .filter(|_| bytes.starts_with(MAGIC));
    let tail = tail
        .filter(|_| bytes.ends_with(MAGIC))
        .ok_or_else(|| damaged("no Arrow file"))?;
    let len = bytes[tail..tail + 4]
        .try_into()
        .map(u32::from_le_bytes)
        .unwrap_or(u32::MAX);
    let start = usize::try_from(len)
        .ok()
        .and_then(|len| tail.checked_sub(len));
    let start = start.ok_or_else(|| damaged("its footer is longer than the file"))?;
    let footer = arrow_ipc::root_as_footer(&bytes[start..tail])
        .map_err(|error| damaged(&format!("footer: {error}")))?;

    let ipc_schema = footer.schema().ok_or_else(|| damaged("no schema"))?;
    let fields = ipc_schema.fields().ok_or_else(|| damaged("no schema"))?;
    let is_offsets = fields.len() == 1 && {
        let field = fields.get(0);
        let int = field.type_as_int();
        field.name() == Some("row_id")
            && !field.nullable()
            && field.dictionary().is_none()
            && int.is_some_and(|int| int.bitWidth() == 32 && !int.is_signed())
    };
    if !is_offsets || ipc_schema.endianness() != arrow_ipc::Endianness::Little {
        return Err(damaged("not one column `row_id: uint32 not null`"));
    }
    let blocks = footer.recordBatches().ok_or_else(|| damaged("no batch"))?;
    if blocks.len() != 1 {
        return Err(damaged(&format!("{} batches instead of one", blocks.len())));
    }
    let block = *blocks.get(0);
    let content = block_bytes(bytes, &block).ok_or_else(|| damaged("its batch lies outside"))?;
    check_batch(content, &block, physical_rows).map_err(damaged)?;

    let schema = Arc::new(schema());
    let batch = FileDecoder::new(schema, footer.version())
        .read_record_batch(&block, &Buffer::from(content))
        .map_err(|error| damaged(&error.to_string()))?
        .ok_or_else(|| damaged("no batch"))?;
    let rows = batch.column(0).as_primitive::<UInt32Type>();
    if rows.null_count() > 0 {
        return Err(damaged("null offsets"));
    }
    Ok(rows.values().iter().copied().collect())
}

fn block_bytes<'a>(bytes: &'a [u8], block: &Block) -> Option<&'a [u8]> {
    let start = usize::try_from(block.offset()).ok()?;
    let metadata = usize::try_from(block.metaDataLength()).ok()?;
    let body = usize::try_from(block.bodyLength()).ok()?;
    bytes.get(start..start.checked_add(metadata)?.checked_add(body)?)
}

/// Checks the one batch: its rows, buffers and uncompressed sizes.
fn check_batch(
    content: &[u8],
    block: &Block,
    physical_rows: u64,
) -> std::result::Result<(), &'static str> {
    let metadata_len = usize::try_from(block.metaDataLength()).map_err(|_| "bad lengths")?;
    let (metadata, body) = content
        .split_at_checked(metadata_len)
        .ok_or("bad lengths")?;
    // The message is prefixed by its length, in newer files after a continuation marker.
    let prefix_len = if metadata.starts_with(&[0xff; 4]) {
        8
    } else {
        4
    };
    let message = metadata.get(prefix_len..).ok_or("a cut message")?;
    let message = arrow_ipc::root_as_message(message).map_err(|_| "a damaged message")?;
    if message.header_type() != MessageHeader::RecordBatch {
        return Err("no record batch");
    }
    let batch = message.header_as_record_batch().ok_or("no record batch")?;
    let rows = u64::try_from(batch.length()).map_err(|_| "a negative row count")?;
    // Each row is deleted once; a repeated offset would be harmless, but not without bound.
    let limit = if physical_rows == 0 {
        1 << 32
    } else {
        physical_rows
    };
    if rows > limit {
        return Err("more rows deleted than there are");
    }
    // Compressed offsets unpack to four bytes each, and a bitmap takes over from some thousands on.
    if rows > content.len() as u64 + FREE_ROWS {
        return Err("more offsets than a file of its size may unpack to");
    }
    let nodes = batch.nodes().ok_or("no column")?;
    if nodes.len() != 1 || nodes.get(0).length() != batch.length() || nodes.get(0).null_count() != 0
    {
        return Err("its column does not fit its batch");
    }
    let buffers = batch.buffers().ok_or("no buffers")?;
    if buffers.len() != 2 {
        return Err("not two buffers");
    }
    for buffer in buffers {
        let start = usize::try_from(buffer.offset()).map_err(|_| "a negative position")?;
        let len = usize::try_from(buffer.length()).map_err(|_| "a negative length")?;
        let end = start
            .checked_add(len)
            .ok_or("a position beyond all files")?;
        let bytes = body.get(start..end).ok_or("a buffer outside of the file")?;
        if batch.compression().is_some() && !bytes.is_empty() {
            let size = bytes.first_chunk().map(|size| i64::from_le_bytes(*size));
            let size = size.ok_or("a cut buffer")?;
            // -1 = stored as is. Writers may pad to 64 bytes.
            if size != -1 && u64::try_from(size).map_or(true, |size| size > rows * 4 + 64) {
                return Err("a buffer that claims to unpack to too much");
            }
        }
    }
    // The values need their four bytes each, checked by the decoder after unpacking; without compression
    // nothing else would compare the row count with the bytes.
    let values = buffers.get(1);
    if batch.compression().is_none()
        && u64::try_from(values.length()).map_or(0, |len| len / 4) < rows
    {
        return Err("fewer offsets than rows");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn thresholds() {
        use DeletionFileKind::{Arrow, Bitmap};
        assert_eq!(deletion_file_kind(4999, None), Arrow);
        assert_eq!(deletion_file_kind(5000, None), Bitmap);
        assert_eq!(deletion_file_kind(5000, Some(Arrow)), Arrow);
        assert_eq!(deletion_file_kind(5001, Some(Arrow)), Bitmap);
        assert_eq!(deletion_file_kind(1, Some(Bitmap)), Bitmap);
    }

    #[test]
    fn the_worked_bytes_of_a_large_bitmap() {
        let deleted: RoaringBitmap = (0..6000).collect();
        let bytes = encode_deletions(&deleted, DeletionFileKind::Bitmap).unwrap();
        let head = [
            0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 0x6f, 0x17, 0x10, 0, 0, 0,
        ];
        assert_eq!(bytes[..16], head);
        assert_eq!(bytes.len(), 16 + 8192);
    }

    #[test]
    fn rows_beyond_the_fragment_are_damage() {
        let deleted: RoaringBitmap = [3, 9].into_iter().collect();
        for kind in [DeletionFileKind::Arrow, DeletionFileKind::Bitmap] {
            let bytes = encode_deletions(&deleted, kind).unwrap();
            assert_eq!(decode_deletions(&bytes, kind, 10).unwrap(), deleted);
            assert_eq!(decode_deletions(&bytes, kind, 0).unwrap(), deleted);
            assert_eq!(
                decode_deletions(&bytes, kind, 9).unwrap_err().kind(),
                "corrupt"
            );
        }
    }

    fn file(schema: &Schema, batches: &[RecordBatch], codec: Option<CompressionType>) -> Bytes {
        let options = IpcWriteOptions::default()
            .try_with_compression(codec)
            .unwrap();
        let mut writer = FileWriter::try_new_with_options(Vec::new(), schema, options).unwrap();
        batches
            .iter()
            .for_each(|batch| writer.write(batch).unwrap());
        writer.into_inner().unwrap().into()
    }

    #[test]
    fn every_codec_is_read_and_any_other_schema_is_damage() {
        let batch = |field: Field, array: arrow_array::ArrayRef| {
            let schema = Arc::new(Schema::new(vec![field]));
            RecordBatch::try_new(schema, vec![array]).unwrap()
        };
        let rows: arrow_array::ArrayRef = Arc::new(UInt32Array::from(vec![7, 2, 7]));
        let good = batch(
            Field::new("row_id", DataType::UInt32, false),
            Arc::clone(&rows),
        );
        let expected: RoaringBitmap = [2, 7].into_iter().collect();
        for codec in [
            None,
            Some(CompressionType::ZSTD),
            Some(CompressionType::LZ4_FRAME),
        ] {
            let bytes = file(good.schema_ref(), std::slice::from_ref(&good), codec);
            assert_eq!(
                decode_deletions(&bytes, DeletionFileKind::Arrow, 8).unwrap(),
                expected
            );
        }
        let none = encode_deletions(&RoaringBitmap::new(), DeletionFileKind::Arrow).unwrap();
        assert!(
            decode_deletions(&none, DeletionFileKind::Arrow, 8)
                .unwrap()
                .is_empty()
        );
        let renamed = batch(
            Field::new("rowid", DataType::UInt32, false),
            Arc::clone(&rows),
        );
        let nullable = batch(
            Field::new("row_id", DataType::UInt32, true),
            Arc::clone(&rows),
        );
        let signed = Arc::new(arrow_array::Int32Array::from(vec![1]));
        let signed = batch(Field::new("row_id", DataType::Int32, false), signed);
        for bad in [
            vec![renamed],
            vec![nullable],
            vec![signed],
            vec![good.clone(), good],
        ] {
            let bytes = file(bad[0].schema_ref(), &bad, None);
            let error = decode_deletions(&bytes, DeletionFileKind::Arrow, 8).unwrap_err();
            assert_eq!(error.kind(), "corrupt");
        }
    }

    proptest! {
        #[test]
        fn both_kinds_round_trip(deleted in proptest::collection::btree_set(0u32..200_000, 0..300)) {
            let deleted: RoaringBitmap = deleted.into_iter().collect();
            for kind in [DeletionFileKind::Arrow, DeletionFileKind::Bitmap] {
                let bytes = encode_deletions(&deleted, kind).unwrap();
                prop_assert_eq!(&decode_deletions(&bytes, kind, 200_000).unwrap(), &deleted);
            }
        }

        #[test]
        fn damage_never_panics(
            flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6),
            cut in prop_oneof![Just(0usize), 0usize..40],
            compressed in any::<bool>(),
        ) {
            let deleted: RoaringBitmap = (0..500u32).step_by(3).collect();
            let schema = schema();
            let rows = Arc::new(UInt32Array::from_iter_values(&deleted));
            let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![rows]).unwrap();
            let arrow = file(&schema, &[batch], compressed.then_some(CompressionType::ZSTD));
            let bitmap = encode_deletions(&deleted, DeletionFileKind::Bitmap).unwrap();
            for (kind, bytes) in [(DeletionFileKind::Arrow, arrow), (DeletionFileKind::Bitmap, bitmap)] {
                let mut damaged = bytes.to_vec();
                for (at, value) in &flips {
                    let at = at % damaged.len();
                    damaged[at] ^= value;
                }
                damaged.truncate(damaged.len() - cut);
                let _ = decode_deletions(&damaged.into(), kind, 500);
            }
        }
    }
}
