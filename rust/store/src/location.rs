//! Parsing the path or URL of a table.

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

use crate::error::{Error, Result};
use crate::path::{PathRule, resolve_folder};

/// The place of a table's root folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// An absolute folder of this machine.
    Local(PathBuf),
    /// A folder in the memory of this process.
    Memory { authority: String, prefix: String },
    /// A folder of an object store or web server; `url` has no credentials and no query.
    Cloud { scheme: CloudScheme, url: String },
    /// A folder of S3 whose versions are registered in the DynamoDB table `table`; `url` is that of the folder.
    Registered { url: String, table: String },
}

/// The families of remote stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloudScheme {
    S3,
    Gcs,
    Azure,
    Http,
}

/// Parses a path of this machine, or a URL of a known scheme.
pub(crate) fn parse(uri: &str) -> Result<Location> {
    if uri.is_empty() {
        return Err(Error::invalid(
            "table URI",
            "it is empty; give a path or a URL",
        ));
    }
    if uri.contains('\0') {
        return Err(Error::invalid("table URI", "it has a NUL byte"));
    }
    let Some((scheme, rest)) = split_scheme(uri) else {
        return local(Path::new(uri), uri);
    };
    let scheme_lower = scheme.to_ascii_lowercase();
    let cloud = match scheme_lower.as_str() {
        "file" => return file_url(uri, rest),
        "memory" => return memory(rest),
        "s3+ddb" => return registered(uri, rest),
        "s3" | "s3a" => CloudScheme::S3,
        "gs" | "gcs" => CloudScheme::Gcs,
        "az" | "azure" | "abfs" | "abfss" => CloudScheme::Azure,
        "http" | "https" => CloudScheme::Http,
        _ => {
            return Err(Error::invalid(
                shown(uri),
                "unknown scheme; use a path, file://, memory://, s3://, s3+ddb://, gs://, az:// or https://",
            ));
        }
    };
    // Several schemes name one kind of store (`s3a` and `s3`, for example). `object_store` accepts only "s3" and "gs".
    let spelled = match cloud {
        CloudScheme::S3 => "s3",
        CloudScheme::Gcs => "gs",
        CloudScheme::Azure | CloudScheme::Http => scheme_lower.as_str(),
    };
    remote(cloud, spelled, uri, rest)
}

/// The scheme of a URL and the part after `://`.
fn split_scheme(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = uri.split_once("://")?;
    let mut bytes = scheme.bytes();
    let starts_well = bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic());
    let goes_well = bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    (starts_well && goes_well).then_some((scheme, rest))
}

fn local(path: &Path, uri: &str) -> Result<Location> {
    let absolute = std::path::absolute(path)
        .map_err(|source| Error::io(uri, "make the path absolute", source))?;
    Ok(Location::Local(absolute))
}

fn file_url(uri: &str, rest: &str) -> Result<Location> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return Err(Error::invalid(
            shown(uri),
            "a file URL names an absolute path of this machine: file:///folder",
        ));
    }
    if path.contains(['?', '#']) {
        return Err(Error::invalid(
            shown(uri),
            "a file URL has no query or fragment; write %3F and %23, or give the plain path",
        ));
    }
    let decoded = percent_decode_str(path)
        .decode_utf8()
        .map_err(|_| Error::invalid(uri, "its percent-encoding is not UTF-8"))?;
    if decoded.contains('\0') {
        return Err(Error::invalid(uri, "it has a NUL byte"));
    }
    local(Path::new(decoded.as_ref()), uri)
}

fn memory(rest: &str) -> Result<Location> {
    let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = resolve_folder(prefix.trim_matches('/'), PathRule::Decoded)?;
    Ok(Location::Memory {
        authority: authority.to_owned(),
        prefix: prefix.as_str().to_owned(),
    })
}

/// Parses `bucket/folder?ddbTableName=table`, with exactly this parameter.
fn registered(uri: &str, rest: &str) -> Result<Location> {
    let refused = || {
        Error::invalid(
            shown(uri),
            "an s3+ddb URL names a DynamoDB table, and nothing else: s3+ddb://bucket/folder?ddbTableName=table",
        )
    };
    let (folder, query) = rest.split_once('?').ok_or_else(refused)?;
    let table = query.strip_prefix("ddbTableName=").ok_or_else(refused)?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if table.is_empty() || table.len() > 255 || !table.bytes().all(is_name) {
        return Err(refused());
    }
    match remote(CloudScheme::S3, "s3", uri, folder)? {
        Location::Cloud { url, .. } => Ok(Location::Registered {
            url,
            table: table.to_owned(),
        }),
        other => Ok(other),
    }
}

fn remote(scheme: CloudScheme, spelled: &str, uri: &str, rest: &str) -> Result<Location> {
    // Errors print URLs and not options, so secrets are accepted in options only.
    if rest.contains(['?', '#']) {
        return Err(Error::invalid(
            shown(uri),
            "a table URL has no query or fragment; put credentials into storage options",
        ));
    }
    let authority = rest.split('/').next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    let is_container = scheme == CloudScheme::Azure && user.is_some_and(|user| !user.contains(':'));
    if user.is_some() && !is_container {
        return Err(Error::invalid(
            shown(uri),
            "a table URL has no user or password; put credentials into storage options",
        ));
    }
    if !has_proper_port(authority) {
        return Err(Error::invalid(
            shown(uri),
            "the text after the colon of its host is no port; if it is a password, put it into storage options",
        ));
    }
    if authority.is_empty() {
        return Err(Error::invalid(
            shown(uri),
            "it names no bucket, container or host",
        ));
    }
    let folder = rest
        .get(authority.len()..)
        .unwrap_or_default()
        .trim_matches('/');
    resolve_folder(folder, PathRule::Decoded)?;
    let url = if folder.is_empty() {
        format!("{spelled}://{authority}")
    } else {
        format!("{spelled}://{authority}/{folder}")
    };
    Ok(Location::Cloud { scheme, url })
}

/// Whether the port of a host, if it has one, is a number. Otherwise the text is a user and the beginning of a password that
/// contains a slash.
fn has_proper_port(authority: &str) -> bool {
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.rsplit_once(':') {
        Some((_, port)) => {
            host.ends_with(']') || !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit())
        }
        None => true,
    }
}

/// `uri` without the parts that may hold secrets: user, query and fragment.
pub(crate) fn shown(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return uri.to_owned();
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let authority_end = rest.find('/').unwrap_or(rest.len());
    let (authority, folder) = rest.split_at(authority_end);
    if !has_proper_port(authority) {
        return format!("{scheme}://[redacted]");
    }
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{folder}")
}

#[cfg(test)]
mod tests;
