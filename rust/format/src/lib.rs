//! The bytes of a table and its data files, as types.
//!
//! ```text
//!   _versions/*.manifest      Manifest ──> Fragment ──> DataFile, DeletionFile, row ids, row versions
//!                             └─ Transaction ──> Operation
//!   _transactions/*.txn       Transaction
//!   _deletions/*              deletion vectors
//!   _refs/                    Tag, CommitMarker
//!   every .lance file         Schema, and the protobuf messages of its footer
//! ```
//!
//! Everything here is pure: bytes in, types out, and back. No file is opened and nothing waits, so that each decoder can be
//! fuzzed by itself. `docs/format.md` is the specification.
//!
//! The bytes are not trusted. A decoder never panics and allocates nothing from a length that it has not checked: protobuf
//! messages are measured ([`Shape`]) before they are decoded.

pub mod auto_cleanup;
mod commit_marker;
mod compat;
mod conflict_reason;
mod decode_budget;
mod deletion_vector;
mod dictionary_values;
mod error;
pub mod flags;
mod fragment;
mod length_prefixed;
mod manifest;
mod manifest_file;
pub mod message_size;
mod naming;
pub mod paths;
pub mod proto;
mod raw_fields;
mod row_ids;
mod row_versions;
mod schema;
mod tags;
mod transaction;
mod type_declarations;

pub use commit_marker::{COMMIT_ID, CommitMarker, marker_path};
pub use compat::{COMPAT_KEY, Compat};
pub use conflict_reason::{ROWS_NAMED, Reason};
pub use deletion_vector::{decode_deletions, deletion_file_kind, encode_deletions};
pub use dictionary_values::{
    Dictionaries, EncodedDictionary, continues, decode_dictionary, dictionary_fields,
    dictionary_validity, encode_dictionary, longer, set_dictionary,
};
pub use error::{Error, Result};
pub use fragment::{DataFile, DeletionFile, DeletionFileKind, Fragment, REPLACED_FIELD};
pub use manifest::{Manifest, WRITER_LIBRARY};
pub use manifest_file::ManifestFile;
pub use message_size::{Part, Shape, count_fields};
pub use naming::{NamingScheme, newest_of, parse_manifest_name, versions_of};
pub use pilum_encoding::crc32c;
pub use proto::table::IndexMetadata;
pub use proto::table::transaction::rewrite::RewrittenIndex;
pub use raw_fields::{Malformed, RawField, RawFields, contents, without_fields};
pub use row_ids::{RowIdLookup, RowIdSequence, Segment};
pub use row_versions::RowVersions;
pub use schema::{DictionaryPosition, Field, FieldId, MAX_DEPTH, Schema};
pub use tags::{Tag, tag_name, tag_path};
pub use transaction::{
    ConfigUpdate, MapUpdate, Operation, OperationKind, RewriteGroup, Transaction,
};
pub use type_declarations::is_type_declaration;
