//! Cleanup that a table asks for in its config, after a commit: every so many versions, by whoever commits then.
//!
//! | key | value |
//! |---|---|
//! | `lance.auto_cleanup.interval` | every so many versions; without it nothing is cleaned up |
//! | `lance.auto_cleanup.older_than` | age of versions that go, such as `14days` or `1h 30m` |
//! | `lance.auto_cleanup.retain_versions` | so many of the newest versions stay |

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cleanup::CleanupOptions;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::snapshot::Snapshot;

const PREFIX: &str = "lance.auto_cleanup.";
const INTERVAL: &str = "lance.auto_cleanup.interval";
const OLDER_THAN: &str = "lance.auto_cleanup.older_than";
const RETAIN_VERSIONS: &str = "lance.auto_cleanup.retain_versions";

/// Seconds of each unit, by all its names; a month is 30.44 days, a year 365.25.
const UNITS: [(&[&str], f64); 10] = [
    (&["ns", "nsec", "nanos"], 1e-9),
    (&["us", "usec", "micros"], 1e-6),
    (&["ms", "msec", "millis"], 1e-3),
    (&["s", "sec", "secs", "second", "seconds"], 1.0),
    (&["m", "min", "mins", "minute", "minutes"], 60.0),
    (&["h", "hr", "hrs", "hour", "hours"], 3_600.0),
    (&["d", "day", "days"], 86_400.0),
    (&["w", "wk", "wks", "week", "weeks"], 604_800.0),
    (&["M", "month", "months"], 2_630_016.0),
    (&["y", "yr", "yrs", "year", "years"], 31_557_600.0),
];

/// A span of time as text: numbers with units, `14days`, `1h 30m`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut seconds = None;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u32 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, behind) = rest.split_at(end.unwrap_or(rest.len()));
        let (_, unit) = UNITS.iter().find(|(names, _)| names.contains(&unit))?;
        *seconds.get_or_insert(0.0) += f64::from(number) * unit;
        rest = behind.trim_start();
    }
    Duration::try_from_secs_f64(seconds?).ok()
}

fn count(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|count| *count > 0)
}

/// Refuses a setting that would never do anything.
pub(crate) fn check_setting(key: &str, value: &str) -> Result<()> {
    let wanted = match key {
        INTERVAL | RETAIN_VERSIONS if count(value).is_none() => "a number of versions, at least 1",
        OLDER_THAN if duration(value).is_none() => "a span of time such as 14days or 1h 30m",
        INTERVAL | RETAIN_VERSIONS | OLDER_THAN => return Ok(()),
        // A word that this release does not know: somebody else's.
        _ => return Ok(()),
    };
    let what = format!("config key {key:?}");
    Err(Error::invalid(what, format!("is {wanted}, not {value:?}")))
}

/// What a cleanup after `version` removes; none if it is not its turn.
fn wanted(config: &BTreeMap<String, String>, version: u64) -> Option<CleanupOptions> {
    if !config.keys().any(|key| key.starts_with(PREFIX)) {
        return None;
    }
    // A setting that says nothing, written by another program, turns it off: better too many versions than too few.
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
            // With a number of versions alone, their age is no matter.
            (None, Some(_)) => Duration::ZERO,
            (None, None) => defaults.older_than,
        },
        ..defaults
    })
}

/// Cleans up if the table asks for it now. The commit stands, whatever becomes of this: the next turn tries again.
pub(crate) async fn after(committed: &Snapshot) {
    if let Some(options) = wanted(&committed.manifest().config, committed.version()) {
        let table = Dataset::from(committed.clone());
        let _ = table.cleanup(&options).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_are_read_as_people_write_them() {
        let seconds = |text| duration(text).map(|it| it.as_secs_f64());
        assert_eq!(seconds("14days"), Some(14.0 * 86_400.0));
        assert_eq!(seconds(" 1h 30m "), Some(5_400.0));
        assert_eq!(seconds("1h30m5s"), Some(5_405.0));
        assert_eq!(seconds("2 weeks"), Some(1_209_600.0));
        assert_eq!(seconds("1M"), Some(2_630_016.0));
        assert_eq!(seconds("0s"), Some(0.0));
        for bad in [
            "",
            " ",
            "14",
            "days",
            "14 fortnights",
            "-1d",
            "1.5h",
            "99999999999d",
            "1é",
        ] {
            assert_eq!(seconds(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_every_nth_version_and_only_what_says_something() {
        let config = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            pairs.iter().map(pair).collect()
        };
        let every = config(&[(INTERVAL, "4"), (OLDER_THAN, "1h"), (RETAIN_VERSIONS, "2")]);
        assert!(wanted(&every, 7).is_none());
        let turn = wanted(&every, 8).unwrap();
        assert_eq!(
            (turn.older_than.as_secs(), turn.keep_versions),
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
