//! The value of the `Date` field, formatted once a second.
//!
//! Each server has one cache, which it reads for every response head. Invariant: the bytes returned are always a
//! complete IMF-fixdate (RFC 9110 section 5.6.7) in ASCII.

use httpdate::HttpDate;
use std::io::Write;
use std::time::{Duration, SystemTime};

/// The length of an IMF-fixdate in bytes: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) const LENGTH: usize = 29;

/// The last second that the format can express: 9999-12-31 23:59:59.
pub(crate) const LAST_SECOND: u64 = 253_402_300_799;

/// Formats a time in seconds since the Unix epoch. Times after the year 9999 become the last second of that year.
pub(crate) fn format(second: u64) -> [u8; LENGTH] {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second.min(LAST_SECOND));
    let mut text = [0; LENGTH];
    let written = write!(&mut text[..], "{}", HttpDate::from(time));
    debug_assert!(written.is_ok(), "a date has {LENGTH} bytes");
    text
}

/// Caches the date of the last requested second.
#[derive(Clone, Debug)]
pub(crate) struct DateCache {
    second: u64,
    text: [u8; LENGTH],
}

impl DateCache {
    /// Returns a cache that contains the date of the epoch.
    pub(crate) fn new() -> Self {
        Self { second: 0, text: *b"Thu, 01 Jan 1970 00:00:00 GMT" }
    }

    /// Returns the date for `now`, in seconds since the Unix epoch. The date is formatted only if `now` has changed
    /// since the last call. Times after the year 9999 become the last second of that year.
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn every_date_parses_to_its_second() {
        let mut second = 0;
        while second <= LAST_SECOND {
            let text = format(second);
            let text = std::str::from_utf8(&text).expect("ASCII");
            let read = httpdate::parse_http_date(text).expect("a date");
            let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            assert_eq!(read, expected, "{text}");
            // About 14 days and some seconds, so that all days of months and all hours occur.
            second += 1_234_567;
        }
    }

    #[test]
    fn seconds_past_the_last_year_do_not_panic() {
        let mut cache = DateCache::new();
        assert_eq!(cache.get(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
