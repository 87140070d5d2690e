//! The checked-in protobuf code is what the `.proto` file says.
//!
//! `PILUM_REGENERATE=1 cargo test -p pilum-expr` rewrites it.

use std::path::Path;

#[test]
fn generated_code_matches_the_proto() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let descriptors = protox::compile(["substrait.proto"], [root.join("protos")]).unwrap();
    let out = tempfile::tempdir().unwrap();
    prost_build::Config::new()
        .out_dir(out.path())
        .bytes(["."])
        .compile_fds(descriptors)
        .unwrap();
    let generated = std::fs::read_to_string(out.path().join("substrait.rs")).unwrap();
    let target = root.join("rust/expr/src/proto/substrait.rs");
    if std::env::var_os("PILUM_REGENERATE").is_some() {
        std::fs::write(&target, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&target).unwrap_or_default();
    assert_eq!(
        checked_in, generated,
        "substrait.rs is stale: PILUM_REGENERATE=1 rewrites it"
    );
}
