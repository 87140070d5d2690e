//! Protobuf messages of a data file, generated from `protos/file.proto` and `protos/extension.proto`.
#![expect(
    missing_docs,
    reason = "generated; the .proto files hold the documentation"
)]

/// Packages under `lance`.
pub mod lance {
    /// `lance.file`: the messages of v1.
    pub mod file {
        include!("lance.file.rs");
    }
}
/// `pilum`: the messages of our extension.
pub mod pilum {
    include!("pilum.rs");
}

pub use lance::file::*;
