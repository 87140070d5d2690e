//! Clients of remote stores: made when first needed, once per process.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{ClientConfigKey, ObjectStore};
use percent_encoding::percent_decode_str;

use crate::error::{Error, Result};
use crate::location::CloudScheme;
use crate::options::StorageOptions;

/// Options that are ours and mean nothing to a client.
const OUR_OPTIONS: [&str; 1] = ["mmap"];

/// How to make the client of one bucket, and the one made last.
pub(super) struct Clients {
    scheme: CloudScheme,
    /// Scheme and bucket, without the folder.
    bucket_url: String,
    url: String,
    options: StorageOptions,
    /// With the id of the process that made it: sockets and threads do not survive a fork.
    made: Mutex<Option<(u32, Arc<dyn ObjectStore>)>>,
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients")
            .field("url", &self.url)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Clients {
    /// The clients for `url`, and the folder it names inside the bucket. Options are checked now, the
    /// network is not touched.
    pub(super) fn new(
        scheme: CloudScheme,
        url: &str,
        options: &StorageOptions,
    ) -> Result<(Self, String)> {
        let authority_at = url.find("://").map_or(0, |at| at + 3);
        let after = url.get(authority_at..).unwrap_or_default();
        let authority_end = authority_at + after.find('/').unwrap_or(after.len());
        let (bucket_url, folder) = url.split_at(authority_end);
        let prefix = percent_decode_str(folder.trim_matches('/'))
            .decode_utf8()
            .map_err(|_| Error::invalid(url, "its percent-encoding is not UTF-8"))?
            .into_owned();
        let clients = Self {
            scheme,
            bucket_url: bucket_url.to_owned(),
            url: url.to_owned(),
            options: options.clone(),
            made: Mutex::new(None),
        };
        clients.check_options()?;
        Ok((clients, prefix))
    }

    /// The client of this process. The lock is only ever tried: if another thread has it, or had it at a
    /// fork, a client of our own costs a connection and no deadlock.
    pub(super) fn of_this_process(&self) -> Result<Arc<dyn ObjectStore>> {
        let process = std::process::id();
        let Ok(mut made) = self.made.try_lock() else {
            return self.make();
        };
        if let Some((maker, client)) = made.as_ref() {
            if *maker == process {
                return Ok(Arc::clone(client));
            }
        }
        let client = self.make()?;
        let parents = made.replace((process, Arc::clone(&client)));
        // Closing the parent's client here would wait for threads that exist only over there.
        std::mem::forget(parents);
        Ok(client)
    }

    fn make(&self) -> Result<Arc<dyn ObjectStore>> {
        // TLS without a C build; harmless if the process has chosen already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = self.client_options();
        let made: object_store::Result<Arc<dyn ObjectStore>> = match self.scheme {
            CloudScheme::S3 => {
                let start = AmazonS3Builder::from_env().with_url(&self.bucket_url);
                fold(options, start, AmazonS3Builder::with_config)
                    .build()
                    .map(|client| Arc::new(client) as _)
            }
            CloudScheme::Gcs => {
                let start = GoogleCloudStorageBuilder::from_env().with_url(&self.bucket_url);
                fold(options, start, GoogleCloudStorageBuilder::with_config)
                    .build()
                    .map(|client| Arc::new(client) as _)
            }
            CloudScheme::Azure => {
                let start = MicrosoftAzureBuilder::from_env().with_url(&self.bucket_url);
                fold(options, start, MicrosoftAzureBuilder::with_config)
                    .build()
                    .map(|client| Arc::new(client) as _)
            }
            CloudScheme::Http => {
                let start = HttpBuilder::new().with_url(&self.bucket_url);
                fold(options, start, HttpBuilder::with_config)
                    .build()
                    .map(|client| Arc::new(client) as _)
            }
        };
        made.map_err(|error| {
            Error::invalid(
                format!("storage options of {}", self.url),
                self.options.redact(&error.to_string()),
            )
        })
    }

    fn client_options(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options
            .iter()
            .filter(|(key, _)| !OUR_OPTIONS.contains(key))
    }

    /// An option nobody reads is a typing error that would show much later, as a refused login.
    fn check_options(&self) -> Result<()> {
        for (key, _) in self.client_options() {
            let name = key.to_ascii_lowercase();
            let is_known = match self.scheme {
                CloudScheme::S3 => object_store::aws::AmazonS3ConfigKey::from_str(&name).is_ok(),
                CloudScheme::Gcs => object_store::gcp::GoogleConfigKey::from_str(&name).is_ok(),
                CloudScheme::Azure => object_store::azure::AzureConfigKey::from_str(&name).is_ok(),
                CloudScheme::Http => ClientConfigKey::from_str(&name).is_ok(),
            };
            if !is_known {
                return Err(Error::invalid(
                    format!("storage option {key:?}"),
                    format!("unknown for {}", self.bucket_url),
                ));
            }
        }
        Ok(())
    }
}

/// `start` with every option its client knows; all are known, see `check_options`.
fn fold<'a, B, K: FromStr>(
    options: impl Iterator<Item = (&'a str, &'a str)>,
    start: B,
    with: impl Fn(B, K, &'a str) -> B,
) -> B {
    options.fold(start, |builder, (name, value)| {
        match name.to_ascii_lowercase().parse::<K>() {
            Ok(key) => with(builder, key, value),
            Err(_) => builder,
        }
    })
}
