//! Automatic cleanup: the config of a table asks for it, and the writer that commits every n-th version executes it.
//!
//! | key | value |
//! |---|---|
//! | `lance.auto_cleanup.interval` | every so many versions; without it nothing is cleaned up |
//! | `lance.auto_cleanup.older_than` | age of versions that go, such as `14days` or `1h 30m` |
//! | `lance.auto_cleanup.retain_versions` | so many of the newest versions stay |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pilum_format::auto_cleanup::{INTERVAL, OLDER_THAN, PREFIX, RETAIN_VERSIONS, count, duration};

use crate::commit::cleanup::{CleanupOptions, cleanup, event};
use crate::error::Error;
use crate::read::snapshot::Snapshot;

/// The options of a cleanup after `version`; `None` if the table asks for none at this version.
fn wanted(config: &BTreeMap<String, String>, version: u64) -> Option<CleanupOptions> {
    if !config.keys().any(|key| key.starts_with(PREFIX)) {
        return None;
    }
    // A setting that cannot be read, written by another program, turns the cleanup off: no version is removed by mistake.
    let interval = count(config.get(INTERVAL)?)?;
    let retain = config.get(RETAIN_VERSIONS).map(|it| count(it));
    let older_than = config.get(OLDER_THAN).map(|it| duration(it));
    if !version.is_multiple_of(interval) || retain == Some(None) || older_than == Some(None) {
        return None;
    }
    let (retain, older_than) = (retain.flatten(), older_than.flatten());
    let defaults = CleanupOptions::default();
    Some(CleanupOptions {
        keep_versions: retain,
        older_than: match (older_than, retain) {
            (Some(older_than), _) => older_than,
            // With a number of versions alone, versions are removed at any age.
            (None, Some(_)) => Duration::ZERO,
            (None, None) => defaults.older_than,
        },
        ..defaults
    })
}

/// Cleans up if the table asks for it at this version. Gives the error of a cleanup that failed: the commit stands all the
/// same, and the next version at which the table asks for a cleanup tries again.
pub(crate) async fn after(committed: &Snapshot) -> Option<Arc<Error>> {
    let options = wanted(&committed.manifest().config, committed.version())?;
    let error = cleanup(committed, &options).await.err()?;
    event::auto_cleanup_failed(committed.uri(), committed.version(), &error);
    Some(Arc::new(error))
}

#[cfg(test)]
mod tests {
    use pilum_format::auto_cleanup::check_setting;

    use super::*;

    #[test]
    fn only_every_nth_version_and_only_settings_that_can_be_read() {
        let config = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            pairs.iter().map(pair).collect()
        };
        let every = config(&[(INTERVAL, "4"), (OLDER_THAN, "1h"), (RETAIN_VERSIONS, "2")]);
        assert!(wanted(&every, 7).is_none());
        let options = wanted(&every, 8).unwrap();
        assert_eq!(
            (options.older_than.as_secs(), options.keep_versions),
            (3_600, Some(2))
        );
        let by_count = wanted(&config(&[(INTERVAL, "1"), (RETAIN_VERSIONS, "3")]), 5).unwrap();
        assert_eq!(
            (by_count.older_than, by_count.keep_versions),
            (Duration::ZERO, Some(3))
        );
        assert_eq!(
            wanted(&config(&[(INTERVAL, "1")]), 5).unwrap().older_than,
            CleanupOptions::default().older_than
        );
        assert!(wanted(&config(&[(OLDER_THAN, "1h")]), 8).is_none());
        assert!(wanted(&config(&[(INTERVAL, "0")]), 8).is_none());
        assert!(wanted(&config(&[(INTERVAL, "1"), (OLDER_THAN, "soon")]), 8).is_none());
        assert!(check_setting(INTERVAL, "0").is_err());
        assert!(check_setting(OLDER_THAN, "soon").is_err());
        check_setting(OLDER_THAN, "3 days").unwrap();
        check_setting("mine", "anything").unwrap();
    }
}
