//! The checked-in protobuf code is what the `.proto` files say.
//!
//! `PILUM_REGENERATE=1 cargo test -p pilum-table` rewrites it.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn generated_code_matches_the_protos() {
    let protos = root().join("protos");
    let files = ["table.proto", "transaction.proto", "rowids.proto"];
    let descriptors = protox::compile(files, [&protos]).unwrap();
    let out = tempfile::tempdir().unwrap();
    prost_build::Config::new()
        .out_dir(out.path())
        .btree_map(["."])
        .bytes(["."])
        .extern_path(".lance.file", "::pilum_file::proto")
        .compile_fds(descriptors)
        .unwrap();
    let generated = std::fs::read_to_string(out.path().join("lance.table.rs")).unwrap();
    let target = root().join("rust/table/src/proto/lance.table.rs");
    if std::env::var_os("PILUM_REGENERATE").is_some() {
        std::fs::write(&target, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&target).unwrap_or_default();
    assert_eq!(
        checked_in, generated,
        "lance.table.rs is stale: PILUM_REGENERATE=1 rewrites it"
    );
}
