//! The file in a URL.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use distlock_store::LATE_COMMANDS;
use distlock_store::kit::connection::ConnectionOptions;
use distlock_store::kit::url::{decoded, in_limits, split_scheme};

/// How long a command waits for other processes that write.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
const BUSY_TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(4);
const _: () = assert!(BUSY_TIMEOUTS.end().as_millis() < LATE_COMMANDS.as_millis());

/// The location of the locks.
#[derive(Debug)]
pub(super) struct Location {
    pub(super) path: PathBuf,
    pub(super) busy_timeout: Duration,
}

impl Location {
    pub(super) fn parse(url: &str, options: &ConnectionOptions) -> Result<Self, String> {
        if options.has_tls_options() || options.credentials.is_some() {
            return Err(
                "SQLite is a file: it takes neither `tls` nor credentials; its permissions protect it"
                    .to_owned(),
            );
        }
        let (_, rest) = split_scheme(url).ok_or("the URL names no file: write `sqlite:/path/of/a/file`")?;
        let raw = rest.strip_prefix("//").unwrap_or(rest);
        if raw.contains(['?', '#']) {
            return Err(
                "the URL of SQLite has no parameters: write `sqlite:/path/of/a/file`, and `%3F` for a `?`"
                    .to_owned(),
            );
        }
        let path = decoded(raw, "the path")?;
        // With a relative path, processes in different directories would use different files.
        if !path.starts_with('/') || path.ends_with('/') {
            return Err(
                "the URL of SQLite names a file by its whole path: `sqlite:/path/of/a/file`".to_owned()
            );
        }
        let busy_timeout = options.response_timeout.unwrap_or(BUSY_TIMEOUT);
        let busy_timeout = in_limits("response_timeout", busy_timeout, &BUSY_TIMEOUTS)?;
        Ok(Location { path: path.into(), busy_timeout })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<String, String> {
        Location::parse(url, &ConnectionOptions::default()).map(|place| place.path.display().to_string())
    }

    #[test]
    fn a_url_names_a_file_by_its_whole_path() {
        for url in [
            "sqlite:/var/lib/a%20b/locks.db",
            "sqlite:///var/lib/a%20b/locks.db",
            "SQLite:/var/lib/a b/locks.db",
        ] {
            assert_eq!(parsed(url).as_deref(), Ok("/var/lib/a b/locks.db"), "{url}");
        }
        for url in [
            "sqlite:",
            "sqlite:locks.db",
            "sqlite://locks.db",
            "sqlite::memory:",
            "sqlite:/var/lib/",
            "sqlite:///",
        ] {
            assert!(parsed(url).is_err_and(|error| error.contains("`sqlite:/path/of/a/file`")), "{url}");
        }
        assert!(parsed("sqlite:/locks.db?mode=ro").is_err_and(|error| error.contains("no parameters")));
    }
}
