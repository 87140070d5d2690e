//! The worked bytes of `docs/format.md` are the bytes that are written. `PILUM_REGENERATE=1 cargo test` rewrites them.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use pilum_file::WriteOptions;

use crate::tables::{scratch, write};

fn hexdump(bytes: &[u8]) -> String {
    let mut dump = String::new();
    for (line, chunk) in bytes.chunks(16).enumerate() {
        let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let text: String = chunk
            .iter()
            .map(|byte| {
                if byte.is_ascii_graphic() {
                    char::from(*byte)
                } else {
                    '.'
                }
            })
            .collect();
        writeln!(dump, "{:04x}  {:<47}  {text}", line * 16, hex.join(" ")).unwrap();
    }
    dump
}

fn bytes(column: &str, array: ArrayRef, options: WriteOptions) -> Vec<u8> {
    let (folder, store) = scratch();
    let batch = RecordBatch::try_from_iter_with_nullable([(column, array, true)]).unwrap();
    let (_, written) = write(&store, "data/a.lance", &[batch], options).unwrap();
    std::fs::read(folder.path().join(written.path)).unwrap()
}

#[test]
fn the_worked_files_are_the_written_ones() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let mut text = std::fs::read_to_string(&document).unwrap();
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
    for (name, file) in [("smallest", plain), ("extended", full)] {
        let start = format!("<!-- hexdump {name} -->\n```text\n");
        let from = text.find(&start).unwrap() + start.len();
        let to = from + text[from..].find("```").unwrap();
        let dump = hexdump(&file);
        if std::env::var_os("PILUM_REGENERATE").is_some() {
            text.replace_range(from..to, &dump);
            std::fs::write(&document, &text).unwrap();
        } else {
            assert_eq!(
                &text[from..to],
                dump,
                "hexdump {name} of docs/format.md is stale"
            );
        }
    }
}
