//! The checked-in protobuf code is what the `.proto` files say.
//!
//! `PILUM_REGENERATE=1 cargo test -p pilum-format` rewrites it.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn compare(files: &[&str], config: &mut prost_build::Config, generated: &[&str]) {
    let protos = root().join("protos");
    let descriptors = protox::compile(files, [&protos]).unwrap();
    let out = tempfile::tempdir().unwrap();
    config
        .out_dir(out.path())
        .btree_map(["."])
        .compile_fds(descriptors)
        .unwrap();
    for name in generated {
        let generated = std::fs::read_to_string(out.path().join(name)).unwrap();
        let target = root().join("rust/format/src/proto").join(name);
        if std::env::var_os("PILUM_REGENERATE").is_some() {
            std::fs::write(&target, &generated).unwrap();
        }
        let checked_in = std::fs::read_to_string(&target).unwrap_or_default();
        assert_eq!(
            checked_in, generated,
            "{name} is stale: PILUM_REGENERATE=1 rewrites it"
        );
    }
}

#[test]
fn generated_code_of_data_files_matches_the_protos() {
    compare(
        &["file.proto"],
        prost_build::Config::new().extern_path(".pilum", "crate::proto::pilum"),
        &["lance.file.rs"],
    );
    compare(
        &["extension.proto"],
        &mut prost_build::Config::new(),
        &["pilum.rs"],
    );
}

#[test]
fn generated_code_of_tables_matches_the_protos() {
    compare(
        &["table.proto", "transaction.proto", "rowids.proto"],
        prost_build::Config::new()
            .bytes(["."])
            .extern_path(".lance.file", "crate::proto::file"),
        &["lance.table.rs"],
    );
}
