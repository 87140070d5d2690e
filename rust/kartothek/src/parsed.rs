//! [`ParsedDocument`]: a metadata document as it was read, with what was parsed from it. As long as one part of the process uses
//! a document, no other part parses the same bytes again.
//!
//! One update of an opened dataset reads the document four more times: for the layout of the new rows, for the partitions to
//! remove, under the lock of the commit, and to open the new state. Each of them has to ask the store, since another writer may
//! have committed, but the bytes are mostly those that were parsed before, or that this process has just written.

use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use bytes::Bytes;

use crate::error::Result;
use crate::history::Bookkeeping;
use crate::limits::Limits;
use crate::metadata::DatasetMetadata;
use crate::names::DocumentForm;

/// The most documents that are remembered; the oldest one makes room.
const REMEMBERED: usize = 16;

/// The documents in use. They are kept alive by those who use them, and not from here.
static IN_USE: Mutex<Vec<Weak<ParsedDocument>>> = Mutex::new(Vec::new());

/// A metadata document: its bytes, and what they mean.
#[derive(Debug)]
pub(crate) struct ParsedDocument {
    pub(crate) bytes: Bytes,
    pub(crate) form: DocumentForm,
    pub(crate) book: Option<Bookkeeping>,
    metadata: Arc<DatasetMetadata>,
    /// The limits on size, levels and members with which the document was parsed.
    limits: (u64, usize, usize),
    is_foreign: OnceLock<bool>,
}

impl ParsedDocument {
    /// Parses a document, or finds that this process has done so and still uses the result. Arguments as of
    /// [`DatasetMetadata::parse`].
    pub(crate) fn of(
        bytes: Bytes,
        form: DocumentForm,
        path: &str,
        uuid: &str,
        limits: &Limits,
    ) -> Result<Arc<Self>> {
        let known = |it: &Arc<Self>| {
            (it.form, it.limits, it.metadata.uuid.as_str()) == (form, parts_of(limits), uuid)
                && it.bytes == bytes
        };
        if let Some(known) = in_use().iter().find(|it| known(it)) {
            return Ok(Arc::clone(known));
        }
        let metadata = DatasetMetadata::parse(&bytes, form, path, uuid, limits)?;
        Ok(Self::remembered(
            Arc::new(metadata),
            bytes,
            form,
            limits,
            OnceLock::new(),
        ))
    }

    /// A document that this process has committed, and `bytes` of it.
    pub(crate) fn of_commit(
        metadata: DatasetMetadata,
        bytes: Bytes,
        form: DocumentForm,
        limits: &Limits,
    ) -> Arc<Self> {
        let own = OnceLock::from(false);
        Self::remembered(Arc::new(metadata), bytes, form, limits, own)
    }

    fn remembered(
        metadata: Arc<DatasetMetadata>,
        bytes: Bytes,
        form: DocumentForm,
        limits: &Limits,
        is_foreign: OnceLock<bool>,
    ) -> Arc<Self> {
        let parsed = Arc::new(Self {
            bytes,
            form,
            book: Bookkeeping::of(&metadata),
            metadata,
            limits: parts_of(limits),
            is_foreign,
        });
        // After a fork the lock may be held by a thread that this process does not have: then nothing is remembered.
        if let Ok(mut known) = IN_USE.try_lock() {
            known.retain(|it| it.strong_count() > 0);
            if known.len() >= REMEMBERED {
                known.remove(0);
            }
            known.push(Arc::downgrade(&parsed));
        }
        parsed
    }

    /// What the document says.
    pub(crate) fn metadata(&self) -> &Arc<DatasetMetadata> {
        &self.metadata
    }

    /// Whether another library wrote the document, or changed it after a commit of this one.
    pub(crate) fn is_foreign(&self) -> Result<bool> {
        if let Some(known) = self.is_foreign.get() {
            return Ok(*known);
        }
        let found = match &self.book {
            Some(book) => !book.describes(&self.metadata)?,
            None => true,
        };
        Ok(*self.is_foreign.get_or_init(|| found))
    }
}

impl Deref for ParsedDocument {
    type Target = DatasetMetadata;

    fn deref(&self) -> &DatasetMetadata {
        &self.metadata
    }
}

fn parts_of(limits: &Limits) -> (u64, usize, usize) {
    (limits.document_bytes, limits.depth, limits.entries)
}

fn in_use() -> Vec<Arc<ParsedDocument>> {
    let known = IN_USE.try_lock();
    known.map_or_else(
        |_| Vec::new(),
        |it| it.iter().filter_map(Weak::upgrade).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, uuid: &str, limits: &Limits) -> Result<Arc<ParsedDocument>> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        ParsedDocument::of(bytes, DocumentForm::Json, "path", uuid, limits)
    }

    #[test]
    fn the_same_bytes_are_parsed_again_only_under_other_limits_or_for_another_dataset() {
        let text = r#"{"dataset_metadata_version":4,"dataset_uuid":"parsed-once"}"#;
        let limits = Limits::default();
        let first = parsed(text, "parsed-once", &limits).unwrap();
        let second = parsed(text, "parsed-once", &limits).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert!(first.is_foreign().unwrap());
        let blank = parsed(&format!("{text} "), "parsed-once", &limits).unwrap();
        assert!(!Arc::ptr_eq(&first, &blank));
        parsed(text, "another", &limits).unwrap_err();
        let narrow = Limits {
            document_bytes: 10,
            ..limits
        };
        assert_eq!(
            parsed(text, "parsed-once", &narrow).unwrap_err().kind(),
            "limit"
        );
    }
}
