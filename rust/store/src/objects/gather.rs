//! Streamed writes to a store in memory: the bytes are gathered and the object is created at the end.

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use object_store::path::Path as Key;

use super::bucket::Bucket;
use crate::error::Result;
use crate::event;
use crate::object::ObjectWriter;

#[derive(Debug)]
pub(super) struct GatheredObject {
    bucket: Bucket,
    key: Key,
    shown: String,
    gathered: BytesMut,
}

impl GatheredObject {
    pub(super) fn new(bucket: Bucket, key: Key, shown: String) -> Self {
        Self {
            bucket,
            key,
            shown,
            gathered: BytesMut::new(),
        }
    }

    async fn complete(&mut self) -> Result<u64> {
        let size = self.gathered.len() as u64;
        let bytes = std::mem::take(&mut self.gathered).freeze();
        self.bucket
            .put_mode(&self.key, &self.shown, bytes, self.bucket.unique.clone())
            .await?;
        Ok(size)
    }
}

impl ObjectWriter for GatheredObject {
    fn path(&self) -> &str {
        &self.shown
    }

    fn position(&self) -> u64 {
        self.gathered.len() as u64
    }

    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<()>> {
        self.gathered.extend_from_slice(&bytes);
        ready(Ok(())).boxed()
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<u64>> {
        async move {
            let (begun, bytes) = (event::publish_begun(), self.position());
            let finished = self.complete().await;
            event::published("finish", (&self.shown, ""), bytes, begun, &finished);
            finished
        }
        .boxed()
    }
}
