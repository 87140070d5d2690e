//! Config keys by which a table asks for automatic cleanup, and their values.
//!
//! | key | value |
//! |---|---|
//! | `lance.auto_cleanup.interval` | every so many versions; without it nothing is cleaned up |
//! | `lance.auto_cleanup.older_than` | age of versions that go, such as `14days` or `1h 30m` |
//! | `lance.auto_cleanup.retain_versions` | so many of the newest versions stay |

use std::time::Duration;

use crate::error::{Error, Result};

/// Prefix of the keys of the automatic cleanup.
pub const PREFIX: &str = "lance.auto_cleanup.";
/// Clean up every so many versions; without it nothing is cleaned up.
pub const INTERVAL: &str = "lance.auto_cleanup.interval";
/// Age of the versions that are removed.
pub const OLDER_THAN: &str = "lance.auto_cleanup.older_than";
/// So many of the newest versions stay.
pub const RETAIN_VERSIONS: &str = "lance.auto_cleanup.retain_versions";

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

/// A span of time as text: numbers with units, `14days`, `1h 30m`; `None` for other text.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
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

/// A number of versions, at least 1; `None` for other text.
#[must_use]
pub fn count(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|count| *count > 0)
}

/// Refuses a setting that would never do anything.
///
/// # Errors
/// `InvalidInput` with the key and what it takes.
pub fn check_setting(key: &str, value: &str) -> Result<()> {
    let wanted = match key {
        INTERVAL | RETAIN_VERSIONS if count(value).is_none() => "a number of versions, at least 1",
        OLDER_THAN if duration(value).is_none() => "a span of time such as 14days or 1h 30m",
        INTERVAL | RETAIN_VERSIONS | OLDER_THAN => return Ok(()),
        // A key that this release does not know.
        _ => return Ok(()),
    };
    let what = format!("config key {key:?}");
    Err(Error::invalid(what, format!("is {wanted}, not {value:?}")))
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
}
