//! The checked-in protobuf code is what the `.proto` files say. `PILUM_REGENERATE=1 cargo test` rewrites it.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn generated_code_matches_the_protos() {
    let protos = root().join("protos");
    let descriptors = protox::compile(["file.proto", "extension.proto"], [&protos]).unwrap();
    let out = tempfile::tempdir().unwrap();
    prost_build::Config::new()
        .out_dir(out.path())
        .btree_map(["."])
        .compile_fds(descriptors)
        .unwrap();
    for name in ["lance.file", "pilum"] {
        let generated = std::fs::read_to_string(out.path().join(format!("{name}.rs"))).unwrap();
        let target = root().join(format!("rust/file/src/proto/{name}.rs"));
        if std::env::var_os("PILUM_REGENERATE").is_some() {
            std::fs::write(&target, &generated).unwrap();
        }
        let checked_in = std::fs::read_to_string(&target).unwrap_or_default();
        assert_eq!(
            checked_in, generated,
            "{name}.rs is stale: PILUM_REGENERATE=1 rewrites it"
        );
    }
}
