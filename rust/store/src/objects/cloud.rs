//! Clients of remote stores: made when first needed, once per process.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};
use percent_encoding::percent_decode_str;

use crate::error::{Error, Result};
use crate::location::CloudScheme;
use crate::options::StorageOptions;

/// Options that are ours and mean nothing to a client.
const OUR_OPTIONS: [&str; 3] = ["mmap", MAX_RETRIES, RETRY_TIMEOUT];

/// How often a request is sent again after a failure that may pass; 10 unless told.
const MAX_RETRIES: &str = "max_retries";

/// Seconds after which no request is sent again; 180 unless told.
const RETRY_TIMEOUT: &str = "retry_timeout_seconds";

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
        if let Some((maker, client)) = made.as_ref()
            && *maker == process
        {
            return Ok(Arc::clone(client));
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
        let retry = self.retry()?;
        let made: object_store::Result<Arc<dyn ObjectStore>> = match self.scheme {
            CloudScheme::S3 => {
                let start = AmazonS3Builder::from_env().with_url(&self.bucket_url);
                fold(options, start, AmazonS3Builder::with_config)
                    .with_retry(retry.clone())
                    .build()
                    .map(|client| Arc::new(client) as _)
            }
            CloudScheme::Gcs => {
                let start = GoogleCloudStorageBuilder::from_env().with_url(&self.bucket_url);
                fold(options, start, GoogleCloudStorageBuilder::with_config)
                    .with_retry(retry.clone())
                    .build()
                    .map(|client| Arc::new(client) as _)
            }
            CloudScheme::Azure => {
                let start = MicrosoftAzureBuilder::from_env().with_url(&self.bucket_url);
                fold(options, start, MicrosoftAzureBuilder::with_config)
                    .with_retry(retry.clone())
                    .build()
                    .map(|client| Arc::new(client) as _)
            }
            CloudScheme::Http => {
                let start = HttpBuilder::new().with_url(&self.bucket_url);
                fold(options, start, HttpBuilder::with_config)
                    .with_retry(retry.clone())
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
        self.options.iter().filter(|(key, _)| {
            !OUR_OPTIONS
                .iter()
                .any(|ours| ours.eq_ignore_ascii_case(key))
        })
    }

    fn retry(&self) -> Result<RetryConfig> {
        let mut retry = RetryConfig::default();
        if let Some(count) = self.number(MAX_RETRIES)? {
            retry.max_retries = usize::try_from(count).unwrap_or(usize::MAX);
        }
        if let Some(seconds) = self.number(RETRY_TIMEOUT)? {
            retry.retry_timeout = Duration::from_secs(seconds);
        }
        Ok(retry)
    }

    fn number(&self, key: &str) -> Result<Option<u64>> {
        let Some(value) = self.options.get(key) else {
            return Ok(None);
        };
        let refused = |_| Error::invalid(format!("storage option {key:?}"), "write a whole number");
        value.parse().map(Some).map_err(refused)
    }

    /// An option nobody reads is a typing error that would show much later, as a refused login.
    fn check_options(&self) -> Result<()> {
        self.retry()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(options: &StorageOptions) -> Result<Clients> {
        Ok(Clients::new(CloudScheme::S3, "s3://bucket/a%20b/t", options)?.0)
    }

    fn same(a: &Arc<dyn ObjectStore>, b: &Arc<dyn ObjectStore>) -> bool {
        Arc::ptr_eq(a, b)
    }

    #[test]
    fn the_client_is_made_once_per_process() {
        let clients = clients(&StorageOptions::new().with("region", "eu-1")).unwrap();
        assert!(
            clients.made.lock().unwrap().is_none(),
            "opening makes no client"
        );
        let first = clients.of_this_process().unwrap();
        assert!(same(&first, &clients.of_this_process().unwrap()));
        // As a forked child finds it: made by another process.
        clients.made.lock().unwrap().as_mut().unwrap().0 ^= 1;
        let second = clients.of_this_process().unwrap();
        assert!(!same(&first, &second));
        assert!(same(&second, &clients.of_this_process().unwrap()));
    }

    #[test]
    fn a_lock_nobody_will_release_stops_nobody() {
        let clients = clients(&StorageOptions::new().with("region", "eu-1")).unwrap();
        let held = clients.made.lock().unwrap();
        clients.of_this_process().unwrap();
        drop(held);
    }

    #[test]
    fn options_are_checked_when_opening_and_never_printed() {
        for (key, value) in [
            ("regoin", "c4n4ry"),
            ("max_retries", "c4n4ry"),
            ("", "c4n4ry"),
        ] {
            let error = clients(&StorageOptions::new().with(key, value)).unwrap_err();
            assert!(matches!(error, Error::InvalidInput { .. }));
            assert!(!format!("{error} {error:?}").contains("c4n4ry"), "{error}");
        }
        let options = StorageOptions::new()
            .with("AWS_ACCESS_KEY_ID", "c4n4ry")
            .with("AWS_SECRET_ACCESS_KEY", "c4n4ry")
            .with("aws_session_token", "c4n4ry")
            .with("Max_Retries", "3")
            .with("mmap", "false");
        let clients = clients(&options).unwrap();
        clients.of_this_process().unwrap();
        assert!(!format!("{clients:?}").contains("c4n4ry"));
    }

    #[test]
    fn the_folder_is_decoded_and_the_bucket_kept() {
        let none = StorageOptions::new();
        for (url, bucket, folder) in [
            ("s3://bucket/a%20b/t", "s3://bucket", "a b/t"),
            ("s3://bucket", "s3://bucket", ""),
        ] {
            let (clients, prefix) = Clients::new(CloudScheme::S3, url, &none).unwrap();
            assert_eq!(
                (clients.bucket_url.as_str(), prefix.as_str()),
                (bucket, folder)
            );
        }
        assert!(Clients::new(CloudScheme::S3, "s3://bucket/%ff", &none).is_err());
    }
}
