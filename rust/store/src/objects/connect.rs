//! Connections that send credentials only to the host that they are for.
//!
//! The usual client follows a redirect to any host, and sends session tokens and, in `Referer`, shared signatures along. The
//! client made here follows redirects on the same host only. It also tells "not implemented" (501) apart from failures that
//! are worth another attempt.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::redirect::Policy;

use crate::event;

/// An answer after which nothing was written and another attempt fails as well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The store has no conditional puts.
    #[error("the store does not implement this request (501)")]
    NotImplemented,
    /// The server redirects to another host, which must not receive the credentials.
    #[error(
        "the server redirects to another host, {host}, which is not sent the credentials; set the right endpoint or \
         region"
    )]
    Redirected {
        /// The other host, without path or query, which may hold secrets.
        host: String,
    },
}

/// The [`Refusal`] among the causes of an error.
pub(crate) fn refusal<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Refusal> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref() {
            return Some(refusal);
        }
        cause = error.source();
    }
    None
}

/// Makes clients that follow redirects on the same host only.
#[derive(Debug)]
pub(crate) struct BoundConnector;

impl HttpConnector for BoundConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(BoundClient(client(options)?)))
    }
}

struct BoundClient(HttpClient);

impl fmt::Debug for BoundClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundClient").finish_non_exhaustive()
    }
}

impl HttpService for BoundClient {
    fn call<'a, 'r>(
        &'a self,
        request: HttpRequest,
    ) -> BoxFuture<'r, Result<HttpResponse, HttpError>>
    where
        'a: 'r,
        Self: 'r,
    {
        Box::pin(async move {
            let is_conditional = request.headers().contains_key("if-none-match");
            let answer = observed(request, |request| self.0.execute(request)).await?;
            let refused = |refusal| Err(HttpError::new(HttpErrorKind::Unknown, refusal));
            if is_conditional && answer.status().as_u16() == 501 {
                return refused(Refusal::NotImplemented);
            }
            let location = answer.headers().get("location");
            if answer.status().is_redirection()
                && let Some(host) = location.and_then(|it| host_of(it.to_str().ok()?))
            {
                return refused(Refusal::Redirected { host });
            }
            Ok(answer)
        })
    }
}

/// Sends a request, and tells `tracing` how it was answered. A query is not told: it may hold a signature.
async fn observed<F>(
    request: HttpRequest,
    send: impl FnOnce(HttpRequest) -> F,
) -> Result<HttpResponse, HttpError>
where
    F: Future<Output = Result<HttpResponse, HttpError>>,
{
    if !tracing::enabled!(target: event::HTTP, tracing::Level::TRACE) {
        return send(request).await;
    }
    let begun = Instant::now();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let result = send(request).await;
    tracing::trace!(
        target: event::HTTP,
        %method,
        host = uri.host(),
        path = uri.path(),
        status = result.as_ref().ok().map(|answer| answer.status().as_u16()),
        error = result.as_ref().err().map(|error| tracing::field::debug(error.kind())),
        elapsed_us = event::elapsed_us(begun),
        "answer"
    );
    result
}

fn host_of(location: &str) -> Option<String> {
    let url = reqwest::Url::parse(location).ok()?;
    url.host_str().map(str::to_owned)
}

/// A client with the given options and this module's rule for redirects.
fn client(options: &ClientOptions) -> object_store::Result<HttpClient> {
    let get = |key| options.get_config_value(&key);
    let is_on = |key| get(key).as_deref() == Some("true");
    let mut builder = reqwest::Client::builder()
        .redirect(Policy::custom(|attempt| {
            let same = attempt.previous().last().is_some_and(|before| {
                let next = attempt.url();
                (
                    before.scheme(),
                    before.host(),
                    before.port_or_known_default(),
                ) == (next.scheme(), next.host(), next.port_or_known_default())
            });
            if !same {
                attempt.stop()
            } else if attempt.previous().len() > 10 {
                attempt.error("too many redirects")
            } else {
                attempt.follow()
            }
        }))
        // A compressed answer has another length than the object.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .https_only(!is_on(ClientConfigKey::AllowHttp))
        .user_agent(
            get(ClientConfigKey::UserAgent)
                .unwrap_or_else(|| concat!("pilum/", env!("CARGO_PKG_VERSION")).to_owned()),
        );
    if let Some(proxy) = get(ClientConfigKey::ProxyUrl) {
        let mut proxy = reqwest::Proxy::all(proxy).map_err(refused)?;
        if let Some(pem) = get(ClientConfigKey::ProxyCaCertificate) {
            let certificate = reqwest::tls::Certificate::from_pem(pem.as_bytes());
            builder = builder.tls_certs_merge([certificate.map_err(refused)?]);
        }
        if let Some(excludes) = get(ClientConfigKey::ProxyExcludes) {
            proxy = proxy.no_proxy(reqwest::NoProxy::from_string(&excludes));
        }
        builder = builder.proxy(proxy);
    }
    if is_on(ClientConfigKey::NoSystemCertificates) {
        builder = builder.tls_certs_only([]);
    }
    if is_on(ClientConfigKey::AllowInvalidCertificates) {
        builder = builder.danger_accept_invalid_certs(true);
    }
    if is_on(ClientConfigKey::Http1Only) {
        builder = builder.http1_only();
    }
    if let Some(time) = duration(get(ClientConfigKey::Timeout))? {
        builder = builder.timeout(time);
    }
    if let Some(time) = duration(get(ClientConfigKey::ConnectTimeout))? {
        builder = builder.connect_timeout(time);
    }
    if let Some(time) = duration(get(ClientConfigKey::ReadTimeout))? {
        builder = builder.read_timeout(time);
    }
    if let Some(time) = duration(get(ClientConfigKey::PoolIdleTimeout))? {
        builder = builder.pool_idle_timeout(time);
    }
    if let Some(count) = get(ClientConfigKey::PoolMaxIdlePerHost) {
        builder = builder.pool_max_idle_per_host(usize::from_str(&count).map_err(refused)?);
    }
    Ok(HttpClient::new(builder.build().map_err(refused)?))
}

fn duration(text: Option<String>) -> object_store::Result<Option<Duration>> {
    let parsed = text.map(|text| humantime::parse_duration(&text));
    parsed.transpose().map_err(refused)
}

fn refused(
    error: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
) -> object_store::Error {
    object_store::Error::Generic {
        store: "HTTP client",
        source: error.into(),
    }
}
