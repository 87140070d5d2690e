//! Holds blocks of `docs/format.md` to what the code makes. Used by the tests of several crates.

use std::fmt::Write as _;
use std::path::Path;

/// Sixteen bytes a line: position, hexadecimal, and the letters among them.
pub(crate) fn hexdump(bytes: &[u8]) -> String {
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

/// Compares the block behind `<!-- NAME -->` with `made`; with `PILUM_REGENERATE=1` in the environment it is replaced.
pub(crate) fn hold(name: &str, made: &str) {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let mut text = std::fs::read_to_string(&document).unwrap();
    let start = format!("<!-- {name} -->\n```");
    let from = text
        .find(&start)
        .unwrap_or_else(|| panic!("no block {name}"))
        + start.len();
    let from = from + text[from..].find('\n').unwrap() + 1;
    let to = from + text[from..].find("```").unwrap();
    if std::env::var_os("PILUM_REGENERATE").is_some() {
        text.replace_range(from..to, made);
        std::fs::write(&document, &text).unwrap();
    } else {
        assert_eq!(
            &text[from..to],
            made,
            "{name} in docs/format.md is stale: PILUM_REGENERATE=1 rewrites it"
        );
    }
}
