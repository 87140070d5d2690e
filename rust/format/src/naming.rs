//! Names of manifest files in `_versions/`.

use crate::error::{Error, Result};

/// Versions from here up are detached: never the latest, never named by the two schemes.
const DETACHED: u64 = 1 << 63;

/// How a table names its manifests; a table keeps to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NamingScheme {
    /// `{version}.manifest`: the only scheme of old releases.
    V1,
    /// `{2^64 - 1 - version}.manifest`, 20 digits: the newest version comes first in a listing.
    V2,
}

impl NamingScheme {
    /// The file name of a version.
    #[must_use]
    pub fn name(self, version: u64) -> String {
        match self {
            Self::V1 => format!("{version}.manifest"),
            Self::V2 => format!("{:020}.manifest", u64::MAX - version),
        }
    }
}

/// The version that a name stands for; `None` for detached versions and for anything else that may lie in
/// the folder: temporary files, hints, junk.
#[must_use]
pub fn parse_manifest_name(name: &str) -> Option<(NamingScheme, u64)> {
    let digits = name.strip_suffix(".manifest")?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    let (scheme, version) = match digits.len() {
        20 => (NamingScheme::V2, u64::MAX - number),
        _ => (NamingScheme::V1, number),
    };
    // Leading zeros would give one version two names; those of the second scheme belong to its 20 digits.
    let is_its_name = scheme == NamingScheme::V2 || !digits.starts_with('0');
    (version > 0 && version < DETACHED && is_its_name).then_some((scheme, version))
}

/// The scheme and the versions, ascending, of a listing of `_versions/`; `None` without any manifest.
///
/// # Errors
/// `Corrupt` when manifests of both naming schemes lie side by side.
pub fn versions_of<'a>(
    names: impl IntoIterator<Item = &'a str>,
) -> Result<Option<(NamingScheme, Vec<u64>)>> {
    let mut versions = Vec::new();
    let scheme = each_version(names, |version| versions.push(version))?;
    versions.sort_unstable();
    Ok(scheme.map(|scheme| (scheme, versions)))
}

/// The scheme and the newest version of a listing of `_versions/`; `None` without any manifest.
///
/// # Errors
/// `Corrupt` when manifests of both naming schemes lie side by side.
pub fn newest_of<'a>(
    names: impl IntoIterator<Item = &'a str>,
) -> Result<Option<(NamingScheme, u64)>> {
    let mut newest = 0;
    let scheme = each_version(names, |version| newest = newest.max(version))?;
    Ok(scheme.map(|scheme| (scheme, newest)))
}

/// Shows each version of a listing, and gives the scheme of them all.
fn each_version<'a>(
    names: impl IntoIterator<Item = &'a str>,
    mut each: impl FnMut(u64),
) -> Result<Option<NamingScheme>> {
    let mut first = None;
    for (scheme, version) in names.into_iter().filter_map(parse_manifest_name) {
        if *first.get_or_insert(scheme) != scheme {
            return Err(Error::corrupt(
                "manifests of both naming schemes: an interrupted migration; finish it with the tool that \
                 began it",
            ));
        }
        each(version);
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn version_one_in_both_schemes() {
        assert_eq!(NamingScheme::V1.name(1), "1.manifest");
        assert_eq!(NamingScheme::V2.name(1), "18446744073709551614.manifest");
    }

    #[test]
    fn anything_else_is_no_manifest() {
        let others = [
            "d9223372036854775809.manifest", // detached
            "latest_version_hint.json",
            ".tmp18446744073709551614.manifest",
            "18446744073709551614.manifest-7a0c",
            "18446744073709551614.manifest.tmp",
            "manifest",
            ".manifest",
            "0.manifest",
            "01.manifest",
            "0000000000000000001.manifest",
            "000000000000000000001.manifest",
            "+1.manifest",
            "18446744073709551615.manifest", // version 0
            "00000000000000000001.manifest", // beyond the last version
            "99999999999999999999.manifest", // beyond 64 bits
            "\u{0661}.manifest",
        ];
        for name in others {
            assert_eq!(parse_manifest_name(name), None, "{name}");
        }
    }

    #[test]
    fn both_schemes_at_once_are_refused() {
        let mixed = versions_of(["1.manifest", "18446744073709551613.manifest"]).unwrap_err();
        assert_eq!(mixed.kind(), "corrupt");
        assert!(newest_of(["1.manifest", "18446744073709551613.manifest"]).is_err());
        let names = ["junk", "3.manifest", "d1.manifest", "1.manifest"];
        assert_eq!(newest_of(names).unwrap(), Some((NamingScheme::V1, 3)));
        assert_eq!(newest_of(["junk"]).unwrap(), None);
        assert_eq!(
            versions_of(names).unwrap(),
            Some((NamingScheme::V1, vec![1, 3]))
        );
        assert_eq!(versions_of(["junk"]).unwrap(), None);
    }

    proptest! {
        #[test]
        fn names_parse_back(version in 1u64..DETACHED) {
            for scheme in [NamingScheme::V1, NamingScheme::V2] {
                prop_assert_eq!(parse_manifest_name(&scheme.name(version)), Some((scheme, version)));
            }
        }

        #[test]
        fn newer_versions_sort_first(a in 1u64..DETACHED, b in 1u64..DETACHED) {
            let (newer, older) = (NamingScheme::V2.name(a), NamingScheme::V2.name(b));
            prop_assert_eq!(newer.cmp(&older), b.cmp(&a));
        }
    }
}
