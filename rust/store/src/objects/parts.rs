//! Streamed writes of remote objects: small ones in one conditional put, large ones in parts.

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt, WriteMultipart};

use super::bucket::Bucket;
use crate::error::{Error, Result};
use crate::event;
use crate::object::ObjectWriter;

/// Larger objects are sent in parts of this size. S3 takes 10,000 parts at most, which are 160 GB.
const PART_BYTES: usize = 16 << 20;

/// Parts in flight at once, which bounds the memory of a writer.
const MAX_CONCURRENT_PARTS: usize = 4;

#[derive(Debug)]
pub(super) struct StreamedObject {
    bucket: Bucket,
    key: Key,
    shown: String,
    position: u64,
    /// All bytes, until there are enough for a part.
    pending: BytesMut,
    parts: Option<WriteMultipart>,
    is_failed: bool,
}

impl StreamedObject {
    pub(super) fn new(bucket: Bucket, key: Key, shown: String) -> Self {
        Self {
            bucket,
            key,
            shown,
            position: 0,
            pending: BytesMut::new(),
            parts: None,
            is_failed: false,
        }
    }

    async fn append(&mut self, bytes: Bytes) -> Result<()> {
        self.check_healthy()?;
        // Until the end of this call: a write that is cancelled leaves a gap, as a failed one does.
        self.is_failed = true;
        let byte_len = bytes.len();
        if self.parts.is_none() && self.pending.len() + byte_len <= PART_BYTES {
            self.pending.extend_from_slice(&bytes);
        } else {
            self.send(bytes)
                .await
                .map_err(|e| self.bucket.failed(&self.shown, "write the object", e))?;
        }
        self.position += byte_len as u64;
        self.is_failed = false;
        Ok(())
    }

    async fn send(&mut self, bytes: Bytes) -> object_store::Result<()> {
        if self.parts.is_none() {
            let client = self.bucket.client().map_err(client_failed)?;
            let upload = client.put_multipart(&self.key).await?;
            let mut parts = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
            self.bucket.tally.write(self.pending.len());
            parts.put(std::mem::take(&mut self.pending).freeze());
            self.parts = Some(parts);
        }
        if let Some(parts) = &mut self.parts {
            parts.wait_for_capacity(MAX_CONCURRENT_PARTS).await?;
            self.bucket.tally.write(bytes.len());
            parts.put(bytes);
        }
        Ok(())
    }

    async fn complete(&mut self) -> Result<u64> {
        self.check_healthy()?;
        match self.parts.take() {
            None => {
                let bytes = std::mem::take(&mut self.pending).freeze();
                self.bucket
                    .put_mode(&self.key, &self.shown, bytes, self.bucket.unique.clone())
                    .await?;
            }
            Some(parts) => {
                let finished = parts.finish().await;
                finished.map_err(|error| self.bucket.write_failed(&self.shown, error))?;
            }
        }
        Ok(self.position)
    }

    fn check_healthy(&self) -> Result<()> {
        if self.is_failed {
            return Err(Error::Io {
                path: self.shown.clone(),
                operation: "continue the object",
                source: std::io::Error::other("an earlier write of this object failed"),
            });
        }
        Ok(())
    }
}

fn client_failed(error: Error) -> object_store::Error {
    object_store::Error::Generic {
        store: "client",
        source: Box::new(error),
    }
}

impl ObjectWriter for StreamedObject {
    fn path(&self) -> &str {
        &self.shown
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<()>> {
        self.append(bytes).boxed()
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<u64>> {
        async move {
            let begun = event::publish_begun();
            let finished = self.complete().await;
            event::published("finish", (&self.shown, ""), self.position, begun, &finished);
            finished
        }
        .boxed()
    }
}

impl Drop for StreamedObject {
    /// Aborts an unfinished upload: its parts are invisible, but cost money until the store expires them.
    fn drop(&mut self) {
        if let (Some(parts), Ok(runtime)) =
            (self.parts.take(), tokio::runtime::Handle::try_current())
        {
            let (bucket, path) = (self.bucket.clone(), self.shown.clone());
            runtime.spawn(async move {
                if let Err(error) = parts.abort().await {
                    let error = bucket.failed(&path, "abort the upload", error);
                    tracing::warn!(target: event::CLEANUP, %error, "parts of an unfinished object were not removed");
                }
            });
        }
    }
}
