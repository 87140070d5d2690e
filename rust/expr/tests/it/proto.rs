//! The checked-in protobuf code is what the `.proto` file says.
//!
//! `PILUM_REGENERATE=1 cargo test -p pilum-expr` rewrites it.

use std::path::Path;

#[test]
fn generated_code_matches_the_proto() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (proto, file) in [
        ("substrait.proto", "substrait.rs"),
        ("expression.proto", "pilum.expression.rs"),
    ] {
        check(&root, proto, file);
    }
}

fn check(root: &Path, proto: &str, file: &str) {
    let descriptors = protox::compile([proto], [root.join("protos")]).unwrap();
    let out = tempfile::tempdir().unwrap();
    prost_build::Config::new()
        .out_dir(out.path())
        .bytes(["."])
        .compile_fds(descriptors)
        .unwrap();
    let generated = std::fs::read_to_string(out.path().join(file)).unwrap();
    let target = Path::new(file.trim_start_matches("pilum."));
    let target = root.join("rust/expr/src/proto").join(target);
    if std::env::var_os("PILUM_REGENERATE").is_some() {
        std::fs::write(&target, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&target).unwrap_or_default();
    assert_eq!(
        checked_in, generated,
        "{file} is stale: PILUM_REGENERATE=1 rewrites it"
    );
}
