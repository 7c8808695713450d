//! A look through the keys of a store that also keeps rows of free keys, in statements that each read few rows. One
//! statement for all of them could take longer than its process waits for a reply.

use std::time::{Duration, Instant};

use crate::{LATE_COMMANDS, List, StoreError};

/// The largest number of rows for one statement. Other commands of its connection wait for it.
const MOST_ROWS: i64 = 10_000;
/// A page ends after this time.
const LONGEST: Duration = Duration::from_secs(4);
const _: () = assert!(LONGEST.as_millis() < LATE_COMMANDS.as_millis());

/// The keys that are left to read for a page, in the order of their bytes.
#[derive(Debug)]
pub struct Scan {
    /// The first of them.
    pub first: Vec<u8>,
    /// The end of the keys with the requested beginning. No other key lies between them, because UTF-8 never contains
    /// this byte.
    pub end: Vec<u8>,
    /// The number of rows for the next statement to read. The first one may fill the page: then few keys are free, and
    /// the next page would read the others again.
    pub rows: i64,
    until: Instant,
}

impl Scan {
    /// All keys of the request.
    #[must_use]
    pub fn of(request: &List) -> Self {
        let beginning = request.beginning.as_bytes();
        let first =
            request.after.as_ref().map_or_else(|| beginning.to_vec(), |after| behind(after.as_bytes()));
        let rows = i64::try_from(request.most).unwrap_or(i64::MAX).saturating_mul(2).clamp(1, MOST_ROWS);
        Scan { first, end: [beginning, &[0xff]].concat(), rows, until: Instant::now() + LONGEST }
    }

    /// The keys up to `last` were read, and the page has `found` locks so far. Returns whether to read more for it.
    ///
    /// # Errors
    /// The time is over, and the page is empty, so no other page could continue after it.
    pub fn continues(&mut self, last: &[u8], found: usize) -> Result<bool, StoreError> {
        self.first = behind(last);
        self.rows = MOST_ROWS;
        if Instant::now() < self.until {
            return Ok(true);
        }
        if found > 0 {
            return Ok(false);
        }
        Err(StoreError::refused(format!(
            "within {LONGEST:?}, only free keys were found before `{}`: list keys with a longer beginning in common",
            String::from_utf8_lossy(last)
        )))
    }
}

/// No key lies between a key and the same key with a zero byte after it.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_keys_that_begin_alike_is_behind_all_of_them_and_before_all_others() {
        let scan = Scan::of(&List::new("order:", None, 2));
        for key in ["order:", "order:1", "order:\u{10ffff}", "order:zz"] {
            assert!(key.as_bytes() >= &*scan.first && key.as_bytes() < &*scan.end, "{key}");
        }
        for key in ["order;", "p", "\u{e4}"] {
            assert!(key.as_bytes() > &*scan.end, "{key}");
        }
        let scan = Scan::of(&List::new("order:", Some("order:1".to_owned()), 2));
        assert_eq!(scan.first, b"order:1\0", "the key that comes next");
    }

    #[test]
    fn a_page_ends_when_its_time_is_over_and_an_empty_one_names_the_remedy() {
        let mut scan = Scan::of(&List::new("", None, 2));
        assert_eq!(scan.rows, 4);
        assert!(scan.continues(b"a", 0).unwrap());
        assert_eq!((&*scan.first, scan.rows), (&b"a\0"[..], MOST_ROWS));
        scan.until = Instant::now();
        assert!(!scan.continues(b"b", 1).unwrap());
        let error = scan.continues(b"c", 0).unwrap_err().to_string();
        assert!(error.contains("before `c`: list keys with a longer beginning"), "{error}");
    }
}
