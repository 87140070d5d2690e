//! Opening a set by its address: which of the stored forms it has, and whether it is compressed.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use pilum_store::{ReadAt, StorageOptions, Store};

use crate::document::{DocumentOptions, read_document};
use crate::error::{Error, Result};
use crate::parquet_set::ParquetSet;
use crate::set::ReferenceSet;
use crate::value::Reference;

/// A set in one of its forms.
#[derive(Debug, Clone)]
pub enum References {
    /// Read from JSON, or made.
    Memory(Arc<ReferenceSet>),
    /// In a folder of Parquet files.
    Parquet(Arc<ParquetSet>),
}

/// A document may have so many bytes where it cannot be streamed.
const MOST_DOCUMENT: u64 = 8 << 30;

impl References {
    /// Opens the set at `uri`. A name with `.json` is JSON; one that ends in `parq`, `parquet` or a slash, or that is a folder of
    /// this machine, is a folder of Parquet files; any other name is JSON. Compression is told by the first bytes.
    ///
    /// # Errors
    /// [`Error::Store`] when there is nothing; otherwise as [`read_document`] and [`ParquetSet::open`].
    pub async fn open(
        uri: &str,
        storage: &StorageOptions,
        options: &DocumentOptions,
        cache_size: Option<usize>,
    ) -> Result<Self> {
        if is_parquet(uri) {
            let store = Store::open(uri.trim_end_matches('/'), storage)?;
            return Ok(Self::Parquet(Arc::new(
                ParquetSet::open(store, cache_size).await?,
            )));
        }
        let (folder, name) = match uri.rsplit_once('/') {
            Some(("", name)) => ("/", name),
            Some((folder, name)) if !folder.ends_with(":/") => (folder, name),
            Some(_) => return Err(Error::invalid(uri, "the address names no file")),
            None => (".", uri),
        };
        let store = Store::open(folder, storage)?;
        let file = store.open_file(name, None).await?;
        let whole = if store.is_local() || file.mapped().is_some() {
            None
        } else {
            Some(store.read(name, MOST_DOCUMENT).await?)
        };
        let open = || decompressed(&file, whole.as_ref());
        Ok(Self::Memory(Arc::new(read_document(uri, open, options)?)))
    }

    /// Reads a document that is in memory.
    ///
    /// # Errors
    /// As [`read_document`].
    pub fn from_bytes(bytes: &Bytes, options: &DocumentOptions) -> Result<Self> {
        let open = || {
            unpacked(
                bytes.get(..4).unwrap_or_default(),
                bytes.len() as u64,
                io::Cursor::new(bytes.clone()),
            )
        };
        Ok(Self::Memory(Arc::new(read_document(
            "the document",
            open,
            options,
        )?)))
    }

    /// The number of keys; of a folder of Parquet files that of metadata and grid cells.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Memory(set) => set.len() as u64,
            Self::Parquet(set) => set.len(),
        }
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of some keys.
    ///
    /// # Errors
    /// When a Parquet file cannot be read.
    pub async fn locate(&self, keys: &[String]) -> Result<Vec<Option<Reference<'static>>>> {
        match self {
            Self::Memory(set) => Ok(keys
                .iter()
                .map(|key| set.get(key).map(Reference::into_owned))
                .collect()),
            Self::Parquet(set) => set.locate(keys).await,
        }
    }

    /// The set in memory; of a folder of Parquet files the metadata and the arrays that `prefix` can match.
    ///
    /// # Errors
    /// When a Parquet file cannot be read.
    pub async fn load(&self, prefix: &str) -> Result<Arc<ReferenceSet>> {
        match self {
            Self::Memory(set) => Ok(Arc::clone(set)),
            Self::Parquet(set) => Ok(Arc::new(set.load(prefix).await?)),
        }
    }
}

fn is_parquet(uri: &str) -> bool {
    if uri.contains(".json") {
        return false;
    }
    let is_local = !uri.contains("://") || uri.starts_with("file://");
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    uri.ends_with("parq")
        || uri.ends_with("parquet")
        || uri.ends_with('/')
        || is_local && std::path::Path::new(path).is_dir()
}

/// A reader of the file, in pieces, so that a large document is never in memory as a whole.
fn decompressed<'a>(
    file: &'a Arc<dyn ReadAt>,
    whole: Option<&'a Bytes>,
) -> Result<Box<dyn Read + 'a>> {
    if let Some(whole) = whole {
        return unpacked(
            whole.get(..4).unwrap_or_default(),
            whole.len() as u64,
            io::Cursor::new(whole.clone()),
        );
    }
    let pieces = |at: u64| Pieces {
        file,
        at,
        piece: Bytes::new(),
    };
    let mut first = Vec::new();
    let begun = pieces(0).take(4).read_to_end(&mut first);
    begun.map_err(|error| Error::corrupt(file.path(), error.to_string()))?;
    unpacked(&first, file.size(), pieces(0))
}

fn unpacked<'a>(first: &[u8], size: u64, reader: impl Read + 'a) -> Result<Box<dyn Read + 'a>> {
    // A document of repeated lines compresses a hundredfold; more than this is an attack.
    let most = size.saturating_mul(1000).saturating_add(1 << 30);
    Ok(match first {
        [0x1f, 0x8b, ..] => Box::new(Bounded {
            inner: flate2::read::MultiGzDecoder::new(reader),
            left: most,
        }),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let decoder = zstd::stream::read::Decoder::new(reader);
            let inner =
                decoder.map_err(|error| Error::corrupt("the document", error.to_string()))?;
            Box::new(Bounded { inner, left: most })
        }
        _ => Box::new(reader),
    })
}

struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let left = self.left.checked_sub(count as u64);
        self.left = left
            .ok_or_else(|| io::Error::other("it unpacks to more than a thousand times its size"))?;
        Ok(count)
    }
}

/// Reads a local file piece by piece.
struct Pieces<'a> {
    file: &'a Arc<dyn ReadAt>,
    at: u64,
    piece: Bytes,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        const PIECE: u64 = 1 << 20;
        if self.piece.is_empty() {
            let end = self.file.size().min(self.at + PIECE);
            if end <= self.at {
                return Ok(0);
            }
            // Reads of local files are complete at their first poll.
            let range = self.at..end;
            let read = self
                .file
                .read_ranges(std::slice::from_ref(&range))
                .now_or_never();
            let read = read.ok_or_else(|| io::Error::other("the file is not local"))?;
            let parts = read.map_err(io::Error::other)?;
            self.piece = parts.into_iter().next().unwrap_or_default();
            self.at = end;
        }
        let count = self.piece.len().min(buffer.len());
        let (to, _) = buffer.split_at_mut(count);
        to.copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}
