//! Every form of URL, and the errors about invalid URLs.

use super::*;

struct Read(&'static str, &'static str, Option<&'static str>, Option<&'static str>, i64);

/// The parts of a URL that says nothing else.
fn check(Read(url, places, user, password, database): &Read) {
    let read = RedisUrl::read(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    let addresses: Vec<_> = read.addresses().iter().map(ToString::to_string).collect();
    assert_eq!(addresses.join(","), *places, "{url}");
    assert_eq!((read.user.as_deref(), read.password.as_deref()), (*user, *password), "{url}");
    assert_eq!(read.database, *database, "{url}");
}

#[test]
fn every_form_is_read() {
    for form in [
        Read("redis://h", "h:6379", None, None, 0),
        Read("redis://h/", "h:6379", None, None, 0),
        Read("REDIS://h:7/2", "h:7", None, None, 2),
        Read(" redis://h:7/2/ ", "h:7", None, None, 2),
        Read("valkey://127.0.0.1:", "127.0.0.1:6379", None, None, 0),
        Read("redis://[::1]", "[::1]:6379", None, None, 0),
        Read("redis://[fe80::1%25eth0]:7", "[fe80::1%eth0]:7", None, None, 0),
        Read("redis://u:p%40ss@example.org:7000/3", "example.org:7000", Some("u"), Some("p@ss"), 3),
        Read("redis://:p@ss@h", "h:6379", None, Some("p@ss"), 0),
        Read("redis://:a:b@h", "h:6379", None, Some("a:b"), 0),
        Read("redis://h?protocol=resp3", "h:6379", None, None, 0),
        Read("unix:///run/redis.sock", "/run/redis.sock", None, None, 0),
        Read("unix://u:p@/run/my%20redis.sock?db=2", "/run/my redis.sock", Some("u"), Some("p"), 2),
        Read("redis+unix:///r.sock?db=2&user=u&pass=p", "/r.sock", Some("u"), Some("p"), 2),
        Read("Valkey+Unix:///r.sock?pass=p", "/r.sock", None, Some("p"), 0),
        Read("redis+sentinel://a,b:1,a/m", "a:26379,b:1", None, None, 0),
        Read("valkey+sentinel://:p@a/m/4", "a:26379", None, Some("p"), 4),
        Read("redis+cluster://a:1,b/", "a:1,b:6379", None, None, 0),
        Read("valkey+cluster://u:p@a", "a:6379", Some("u"), Some("p"), 0),
        Read("sharded+redis://B:7,a,B:7/2", "B:7,a:6379", None, None, 2),
        Read("Sharded+Valkey://u:p@a", "a:6379", Some("u"), Some("p"), 0),
        Read("redis+quorum://a,b,c/1", "a:6379,b:6379,c:6379", None, None, 1),
        Read("valkey+quorum://a, b ,c", "a:6379,b:6379,c:6379", None, None, 0),
    ] {
        check(&form);
    }
    assert_eq!(RedisUrl::read("redis+sentinel://a/my%2Fmaster").unwrap().master, "my/master");
}

#[cfg(not(feature = "tls"))]
#[test]
fn tls_without_the_feature_names_the_feature() {
    for url in ["rediss://h", "VALKEYS://h", "rediss+quorum://a,b,c"] {
        assert!(RedisUrl::read(url).err().unwrap().contains("feature `tls`"), "{url}");
    }
}

#[test]
fn a_bad_url_is_answered_with_what_to_write_in_one_short_sentence() {
    for (url, part) in [
        ("", "has no scheme"),
        ("localhost", "has no scheme"),
        ("localhost:6379", "has no scheme"),
        ("redis:/h", "has no scheme"),
        ("http://h", "not a scheme of distlock: expected `redis://`"),
        ("redi://h", "did you mean `redis://`?"),
        ("redis+foo://h", "not a scheme"),
        ("redis+sentinal://h/m", "did you mean `redis+sentinel://`?"),
        ("valkey+clusters://h", "did you mean `valkey+cluster://`?"),
        ("sharded+valky://h", "did you mean `sharded+valkey://`?"),
        ("redis://", "names no host"),
        ("redis:///3", "names no host"),
        ("redis://:6379", "names no host"),
        ("redis://h:port", "the port in the URL is not a number"),
        ("redis://h:0", "not a number from 1"),
        ("redis://h:65536", "not a number from 1"),
        ("redis://a:1,b:2", "`redis+cluster://`"),
        ("redis://a:1,b:2", "`sharded+redis://`"),
        ("sharded+redis:///1", "names no host"),
        ("redis://::1/", "in brackets"),
        ("redis://[::1", "without a `]`"),
        ("redis://[::1]6379", "may follow the `]`"),
        ("redis://h/x", "the database in the URL is not a number"),
        ("redis://h/-1", "the database in the URL is not a number"),
        ("redis://h/1/2", "more than a database"),
        ("redis://%ff@h", "not UTF-8"),
        ("redis://user@h", "a user without a password"),
        ("redis+sentinel://h", "does not name the master"),
        ("redis+sentinel://h/", "does not name the master"),
        ("redis+sentinel:///m", "names no host"),
        ("redis+sentinel://h/m/x", "not a number"),
        ("redis+cluster://h/1", "only the database 0"),
        ("unix://run/redis.sock", "three slashes"),
        ("unix:///", "three slashes"),
        ("unix:///s?db=x", "`unix:///path?db=3`"),
        ("unix://u:p@/s?pass=x", "leave one out"),
        ("redis://h#insecure", "`#insecure` is not supported"),
        ("redis://h#x", "a `#` has no meaning"),
    ] {
        let error = RedisUrl::read(url).err().unwrap_or_else(|| panic!("{url} is read"));
        assert!(error.contains(part), "{url}: {error}");
        assert!(error.len() < 260, "{url}: {error}");
    }
}

#[test]
fn a_parameter_that_is_not_known_is_answered_with_the_one_that_was_meant() {
    for (url, part) in [
        ("redis://h?replica=1", "`replica` is not a parameter of this URL: did you mean `replicas`?"),
        ("redis://h?replicas", "`replicas=` in the URL has no value"),
        ("redis://h?replicas=1&replicas=2", "twice"),
        ("redis://h?db=3", "write the database as the path: `redis://host:6379/3`"),
        ("redis+cluster://h?db=3", "only the database 0"),
        ("redis://h?timeout=5s", "`connect_timeout` and `response_timeout`"),
        ("redis://h?socket_timeout=5", "`connect_timeout` and `response_timeout`"),
        ("redis://h?conect_timeout=5s", "`connect_timeout`"),
        ("redis://h?user=u", "before the host"),
        ("redis://h?password=s3cret", "before the host"),
        ("redis://h?ssl=true", "`rediss`"),
        ("redis://h?ca=/x", "`ca=` is for TLS: write `rediss` for `redis`"),
        ("redis://h?tls_name=x", "is for TLS"),
        ("redis://h?sentinel_pass=s3cret", "is for `redis+sentinel://`"),
        ("redis+sentinel://h/m?sentinel_password=s3cret", "expected one of"),
        ("redis://h?prefix=x", "on `LockManager::builder()`"),
        (
            "redis://h?foo=bar",
            "expected one of `replicas`, `connect_timeout`, `response_timeout`, `protocol`",
        ),
        ("redis://h?=x", "has no name"),
        ("redis://h?a%20b=x", "expected one of"),
        ("redis://h?protocol=4", "neither `resp2` nor `resp3`"),
        ("redis://h?replicas=%ff", "not UTF-8"),
    ] {
        let error = RedisUrl::read(url).err().unwrap_or_else(|| panic!("{url} is read"));
        assert!(error.contains(part), "{url}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[test]
fn no_error_quotes_a_password() {
    for url in [
        "redis://:s3cret",
        "redis://:s3cret@",
        "redis://u:s3cret@h/x",
        "redis://u:s3cret@h:x",
        "redis://u:pa/s3cret@h",
        "redis://u:pa?s3cret@h",
        "redis://u:pa?a=s3cret@h",
        "redis://u:pa#s3cret@h",
        "redis+foo://u:s3cret@h",
        "redis://u:s3cret@h?db=1",
        "unix://u:s3cret@h/x",
        "redis:u:s3cret@h",
    ] {
        let error = RedisUrl::read(url).err().unwrap_or_else(|| panic!("{url} is read"));
        assert!(!error.contains("s3cret"), "{url}: {error}");
    }
}

#[test]
fn a_password_that_is_not_encoded_is_answered_with_how_to_encode_it() {
    for url in ["redis://u:a/b@h", "redis://u:a?b@h", "redis://u:a#b@h"] {
        assert!(RedisUrl::read(url).err().unwrap().contains("`%2F`, `%3F`, `%23`"), "{url}");
    }
}
