//! The value of the `Date` field, formatted once a second.
//!
//! One cache per loop thread; the response writer asks it for every response. Invariant: the bytes
//! returned are always a complete IMF-fixdate (RFC 9110 section 5.6.7) in ASCII.

/// Bytes of an IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) const LENGTH: usize = 29;

/// The last second the format can express: 9999-12-31 23:59:59.
pub(crate) const LAST_SECOND: u64 = 253_402_300_799;

/// The date of a second since the epoch; seconds past the year 9999 give the last one of that year.
pub(crate) fn format(second: u64) -> [u8; LENGTH] {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    const WEEKDAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";
    let second = second.min(LAST_SECOND);
    let (day, rest) = (second / 86400, second % 86400);
    // Years begin with March and eras of 400 years with the year 0, so that leap days come last: by Howard Hinnant's
    // "chrono-compatible low-level date algorithms".
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);

    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let weekday = (day % 7) as usize * 3;
    text[..3].copy_from_slice(&WEEKDAYS[weekday..weekday + 3]);
    let month = month as usize * 3;
    text[8..11].copy_from_slice(&MONTHS[month..month + 3]);
    let pairs = [
        (5, of_month),
        (12, year / 100),
        (14, year % 100),
        (17, rest / 3600),
        (20, rest / 60 % 60),
        (23, rest % 60),
    ];
    for (at, pair) in pairs {
        text[at] = b'0' + (pair / 10) as u8;
        text[at + 1] = b'0' + (pair % 10) as u8;
    }
    text
}

/// The date of the second that was asked for last.
#[derive(Clone, Debug)]
pub(crate) struct DateCache {
    second: u64,
    text: [u8; LENGTH],
}

impl DateCache {
    /// A cache that holds the epoch.
    pub(crate) fn new() -> Self {
        Self {
            second: 0,
            text: *b"Thu, 01 Jan 1970 00:00:00 GMT",
        }
    }

    /// The date of `now`, in seconds since the Unix epoch; formatted only when it differs from
    /// the second of the last call. Seconds past the year 9999 give the last second of that year.
    #[inline]
    pub(crate) fn get(&mut self, now: u64) -> &[u8; LENGTH] {
        if now != self.second {
            self.format(now);
        }
        &self.text
    }

    #[cold]
    fn format(&mut self, now: u64) {
        self.text = format(now);
        self.second = now;
    }
}

impl Default for DateCache {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn formats_the_example_of_the_rfc() {
        let mut cache = DateCache::new();
        assert_eq!(cache.get(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn follows_the_clock_forwards_and_backwards() {
        let mut cache = DateCache::new();
        assert_eq!(cache.get(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(cache.get(1_709_164_800), b"Thu, 29 Feb 2024 00:00:00 GMT");
        assert_eq!(cache.get(1), b"Thu, 01 Jan 1970 00:00:01 GMT");
        assert_eq!(cache.get(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn dates_are_those_of_another_formatter() {
        let mut second = 0;
        while second <= LAST_SECOND {
            let when = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            let expected = httpdate::HttpDate::from(when).to_string();
            assert_eq!(format(second), expected.as_bytes(), "{second}");
            // Some 14 days and odd seconds, so that all days of months and hours come.
            second += 1_234_567;
        }
    }

    #[test]
    fn seconds_past_the_last_year_do_not_panic() {
        let mut cache = DateCache::new();
        assert_eq!(cache.get(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
