//! The register in a DynamoDB table, with the rows that other Lance libraries write and read there.
//!
//! | attribute | type | meaning |
//! |---|---|---|
//! | `base_uri` | S, hash key | folder of the table inside its bucket |
//! | `version` | N, range key | the version |
//! | `path` | S | key of the manifest inside the bucket |
//! | `size` | N | size of the manifest in bytes |
//! | `committer` | S | `lancedb` |
//!
//! The register needs five kinds of requests, so they are signed POST requests and not those of a client library. Signature
//! and credentials, renewed before they expire, come from the S3 client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::aws::{AmazonS3ConfigKey, AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpConnector, HttpErrorKind, HttpRequest};
use object_store::{ClientConfigKey, ClientOptions, HeaderValue};
use rand::Rng;
use serde_json::{Map, Value, json};

use super::rows::{ManifestRegister, RegisterEntry};
use crate::error::{Error, Result, chain};
use crate::event;
use crate::failpoint::hit;
use crate::objects::{BoundConnector, Clients, OncePerProcess};
use crate::options::{DYNAMODB_ENDPOINT, StorageOptions};

/// The value of `committer`, which other libraries read.
const COMMITTER: &str = "lancedb";

/// The condition that the row does not exist.
const ABSENT: &str = "attribute_not_exists(base_uri) AND attribute_not_exists(version)";

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Refusals after which nothing was written and another attempt may succeed.
const THROTTLED: [&str; 4] = [
    "ThrottlingException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "LimitExceededException",
];

pub(crate) struct DynamoDb {
    table: String,
    /// The folder of the table inside the bucket.
    base: String,
    endpoint: String,
    region: String,
    /// The address of the register in messages.
    uri: String,
    options: StorageOptions,
    max_retries: u32,
    clients: Clients,
    made: OncePerProcess<(HttpClient, AwsCredentialProvider)>,
}

impl fmt::Debug for DynamoDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoDb")
            .field("uri", &self.uri)
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

/// The outcome of a failed request.
enum Failed {
    /// The condition of the write does not hold.
    Condition,
    /// Nothing was written.
    Certainly(std::io::Error),
    /// The row may or may not have been written.
    Unclear(std::io::Error),
}

impl Failed {
    fn source(&self) -> Option<&std::io::Error> {
        match self {
            Self::Condition => None,
            Self::Certainly(source) | Self::Unclear(source) => Some(source),
        }
    }
}

impl DynamoDb {
    /// The register of the table at the S3 URL `url` in the DynamoDB table `table`. No request is made.
    pub(crate) fn new(url: &str, table: String, options: &StorageOptions) -> Result<Self> {
        let (clients, base) = Clients::s3(url, options)?;
        let region = clients
            .s3_builder()
            .get_config_value(&AmazonS3ConfigKey::Region)
            .unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = options
            .get(DYNAMODB_ENDPOINT)
            .map(str::to_owned)
            .or_else(|| std::env::var("DYNAMODB_ENDPOINT").ok())
            .unwrap_or_else(|| format!("https://dynamodb.{region}.amazonaws.com"));
        let host = endpoint.split_once("://").map(|(_, rest)| rest);
        if host.is_none_or(|host| host.is_empty() || host.contains(['@', '?', '#'])) {
            return Err(Error::invalid(
                format!("storage option {DYNAMODB_ENDPOINT:?}"),
                "write a URL without user, password or query: https://host",
            ));
        }
        let max_retries = clients.max_retries()?;
        Ok(Self {
            uri: format!("{}/{table}", endpoint.trim_end_matches('/')),
            table,
            base,
            endpoint,
            region,
            options: options.clone(),
            max_retries,
            clients,
            made: OncePerProcess::empty(),
        })
    }

    fn client(&self) -> Result<(HttpClient, AwsCredentialProvider)> {
        self.made.get_or_make(|| {
            let refused = |error: object_store::Error| {
                Error::invalid(
                    format!("storage options of {}", self.uri),
                    self.options.redact(&error.to_string()),
                )
            };
            let known = self.options.iter().filter_map(|(name, value)| {
                let key: ClientConfigKey = name.to_ascii_lowercase().parse().ok()?;
                Some((key, value))
            });
            let options = known.fold(ClientOptions::new(), |options, (key, value)| {
                options.with_config(key, value)
            });
            let http = BoundConnector.connect(&options).map_err(refused)?;
            let s3 = self.clients.s3_client()?;
            Ok((http, Arc::clone(s3.credentials())))
        })
    }

    /// Sends the request `action`, and sends it again after a temporary failure. A request that may have taken effect is sent
    /// again only if `may_repeat` is true.
    async fn call(
        &self,
        action: &str,
        body: &Value,
        may_repeat: bool,
    ) -> std::result::Result<Value, Failed> {
        let mut attempt = 0;
        loop {
            let (failed, passes) = match self.once(action, body).await {
                Ok(answer) => return Ok(answer),
                Err(answer) => answer,
            };
            let passes = passes || (may_repeat && matches!(failed, Failed::Unclear(_)));
            if !passes || attempt >= self.max_retries {
                return Err(failed);
            }
            attempt += 1;
            let bound = FIRST_PAUSE
                .saturating_mul(1 << attempt.min(10))
                .min(LONGEST_PAUSE);
            let pause = rand::rng().random_range(Duration::ZERO..=bound);
            tracing::debug!(
                target: event::REGISTER,
                operation = action,
                uri = self.uri,
                attempt,
                pause_us = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX),
                error = failed.source().map(tracing::field::display),
                "retry"
            );
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends one request. A failure comes with whether another attempt may succeed.
    async fn once(&self, action: &str, body: &Value) -> std::result::Result<Value, (Failed, bool)> {
        let certain = |text: String| (Failed::Certainly(self.foreign(&text)), false);
        let (http, credentials) = self.client().map_err(|e| certain(e.to_string()))?;
        let credential = credentials
            .get_credential()
            .await
            .map_err(|error| certain(format!("no credentials: {error}")))?;
        let mut request = HttpRequest::new(body.to_string().into());
        *request.method_mut() = reqwest::Method::POST;
        *request.uri_mut() = format!("{}/", self.endpoint.trim_end_matches('/'))
            .parse()
            .map_err(|error| certain(format!("{error}")))?;
        let target = HeaderValue::from_str(&format!("DynamoDB_20120810.{action}"))
            .map_err(|error| certain(error.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(
            "content-type",
            HeaderValue::from_static("application/x-amz-json-1.0"),
        );
        headers.insert("x-amz-target", target);
        AwsAuthorizer::new(&credential, "dynamodb", &self.region)
            .try_authorize(&mut request, None)
            .map_err(|error| certain(error.to_string()))?;
        let answer = match http.execute(request).await {
            Ok(answer) => answer,
            // No server received the request.
            Err(error) if error.kind() == HttpErrorKind::Connect => {
                return Err((Failed::Certainly(self.foreign(&chain(&error))), true));
            }
            Err(error) if crate::objects::refusal(&error).is_some() => {
                return Err(certain(chain(&error)));
            }
            Err(error) => return Err((Failed::Unclear(self.foreign(&chain(&error))), false)),
        };
        let status = answer.status();
        let bytes = answer
            .into_body()
            .bytes()
            .await
            .map_err(|error| (Failed::Unclear(self.foreign(&chain(&error))), false))?;
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(|error| {
                let text = format!("the answer is no JSON: {error}");
                (Failed::Unclear(self.foreign(&text)), false)
            });
        }
        let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let kind = said["__type"].as_str().unwrap_or_default();
        let kind = kind.rsplit('#').next().unwrap_or_default();
        if kind == "ConditionalCheckFailedException" {
            return Err((Failed::Condition, false));
        }
        let words = said["message"].as_str().or(said["Message"].as_str());
        let mut text = format!("{status}: {kind} {}", words.unwrap_or_default());
        if kind == "ResourceNotFoundException" {
            text += "; make a table with the hash key base_uri (S) and the range key version (N)";
        }
        let passes = THROTTLED.contains(&kind);
        if status.is_server_error() {
            return Err((Failed::Unclear(self.foreign(&text)), false));
        }
        Err((Failed::Certainly(self.foreign(&text)), passes))
    }

    /// A message of the server or the client, from which secrets are removed.
    fn foreign(&self, text: &str) -> std::io::Error {
        std::io::Error::other(self.options.redact(text))
    }

    async fn read(&self, action: &str, body: Value) -> Result<Value> {
        self.call(action, &body, true).await.map_err(|failed| {
            let source = match failed {
                Failed::Condition => std::io::Error::other("a condition in an answer to a read"),
                Failed::Certainly(source) | Failed::Unclear(source) => source,
            };
            self.failed("read the register", source)
        })
    }

    fn failed(&self, operation: &'static str, source: std::io::Error) -> Error {
        Error::Io {
            path: self.uri.clone(),
            operation,
            source,
        }
    }

    fn key(&self, path: &str) -> String {
        match self.base.as_str() {
            "" => path.to_owned(),
            base => format!("{base}/{path}"),
        }
    }

    fn item(&self, entry: &RegisterEntry) -> Value {
        let mut item = json!({
            "base_uri": {"S": self.base},
            "version": {"N": entry.version.to_string()},
            "path": {"S": self.key(&entry.path)},
            "committer": {"S": COMMITTER},
        });
        if let Some(size) = entry.size {
            item["size"] = json!({"N": size.to_string()});
        }
        item
    }

    fn entry(&self, item: &Map<String, Value>) -> Result<RegisterEntry> {
        let damaged = |what: &str| {
            let text = format!("the row of {} has no {what}", self.base);
            let source = std::io::Error::new(std::io::ErrorKind::InvalidData, text);
            self.failed("read the register", source)
        };
        let number = |name: &str| -> Option<u64> { item.get(name)?["N"].as_str()?.parse().ok() };
        let path = item.get("path").and_then(|it| it["S"].as_str());
        let path = path.ok_or_else(|| damaged("path"))?;
        let relative = match self.base.as_str() {
            "" => Some(path),
            base => path.strip_prefix(base).and_then(|it| it.strip_prefix('/')),
        };
        let relative = relative.ok_or_else(|| Error::OutsideRoot {
            path: path.escape_debug().to_string(),
            reason: "the register names a manifest in another folder",
        })?;
        Ok(RegisterEntry {
            version: number("version").ok_or_else(|| damaged("version"))?,
            path: relative.to_owned(),
            size: number("size"),
        })
    }

    async fn put(
        &self,
        item: &Value,
        condition: &str,
        may_repeat: bool,
    ) -> std::result::Result<(), Failed> {
        let body = json!({
            "TableName": self.table,
            "Item": item,
            "ConditionExpression": condition,
        });
        self.call("PutItem", &body, may_repeat).await.map(drop)
    }

    async fn find_newest(&self) -> Result<Option<RegisterEntry>> {
        let body = json!({
            "TableName": self.table,
            "KeyConditionExpression": "base_uri = :base",
            "ExpressionAttributeValues": {":base": {"S": self.base}},
            "ScanIndexForward": false,
            "ConsistentRead": true,
            "Limit": 1,
        });
        let answer = self.read("Query", body).await?;
        let item = answer["Items"].get(0).and_then(Value::as_object);
        item.map(|item| self.entry(item)).transpose()
    }

    async fn find(&self, version: u64) -> Result<Option<RegisterEntry>> {
        let body = json!({
            "TableName": self.table,
            "Key": {"base_uri": {"S": self.base}, "version": {"N": version.to_string()}},
            "ConsistentRead": true,
        });
        let answer = self.read("GetItem", body).await?;
        let item = answer["Item"].as_object().filter(|item| !item.is_empty());
        item.map(|item| self.entry(item)).transpose()
    }

    async fn add(&self, entry: RegisterEntry) -> Result<()> {
        let certainly = |source| self.failed("add a version to the register", source);
        hit("register.before_insert", &self.uri).map_err(certainly)?;
        let row = || format!("version {} of {}", entry.version, self.base);
        self.put_new(&self.item(&entry), row).await?;
        hit("register.after_insert", &self.uri).map_err(|source| Error::Unclear {
            path: self.uri.clone(),
            source,
        })
    }

    /// Adds a row if it does not exist.
    async fn put_new(&self, item: &Value, row: impl Fn() -> String) -> Result<()> {
        let certainly = |source| self.failed("add a version to the register", source);
        match self.put(item, ABSENT, false).await {
            Ok(()) => Ok(()),
            Err(Failed::Condition) => Err(Error::AlreadyExists {
                path: format!("{} in {}", row(), self.uri),
            }),
            Err(Failed::Certainly(source)) => Err(certainly(source)),
            Err(Failed::Unclear(source)) => Err(Error::Unclear {
                path: self.uri.clone(),
                source,
            }),
        }
    }

    /// The key of a row below the folder of the table, which no table with the same register reads.
    fn word_key(&self, word: &str) -> Value {
        json!({"base_uri": {"S": format!("{}/{word}", self.base)}, "version": {"N": "0"}})
    }

    async fn add_word(&self, word: &str) -> Result<()> {
        self.put_new(&self.word_key(word), || format!("the row {word}"))
            .await
    }

    async fn remove_word(&self, word: &str) -> Result<()> {
        let body = json!({"TableName": self.table, "Key": self.word_key(word)});
        match self.call("DeleteItem", &body, true).await {
            Ok(_) | Err(Failed::Condition) => Ok(()),
            Err(Failed::Certainly(source) | Failed::Unclear(source)) => {
                Err(self.failed("remove a row from the register", source))
            }
        }
    }

    async fn replace(&self, entry: RegisterEntry) -> Result<()> {
        let condition = "attribute_exists(base_uri) AND attribute_exists(version)";
        match self.put(&self.item(&entry), condition, true).await {
            Ok(()) => Ok(()),
            Err(Failed::Condition) => Err(Error::NotFound {
                path: format!("version {} of {} in {}", entry.version, self.base, self.uri),
            }),
            Err(Failed::Certainly(source) | Failed::Unclear(source)) => {
                Err(self.failed("update the register", source))
            }
        }
    }
}

impl ManifestRegister for DynamoDb {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn newest(&self) -> BoxFuture<'_, Result<Option<RegisterEntry>>> {
        self.find_newest().boxed()
    }

    fn get(&self, version: u64) -> BoxFuture<'_, Result<Option<RegisterEntry>>> {
        self.find(version).boxed()
    }

    fn insert(&self, entry: RegisterEntry) -> BoxFuture<'_, Result<()>> {
        self.add(entry).boxed()
    }

    fn update(&self, entry: RegisterEntry) -> BoxFuture<'_, Result<()>> {
        self.replace(entry).boxed()
    }

    fn try_row<'a>(&'a self, word: &'a str) -> BoxFuture<'a, Result<()>> {
        self.add_word(word).boxed()
    }

    fn forget_row<'a>(&'a self, word: &'a str) -> BoxFuture<'a, Result<()>> {
        self.remove_word(word).boxed()
    }
}
