//! Clients of remote stores, made at the first request of a process.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};
use percent_encoding::percent_decode_str;

use super::connect::BoundConnector;
use super::once::OncePerProcess;
use crate::error::{Error, Result};
use crate::location::CloudScheme;
use crate::options::{DYNAMODB_ENDPOINT, MANIFEST_STORE, StorageOptions};

/// Options of this crate, which the clients do not know.
const OWN_OPTIONS: [&str; 5] = [
    "mmap",
    MAX_RETRIES,
    RETRY_TIMEOUT,
    MANIFEST_STORE,
    DYNAMODB_ENDPOINT,
];

/// The option for how often a request is sent again after a failure that may pass; 10 by default.
const MAX_RETRIES: &str = "max_retries";

/// The option for the seconds after which no request is sent again; 180 by default.
const RETRY_TIMEOUT: &str = "retry_timeout_seconds";

/// Makes the client of one bucket, once per process.
pub(crate) struct Clients {
    scheme: CloudScheme,
    /// Scheme and bucket, without the folder.
    bucket_url: String,
    url: String,
    options: StorageOptions,
    made: OncePerProcess<Arc<dyn ObjectStore>>,
    /// A test showed that the store honours conditional puts.
    pub(super) is_proven: AtomicBool,
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
            made: OncePerProcess::empty(),
            is_proven: AtomicBool::new(false),
        };
        clients.check_options()?;
        Ok((clients, prefix))
    }

    /// As [`Self::new`], for a bucket of S3.
    pub(crate) fn s3(url: &str, options: &StorageOptions) -> Result<(Self, String)> {
        Self::new(CloudScheme::S3, url, options)
    }

    /// The client of this process.
    pub(super) fn of_this_process(&self) -> Result<Arc<dyn ObjectStore>> {
        self.made.get_or_make(|| self.make())
    }

    /// The settings of an S3 client: those of the environment, then the options. Credentials are sent only to the host that
    /// they are for.
    pub(crate) fn s3_builder(&self) -> AmazonS3Builder {
        let start = AmazonS3Builder::from_env()
            .with_url(&self.bucket_url)
            .with_http_connector(BoundConnector);
        fold(self.client_options(), start, AmazonS3Builder::with_config)
    }

    /// A client with the requests that only S3 has.
    pub(crate) fn s3_client(&self) -> Result<AmazonS3> {
        choose_tls();
        let built = self.s3_builder().with_retry(self.retry()?).build();
        built.map_err(|error| self.refused(&error))
    }

    fn make(&self) -> Result<Arc<dyn ObjectStore>> {
        choose_tls();
        let options = self.client_options();
        let retry = self.retry()?;
        let made: object_store::Result<Arc<dyn ObjectStore>> = match self.scheme {
            CloudScheme::S3 => return Ok(Arc::new(self.s3_client()?)),
            CloudScheme::Gcs => {
                let start = GoogleCloudStorageBuilder::from_env()
                    .with_url(&self.bucket_url)
                    .with_http_connector(BoundConnector);
                fold(options, start, GoogleCloudStorageBuilder::with_config)
                    .with_retry(retry)
                    .build()
                    .map(|client| Arc::new(client) as _)
            }
            CloudScheme::Azure => {
                let start = MicrosoftAzureBuilder::from_env()
                    .with_url(&self.bucket_url)
                    .with_http_connector(BoundConnector);
                fold(options, start, MicrosoftAzureBuilder::with_config)
                    .with_retry(retry)
                    .build()
                    .map(|client| Arc::new(client) as _)
            }
            // Without credentials redirects are harmless, and web servers use them.
            CloudScheme::Http => {
                let start = HttpBuilder::new().with_url(&self.bucket_url);
                fold(options, start, HttpBuilder::with_config)
                    .with_retry(retry)
                    .build()
                    .map(|client| Arc::new(client) as _)
            }
        };
        made.map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &object_store::Error) -> Error {
        Error::invalid(
            format!("storage options of {}", self.url),
            self.options.redact(&error.to_string()),
        )
    }

    /// Scheme, bucket and endpoint of an S3 store that is not Amazon's and may not keep its rules; `None` for other stores.
    pub(super) fn foreign_s3(&self) -> Option<String> {
        if self.scheme != CloudScheme::S3 {
            return None;
        }
        let key = object_store::aws::AmazonS3ConfigKey::Endpoint;
        let endpoint = self.s3_builder().get_config_value(&key)?;
        Some(format!("{} at {endpoint}", self.bucket_url))
    }

    fn client_options(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options
            .iter()
            .filter(|(key, _)| !OWN_OPTIONS.iter().any(|own| own.eq_ignore_ascii_case(key)))
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

    /// How often a request is sent again.
    pub(crate) fn max_retries(&self) -> Result<u32> {
        Ok(u32::try_from(self.retry()?.max_retries).unwrap_or(u32::MAX))
    }

    fn number(&self, key: &str) -> Result<Option<u64>> {
        let Some(value) = self.options.get(key) else {
            return Ok(None);
        };
        let refused = |_| Error::invalid(format!("storage option {key:?}"), "write a whole number");
        value.parse().map(Some).map_err(refused)
    }

    /// Refuses unknown options: a misspelled credential would otherwise show much later, as a refused login.
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

/// TLS without a C build, unless the process has chosen its provider already: then that one serves as well.
fn choose_tls() {
    let chosen = rustls::crypto::ring::default_provider().install_default();
    drop(chosen);
}

/// `start` with every option that its client knows; `check_options` has refused unknown ones.
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
    use crate::process::ProcessGeneration;

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
            clients.made.0.lock().unwrap().is_none(),
            "opening makes no client"
        );
        let first = clients.of_this_process().unwrap();
        assert!(same(&first, &clients.of_this_process().unwrap()));
        // As a forked child finds it: made in another generation.
        clients.made.0.lock().unwrap().as_mut().unwrap().0 = ProcessGeneration::other();
        let second = clients.of_this_process().unwrap();
        assert!(!same(&first, &second));
        assert!(same(&second, &clients.of_this_process().unwrap()));
    }

    #[test]
    fn a_lock_that_stays_locked_does_not_block() {
        let clients = clients(&StorageOptions::new().with("region", "eu-1")).unwrap();
        let held = clients.made.0.lock().unwrap();
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
