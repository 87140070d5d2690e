//! The worked data files of `docs/format.md` are the files that are written.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use pilum_file::WriteOptions;

use crate::document::{hexdump, hold};
use crate::tables::{scratch, write};

fn bytes(column: &str, array: ArrayRef, options: WriteOptions) -> Vec<u8> {
    let (folder, store) = scratch();
    let batch = RecordBatch::try_from_iter_with_nullable([(column, array, true)]).unwrap();
    let (_, written) = write(&store, "data/a.lance", &[batch], options).unwrap();
    std::fs::read(folder.path().join(written.path)).unwrap()
}

#[test]
fn the_worked_files_are_the_written_ones() {
    let plain = bytes(
        "a",
        Arc::new(Int32Array::from(vec![1, 2])),
        WriteOptions::pylance(),
    );
    let full = bytes(
        "s",
        Arc::new(StringArray::from(vec![Some(""), None, Some("x")])),
        WriteOptions::default(),
    );
    hold("hexdump smallest", &hexdump(&plain));
    hold("hexdump extended", &hexdump(&full));
}
