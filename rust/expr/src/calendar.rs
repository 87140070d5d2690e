//! Dates, times and intervals as text.
//!
//! Arrow timestamps reach years that calendar libraries refuse, so the day count of the proleptic Gregorian calendar is
//! computed here, in integers wide enough for all of them.

use std::fmt;

use arrow_schema::TimeUnit;

pub(crate) const NANOS_PER_SECOND: i128 = 1_000_000_000;
pub(crate) const NANOS_PER_DAY: i128 = 86_400 * NANOS_PER_SECOND;

/// Days of 400 years, after which the calendar repeats.
const DAYS_PER_ERA: i128 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_EPOCH: i128 = 719_468;

/// Nanoseconds of one step of a unit.
pub(crate) fn unit_nanos(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Days since 1970-01-01 of a date.
pub(crate) fn days_from_civil(year: i128, month: i128, day: i128) -> i128 {
    // Years start in March, so that the leap day is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_TO_EPOCH
}

/// Year, month, day of days since 1970-01-01.
pub(crate) fn civil_from_days(days: i128) -> (i128, i128, i128) {
    let shifted = days + DAYS_TO_EPOCH;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    (year, month, day)
}

/// Reads a text from its start, part by part.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let end = self.0.find(|c| !accept(c)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    fn skip(&mut self, expected: char) -> bool {
        match self.0.strip_prefix(expected) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Between `at_least` and `at_most` decimal digits.
    fn number(&mut self, at_least: usize, at_most: usize) -> Option<i128> {
        let digits = self.take_while(|c| c.is_ascii_digit());
        (at_least..=at_most)
            .contains(&digits.len())
            .then(|| digits.parse().ok())?
    }

    fn sign(&mut self) -> i128 {
        if self.skip('-') {
            -1
        } else {
            self.skip('+');
            1
        }
    }

    fn date(&mut self) -> Option<i128> {
        let sign = self.sign();
        let year = sign * self.number(4, 15)?;
        let month = self.skip('-').then(|| self.number(1, 2))??;
        let day = self.skip('-').then(|| self.number(1, 2))??;
        let days = days_from_civil(year, month, day);
        // A day that the month does not have, such as 31 June, is refused.
        ((1..=12).contains(&month) && civil_from_days(days) == (year, month, day)).then_some(days)
    }

    fn time(&mut self) -> Option<i128> {
        let hour = self.number(1, 2)?;
        let minute = self.skip(':').then(|| self.number(2, 2))??;
        let second = if self.skip(':') {
            self.number(2, 2)?
        } else {
            0
        };
        let nanos = if self.skip('.') { self.fraction()? } else { 0 };
        (hour < 24 && minute < 60 && second < 60)
            .then_some((hour * 3600 + minute * 60 + second) * NANOS_PER_SECOND + nanos)
    }

    /// The digits after a point, as nanoseconds.
    fn fraction(&mut self) -> Option<i128> {
        let digits = self.take_while(|c| c.is_ascii_digit());
        (1..=9)
            .contains(&digits.len())
            .then(|| format!("{digits:0<9}").parse().ok())?
    }

    /// Offset of a zone from UTC in nanoseconds.
    fn zone(&mut self) -> Option<i128> {
        if self.skip('Z') || self.skip('z') {
            return Some(0);
        }
        if !self.0.starts_with(['+', '-']) {
            return None;
        }
        let sign = self.sign();
        let hours = self.number(2, 2)?;
        let minutes = if self.skip(':') {
            self.number(2, 2)?
        } else {
            0
        };
        (hours <= 15 && minutes < 60)
            .then_some(sign * (hours * 3600 + minutes * 60) * NANOS_PER_SECOND)
    }

    fn end<T>(&self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

/// `2026-01-31`: days since 1970-01-01.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    let mut cursor = Cursor(text.trim());
    let days = cursor.date()?;
    i32::try_from(cursor.end(days)?).ok()
}

/// `12:30`, `12:30:00.5`: nanoseconds since midnight.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let mut cursor = Cursor(text.trim());
    let nanos = cursor.time()?;
    i64::try_from(cursor.end(nanos)?).ok()
}

/// `2026-01-31`, `2026-01-31 12:30:00.5`, `2026-01-31T12:30:00+02:00`: nanoseconds since the epoch and whether a zone was named.
pub(crate) fn parse_timestamp(text: &str) -> Option<(i128, bool)> {
    let mut cursor = Cursor(text.trim());
    let days = cursor.date()?;
    let mut nanos = days * NANOS_PER_DAY;
    if cursor.skip('T') || cursor.skip(' ') {
        nanos += cursor.time()?;
    }
    cursor.skip(' ');
    let zoned = !cursor.0.is_empty();
    if zoned {
        nanos -= cursor.zone()?;
    }
    // Limit the value to what an Arrow timestamp in seconds holds, so that later arithmetic cannot overflow.
    (nanos.abs() <= i128::from(i64::MAX) * NANOS_PER_SECOND).then_some(())?;
    cursor.end((nanos, zoned))
}

/// `1 day`, `2 hours 30 minutes`, `-1.5 seconds`: months, days, nanoseconds.
pub(crate) fn parse_interval(text: &str) -> Option<(i32, i32, i64)> {
    let (mut months, mut days, mut nanos) = (0_i128, 0_i128, 0_i128);
    let mut cursor = Cursor(text.trim());
    if cursor.0.is_empty() {
        return None;
    }
    while !cursor.0.is_empty() {
        let sign = cursor.sign();
        let whole = sign * cursor.number(1, 19)?;
        let fraction = if cursor.skip('.') {
            Some(sign * cursor.fraction()?)
        } else {
            None
        };
        cursor.take_while(char::is_whitespace);
        let unit = cursor.take_while(char::is_alphabetic).to_ascii_lowercase();
        cursor.take_while(char::is_whitespace);
        let unit_nanos = match unit.strip_suffix('s').unwrap_or(&unit) {
            "year" => {
                months += whole * 12;
                0
            }
            "month" => {
                months += whole;
                0
            }
            "week" => {
                days += whole * 7;
                0
            }
            "day" => {
                days += whole;
                0
            }
            "hour" => 3600 * NANOS_PER_SECOND,
            "minute" => 60 * NANOS_PER_SECOND,
            "second" => NANOS_PER_SECOND,
            "millisecond" => 1_000_000,
            "microsecond" => 1000,
            "nanosecond" => 1,
            _ => return None,
        };
        if fraction.is_some() && unit_nanos == 0 {
            return None; // half a month has no length
        }
        nanos += whole * unit_nanos + fraction.unwrap_or(0) * unit_nanos / NANOS_PER_SECOND;
    }
    Some((
        i32::try_from(months).ok()?,
        i32::try_from(days).ok()?,
        i64::try_from(nanos).ok()?,
    ))
}

/// Writes days since the epoch as `2026-01-31`.
pub(crate) fn write_date(f: &mut fmt::Formatter<'_>, days: i128) -> fmt::Result {
    let (year, month, day) = civil_from_days(days);
    let sign = match year {
        ..0 => "-",
        0..10_000 => "",
        _ => "+",
    };
    write!(f, "{sign}{:04}-{month:02}-{day:02}", year.abs())
}

/// Writes nanoseconds since midnight as `12:30:00.5`.
pub(crate) fn write_time(f: &mut fmt::Formatter<'_>, nanos: i128) -> fmt::Result {
    let seconds = nanos.div_euclid(NANOS_PER_SECOND);
    write!(
        f,
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )?;
    match nanos.rem_euclid(NANOS_PER_SECOND) {
        0 => Ok(()),
        fraction => write!(f, ".{}", format!("{fraction:09}").trim_end_matches('0')),
    }
}
