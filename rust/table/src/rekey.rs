//! Written rows for a table whose dictionaries became others meanwhile: read back, and written with other keys.
//!
//! Two appends that bring different new values to one dictionary each continue it in their own way. One of them is
//! committed first; the files of the other hold all that is needed to write them again for what the table has now.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use futures::stream::{self, StreamExt};
use pilum_file::Rows;
use pilum_store::Store;

use crate::error::{Error, Result};
use crate::scan::{FragmentReader, ReadContext};
use crate::snapshot::Snapshot;
use crate::write::{NewFragments, WriteOptions, write_stream};

/// Arrow memory of a piece.
const PIECE_BYTES: u64 = 8 << 20;

/// The rows of `new`, written for the newest version, which `base` becomes. The files of `new` stay.
pub(crate) async fn rekey(
    store: &Store,
    base: &mut Option<Snapshot>,
    new: &NewFragments,
    options: &WriteOptions,
) -> Result<NewFragments> {
    let newest = Snapshot::newest(store).await?;
    let newest = base.insert(newest);
    let dictionaries = Arc::new(new.dictionaries.clone());
    let context = ReadContext::new(store.clone(), dictionaries, true, &new.fragments);
    let context = Arc::new(context);
    let mut pieces = Vec::new();
    for fragment in &new.fragments {
        let reader = FragmentReader::open(Arc::clone(&context), fragment, &new.schema).await?;
        let reader = Arc::new(reader);
        let ranges = reader.pieces(PIECE_BYTES).into_iter();
        pieces.extend(ranges.map(|rows| (Arc::clone(&reader), rows)));
    }
    let schema = new.schema.to_arrow();
    let batches = stream::iter(pieces).then(|(reader, rows)| {
        let schema = Arc::clone(&schema);
        async move {
            let num_rows = usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX);
            let columns = reader.read(&Rows::range(rows)).await?;
            let options = RecordBatchOptions::new().with_row_count(Some(num_rows));
            RecordBatch::try_new_with_options(schema, columns, &options)
                .map_err(|error| Error::invalid("written rows", error.to_string()))
        }
    });
    write_stream(store, Some(newest), &schema, batches, options).await
}
