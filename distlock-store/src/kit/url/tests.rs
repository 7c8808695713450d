//! The common parts of all URLs.

use std::time::Duration;

use super::*;

const KNOWN: &[&str] = &["replicas", "connect_timeout", "ca"];

fn parts(url: &str) -> Parts<'_> {
    Parts::of(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// Reads every part, as a store does.
fn read(url: &str) -> Result<(Parts<'_>, Parameters, Login, Vec<Host>), String> {
    let parts = Parts::of(url)?;
    let instead = |name: &str| (name == "db").then(|| "write it as the path".to_owned());
    let parameters = parts.parameters(KNOWN, instead)?;
    let (login, hosts) = (parts.login()?, parts.hosts(7)?);
    Ok((parts, parameters, login, hosts))
}

fn refusal(url: &str) -> String {
    read(url).err().unwrap_or_else(|| panic!("{url} is taken"))
}

#[test]
fn every_part_is_read_and_decoded() {
    let url = " Store+X://us%40er:p%2F:w@h1,[fe80::1%25eth0]:4001, h2 ,h1:/a/b?ca=/a%20b.pem&replicas=2 ";
    let (parts, parameters, login, hosts) = read(url).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((parts.scheme.as_str(), parts.path), ("store+x", "/a/b"));
    assert_eq!((login.user.as_deref(), login.password.as_deref()), (Some("us@er"), Some("p/:w")));
    let shown: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["h1:7", "[fe80::1%eth0]:4001", "h2:7", "h1:7"]);
    assert_eq!(each_once(hosts).len(), 3);
    assert_eq!((parameters.get("ca"), parameters.get("db")), (Some("/a b.pem"), None));
    assert_eq!(parameters.number("replicas", 0..=5), Ok(Some(2)));
    assert_eq!(parameters.number("connect_timeout", 0..=5), Ok(None));
}

#[test]
fn what_is_not_there_is_nothing() {
    let url = parts("s:///path");
    assert_eq!((url.hosts, url.path), ("", "/path"));
    for (url, user, password) in [
        ("s://h", None, None),
        ("s://@h", None, None),
        ("s://u@h", Some("u"), None),
        ("s://:p@h", None, Some("p")),
    ] {
        let login = parts(url).login().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((login.user.as_deref(), login.password.as_deref()), (user, password), "{url}");
    }
    assert!(parts("s:///run/a@b").login().is_ok_and(|login| login.user.is_none()), "a path may have an `@`");
    assert!(read("s://h?ca=a@b").is_ok(), "and so may a value");
}

#[test]
fn what_is_not_understood_is_refused_with_what_to_write() {
    for (url, part) in [
        ("", "no scheme"),
        ("h:7", "no scheme"),
        ("s:/h", "no scheme"),
        ("s://", "names no host: write, for example, `s://localhost:7`"),
        ("s://:9", "names no host"),
        ("s://a b", "names no host"),
        ("s://a%0ab", "names no host"),
        ("s://h:port", "1 to 65535"),
        ("s://h:0", "1 to 65535"),
        ("s://h:65536", "1 to 65535"),
        ("s://::1", "in brackets, `s://[::1]:7`"),
        ("s://[::1", "without a `]`"),
        ("s://[::1]7", "may follow the `]`"),
        ("s://%ff", "a host in the URL is not UTF-8"),
        ("s://%ff:p@h", "the user in the URL is not UTF-8"),
        ("s://h#x", "`%23`"),
        ("s://h?=x", "has no name"),
        ("s://h?ca", "`ca=` in the URL has no value"),
        ("s://h?ca=", "`ca=` in the URL has no value"),
        ("s://h?ca=1&ca=2", "twice"),
        ("s://h?ca=%ff", "not UTF-8"),
        ("s://h?replica=1", "`replica` is not a parameter of this URL: did you mean `replicas`?"),
        ("s://h?db=1", "`db` is not a parameter of this URL: write it as the path"),
        ("s://h?foo=1", "expected one of `replicas`, `connect_timeout`, `ca`"),
    ] {
        let text = refusal(url);
        assert!(text.contains(part), "{url}: {text}");
    }
}

#[test]
fn a_password_that_is_not_encoded_is_answered_with_how_to_encode_it_and_not_repeated() {
    for url in [
        "s://u:pa/s3cret@h",
        "s://u:pa?s3cret@h",
        "s://u:pa?a=s3cret@h",
        "s://u:pa#s3cret@h",
        "s://u:s3cret/x@h/path?ca=1",
    ] {
        let text = refusal(url);
        assert!(text.contains("`%2F`, `%3F`, `%23`") && !text.contains("s3cret"), "{url}: {text}");
    }
    for url in [
        "s:u:s3cret@h",
        "s://:s3cret",
        "s://:s3cret@",
        "s://u:s3cret@h:x",
        "s://u:s3cret@h#x",
        "s://h?s3cret=1",
        "s://h?s3cret",
        "s://h?db=s3cret",
        "s://h?replicas=1&replicas=s3cret",
    ] {
        assert!(!refusal(url).contains("s3cret"), "{url}: {}", refusal(url));
    }
}

#[test]
fn durations_are_written_as_in_the_attribute_and_have_limits() {
    let duration = |value: &str| {
        let url = format!("s://h?connect_timeout={value}");
        let (_, parameters, ..) = read(&url).unwrap_or_else(|error| panic!("{error}"));
        parameters.duration("connect_timeout")
    };
    for (value, millis) in
        [("500ms", 500), ("3s", 3_000), ("1m", 60_000), ("3%20s", 3_000), ("1d", 86_400_000)]
    {
        assert_eq!(duration(value), Ok(Some(Duration::from_millis(millis))), "{value}");
    }
    for value in ["5", "1.5s", "s", "-1s", "1h30m", "3sec", "99999999999999999999s", "9999999999999999999d"] {
        assert!(duration(value).is_err_and(|text| text.contains("a whole number and a unit")), "{value}");
    }
    let (_, parameters, ..) = read("s://h?connect_timeout=2s").unwrap_or_else(|error| panic!("{error}"));
    let second = Duration::from_secs(1);
    let time_out =
        |option, most| parameters.time_out("connect_timeout", option, second, &(second..=second * most));
    assert_eq!(time_out(None, 5), Ok(second * 2));
    assert_eq!(time_out(Some(second * 3), 5), Ok(second * 3), "the program counts more than the URL");
    assert!(time_out(Some(Duration::ZERO), 5).is_err_and(|text| text.contains("between 1s and 5s")));
    assert!(time_out(None, 1).is_err_and(|text| text.contains("`connect_timeout` is 2s")));
    assert_eq!(Parameters::default().time_out("x", None, second, &(second..=second)), Ok(second));
    assert!(parameters.number("connect_timeout", 0..=5).is_err_and(|text| text.contains("from 0 to 5")));
}
