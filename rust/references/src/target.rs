//! Where a URL of a set leads, and whether it may be followed.
//!
//! A set is a document of somebody else: without rules, it could make this machine read its own files and ask servers that only
//! this machine can reach. A set leads to its own scheme and host, and to what the caller allows. A set from elsewhere never
//! leads to local files, and no set leads to link-local addresses, where clouds keep credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::error::{Error, Peer, Result, Unreachable};

/// A place that a reference leads to: a folder that a store can open, and a name in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) root: String,
    pub(crate) path: String,
}

/// Why a URL is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) cause: Unreachable,
    pub(crate) reason: String,
}

impl Refusal {
    fn refused(reason: impl Into<String>) -> Self {
        Self {
            cause: Unreachable::Refused,
            reason: reason.into(),
        }
    }

    fn malformed(peer: Peer, reason: impl Into<String>) -> Self {
        Self {
            cause: Unreachable::Malformed(peer),
            reason: reason.into(),
        }
    }
}

/// Which targets a set may lead to.
#[derive(Debug, Clone, Default)]
pub struct AllowList {
    rules: Vec<Rule>,
    is_open: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    scheme: Option<String>,
    /// The host or bucket, with the beginning of the path; empty for all.
    place: String,
}

impl AllowList {
    /// Parses rules: `*`; a scheme, `s3` or `s3://`; a beginning of URLs, `s3://bucket/folder`; a host, `example.org`; or a
    /// local folder, `/data`.
    ///
    /// # Errors
    /// `InvalidInput` for a rule that is empty.
    pub fn parse<'a>(rules: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut list = Self::default();
        for rule in rules {
            let rule = rule.trim();
            if rule.is_empty() {
                return Err(Error::invalid(
                    "allow",
                    "a rule is empty; write a scheme, a host, or the beginning of a URL",
                ));
            }
            if rule == "*" {
                list.is_open = true;
                continue;
            }
            let (scheme, place) = match rule.split_once("://") {
                Some((scheme, place)) => {
                    (Some(scheme_of(scheme)), place.trim_end_matches(['*', '/']))
                }
                None if rule.starts_with('/') => {
                    (Some("file".to_owned()), rule.trim_end_matches('/'))
                }
                None if rule.contains(['.', ':']) && !rule.ends_with(':') => (None, rule),
                None => (Some(scheme_of(rule.trim_end_matches(':'))), ""),
            };
            list.rules.push(Rule {
                scheme,
                place: place.to_owned(),
            });
        }
        Ok(list)
    }

    fn has(&self, scheme: &str, place: &str) -> bool {
        self.is_open || self.rules.iter().any(|rule| rule.has(scheme, place))
    }
}

impl Rule {
    fn has(&self, scheme: &str, place: &str) -> bool {
        if self.scheme.as_deref().is_some_and(|it| it != scheme) {
            return false;
        }
        let place = match self.scheme {
            // A rule without a scheme names a host, not a folder of this machine.
            None if scheme == "file" => return false,
            _ => place.strip_prefix(&self.place),
        };
        self.place.is_empty()
            || place.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || self.place.ends_with('/')
            })
    }
}

/// One name for the schemes that lead to one kind of store.
fn scheme_of(scheme: &str) -> String {
    let lower = scheme.to_ascii_lowercase();
    match lower.as_str() {
        "local" => "file".to_owned(),
        "s3a" => "s3".to_owned(),
        "gcs" => "gs".to_owned(),
        _ => lower,
    }
}

/// Turns the URLs of one set into targets.
#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    /// The folder of the set: an absolute path, or the URL of a remote folder.
    base: Base,
    allow: AllowList,
}

#[derive(Debug, Clone)]
enum Base {
    Local(PathBuf),
    Remote { scheme: String, rest: String },
}

impl Resolver {
    /// `location` is the address of the set; a set without one belongs to the program, and to its working directory.
    pub(crate) fn new(location: Option<&str>, allow: AllowList) -> Self {
        let local = |path: &str| {
            let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
            Base::Local(
                path.parent()
                    .map_or_else(|| path.clone(), Path::to_path_buf),
            )
        };
        let base = match location {
            None => Base::Local(std::path::absolute(".").unwrap_or_default()),
            Some(location) => match location.split_once("://") {
                Some((scheme, rest)) if scheme_of(scheme) != "file" => {
                    let folder = rest.trim_end_matches('/').rsplit_once('/');
                    Base::Remote {
                        scheme: scheme_of(scheme),
                        rest: folder.map_or(rest, |(folder, _)| folder).to_owned(),
                    }
                }
                Some((_, rest)) => local(rest),
                None => local(location),
            },
        };
        Self { base, allow }
    }

    /// Where a URL leads.
    pub(crate) fn resolve(&self, url: &str) -> Result<Target, Refusal> {
        if url.is_empty() {
            return Err(Refusal {
                cause: Unreachable::Missing,
                reason: "the URL is empty".to_owned(),
            });
        }
        if url.contains('\0') {
            return Err(Refusal::malformed(Peer::Value, "the URL has a NUL byte"));
        }
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.len() > 1 => (scheme_of(scheme), rest),
            _ => return self.relative(url),
        };
        match scheme.as_str() {
            "file" => self.local(rest),
            "memory" => self.bucket(&scheme, rest),
            "http" | "https" => self.web(url),
            "s3" | "gs" | "az" | "azure" | "abfs" | "abfss" => self.bucket(&scheme, rest),
            other => Err(Refusal::malformed(
                Peer::Key,
                format!(
                    "unknown protocol {other:?}; pass a file system for it with fs={{{other:?}: ...}}"
                ),
            )),
        }
    }

    fn relative(&self, path: &str) -> Result<Target, Refusal> {
        match &self.base {
            Base::Local(_) => self.local(path),
            Base::Remote { scheme, rest } => {
                if path.starts_with('/') || path.starts_with("file:") {
                    return Err(Refusal::refused(
                        "a set from elsewhere never leads to files of this machine",
                    ));
                }
                let (host, folder) = rest.split_once('/').unwrap_or((rest, ""));
                let mut parts: Vec<&str> = folder.split('/').filter(|it| !it.is_empty()).collect();
                for part in path.split('/') {
                    match part {
                        "" | "." => {}
                        ".." if parts.pop().is_none() => {
                            return Err(Refusal::refused("the path leads out of the host"));
                        }
                        ".." => {}
                        part => parts.push(part),
                    }
                }
                let url = format!("{scheme}://{host}/{}", parts.join("/"));
                self.resolve(&url)
            }
        }
    }

    fn local(&self, path: &str) -> Result<Target, Refusal> {
        let Base::Local(base) = &self.base else {
            return Err(Refusal::refused(
                "a set from elsewhere never leads to files of this machine",
            ));
        };
        let mut full = PathBuf::new();
        for component in base.join(path).components() {
            match component {
                Component::ParentDir => {
                    full.pop();
                }
                Component::CurDir => {}
                other => full.push(other),
            }
        }
        let is_default = self.allow.rules.is_empty();
        if !is_default && !self.allow.has("file", &full.to_string_lossy()) {
            return Err(Refusal::refused(format!(
                "the allow-list has no rule for {}",
                full.display()
            )));
        }
        // A file may be a link to another folder.
        let real = std::fs::canonicalize(&full).map_err(|error| Refusal {
            cause: if error.kind() == std::io::ErrorKind::NotFound {
                Unreachable::Missing
            } else {
                Unreachable::Store
            },
            reason: format!("{}: {error}", full.display()),
        })?;
        let root = real.parent().and_then(Path::to_str);
        let name = real.file_name().and_then(|it| it.to_str());
        let (Some(root), Some(name)) = (root, name) else {
            return Err(Refusal::malformed(
                Peer::Value,
                "the path names no file, or is not UTF-8",
            ));
        };
        Ok(Target {
            root: root.to_owned(),
            path: name.to_owned(),
        })
    }

    fn check(&self, scheme: &str, place: &str) -> Result<(), Refusal> {
        let host = |it: &str| it.split('/').next().unwrap_or_default().to_owned();
        let is_own = match &self.base {
            Base::Local(_) => scheme == "memory" && self.allow.rules.is_empty(),
            Base::Remote { scheme: own, rest } => *own == scheme && host(rest) == host(place),
        };
        if is_own || self.allow.has(scheme, place) {
            return Ok(());
        }
        Err(Refusal::refused(format!(
            "the set may not lead to this host; pass allow=[\"{scheme}://{}\"] if it should",
            host(place)
        )))
    }

    fn bucket(&self, scheme: &str, rest: &str) -> Result<Target, Refusal> {
        self.check(scheme, rest)?;
        let path = rest.trim_end_matches('/');
        match path.rsplit_once('/') {
            Some((folder, name)) => Ok(Target {
                root: format!("{scheme}://{folder}"),
                path: name.to_owned(),
            }),
            // A name directly in the memory of the process.
            None => Ok(Target {
                root: format!("{scheme}://"),
                path: path.to_owned(),
            }),
        }
    }

    fn web(&self, url: &str) -> Result<Target, Refusal> {
        let parsed =
            Url::parse(url).map_err(|error| Refusal::malformed(Peer::Value, error.to_string()))?;
        let host = parsed
            .host()
            .ok_or_else(|| Refusal::malformed(Peer::Value, "the URL has no host"))?;
        if is_forbidden(&host) {
            return Err(Refusal::refused(
                "link-local addresses and metadata services are never asked, whatever the allow-list says",
            ));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(Refusal::refused("a URL with a user or password is refused"));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(Refusal::malformed(
                Peer::Value,
                "a URL with a query is not supported; open the set with fs= and a file system that takes it",
            ));
        }
        let port = parsed
            .port()
            .map_or_else(String::new, |it| format!(":{it}"));
        let authority = format!("{host}{port}");
        let decoded = percent_decode_str(parsed.path().trim_start_matches('/')).decode_utf8();
        let path = decoded.map_err(|_| Refusal::malformed(Peer::Value, "the path is not UTF-8"))?;
        self.check(parsed.scheme(), &format!("{authority}/{path}"))?;
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        Ok(Target {
            root: format!("{}://{authority}/{folder}", parsed.scheme())
                .trim_end_matches('/')
                .to_owned(),
            path: name.to_owned(),
        })
    }
}

/// Addresses that only this machine can reach and where clouds keep credentials. The URL parser has read all spellings of
/// addresses, such as `2852039166`.
fn is_forbidden(host: &Host<&str>) -> bool {
    const ALIBABA: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
    const EC2: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    let of_v4 = |it: Ipv4Addr| it.is_link_local() || it.is_unspecified() || it == ALIBABA;
    match host {
        Host::Ipv4(it) => of_v4(*it),
        Host::Ipv6(it) => {
            let inner = it.to_ipv4().map(IpAddr::V4);
            let is_link_local = (it.segments()[0] & 0xffc0) == 0xfe80;
            is_link_local
                || *it == EC2
                || matches!(inner, Some(IpAddr::V4(it)) if of_v4(it) && !it.is_loopback())
        }
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            matches!(
                name.as_str(),
                "metadata"
                    | "metadata.google.internal"
                    | "instance-data"
                    | "metadata.azure.internal"
            ) || name.ends_with(".metadata.google.internal")
        }
    }
}

/// A URL for messages, without its user, query and fragment.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolver(location: Option<&str>, allow: &[&str]) -> Resolver {
        Resolver::new(location, AllowList::parse(allow.iter().copied()).unwrap())
    }

    fn refused(resolver: &Resolver, url: &str) {
        let refusal = resolver.resolve(url).unwrap_err();
        assert_eq!(
            refusal.cause,
            Unreachable::Refused,
            "{url}: {}",
            refusal.reason
        );
    }

    #[test]
    fn a_set_leads_to_its_own_scheme_and_host() {
        let remote = resolver(Some("https://example.org/sets/a.json"), &[]);
        let of = |url: &str| remote.resolve(url).unwrap();
        assert_eq!(
            of("https://example.org/x/y.nc").root,
            "https://example.org/x"
        );
        assert_eq!(of("../data/y%20z.nc").path, "y%20z.nc".replace("%20", " "));
        assert_eq!(of("y.nc").root, "https://example.org/sets");
        for url in [
            "http://example.org/x",
            "https://example.com/x",
            "s3://b/x",
            "/etc/passwd",
            "file:///etc/passwd",
            "local://etc/passwd",
            "../../x",
            "memory://a/b",
            "file:x",
        ] {
            refused(&remote, url);
        }
        let local = resolver(Some("/data/set.json"), &[]);
        refused(&local, "s3://bucket/x");
        assert_eq!(local.resolve("memory://a/b").unwrap().root, "memory://a");
        assert_eq!(
            resolver(Some("/data/set.json"), &["s3://bucket"])
                .resolve("s3://bucket/x/y")
                .unwrap()
                .path,
            "y"
        );
        refused(
            &resolver(Some("/data/set.json"), &["s3://bucket"]),
            "s3://bucket2/x",
        );
    }

    #[test]
    fn metadata_services_are_never_asked() {
        let open = resolver(Some("https://example.org/a.json"), &["*"]);
        for url in [
            "http://169.254.169.254/latest",
            "http://2852039166/",
            "http://0xA9FEA9FE/",
            "http://169.254.43518/",
            "http://[::ffff:169.254.169.254]/",
            "http://[fe80::1]/",
            "http://[fd00:ec2::254]/x",
            "http://0.0.0.0/",
            "http://metadata.google.internal/x",
            "http://METADATA.google.internal./x",
            "http://100.100.100.200/x",
            "http://user@169.254.169.254/x",
            "https://0251.0376.0251.0376/x",
            "file:///etc/passwd",
        ] {
            refused(&open, url);
        }
        assert!(open.resolve("https://example.com/x").is_ok());
    }

    #[test]
    fn rules_name_schemes_hosts_and_folders() {
        let list = AllowList::parse(["s3", "gs://bucket/a/", "example.org", "/data"]).unwrap();
        for (scheme, place, wanted) in [
            ("s3", "any/x", true),
            ("gs", "bucket/a/b", true),
            ("gs", "bucket/ab", false),
            ("https", "example.org/x", true),
            ("https", "example.org.evil.com/x", false),
            ("file", "/data/x", true),
            ("file", "/database/x", false),
            ("az", "x", false),
        ] {
            assert_eq!(list.has(scheme, place), wanted, "{scheme} {place}");
        }
    }
}
