//! A fence as a field of HTTP, and of the metadata of gRPC.
//!
//! ```text
//! Fencing-Token: "1790000000000000";key="points:42"
//! ```
//!
//! It is an Item of [RFC 9651](https://www.rfc-editor.org/rfc/rfc9651), "Structured Field Values for HTTP":
//!
//! - The token is a String of decimal digits. An Integer of that RFC has at most 15 digits, and a token may have 20.
//! - The parameter `key` is a String, or a Display String (`%"caf%c3%a9"`) if it has characters that are not printable
//!   ASCII: each key can be written.
//! - Other parameters are ignored.
//!
//! ```
//! use distlock_fence::Fence;
//! use distlock_fence::header::FENCING_TOKEN;
//!
//! let mut request = http::Request::new(());
//! let fence = Fence::new("points:42", 1_790_000_000_000_000);
//! request.headers_mut().insert(FENCING_TOKEN, fence.to_header_value());
//!
//! let value = &request.headers()[FENCING_TOKEN];
//! assert_eq!(value, r#""1790000000000000";key="points:42""#);
//! assert_eq!(Fence::from_header_value(value), Ok(fence));
//! ```

use std::error::Error;
use std::fmt;

use http::{HeaderName, HeaderValue};
use sfv::{BareItem, Item, ItemSerializer, KeyRef, Parser, RefBareItem, StringRef, key_ref};

use crate::Fence;

/// The name of the field: `Fencing-Token`.
pub const FENCING_TOKEN: HeaderName = HeaderName::from_static("fencing-token");

/// The name of the parameter.
const KEY: &KeyRef = key_ref("key");

impl Fence {
    /// The value of the [header](crate::header) `Fencing-Token`.
    ///
    /// # Panics
    /// Never: a structured field is visible ASCII for every key.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a structured field is visible ASCII")]
    pub fn to_header_value(&self) -> HeaderValue {
        let token = self.token().to_string();
        let item = ItemSerializer::new().bare_item(text(&token)).parameter(KEY, text(self.key()));
        HeaderValue::try_from(item.finish()).expect("visible ASCII")
    }

    /// Reads the value of the [header](crate::header) `Fencing-Token`. (A message must not have several such fields.)
    ///
    /// # Errors
    /// The value is not a structured field, the token is not a String with a number in the form of
    /// [`Fence::to_header_value`], or the key is missing.
    pub fn from_header_value(value: impl AsRef<[u8]>) -> Result<Self, ParseHeaderError> {
        let item = Parser::new(value.as_ref()).parse::<Item>();
        let item = item.map_err(|error| ParseHeaderError { problem: error.to_string() })?;
        let token = item.bare_item.as_string().and_then(|text| number(text.as_str()));
        let key = match item.params.get(KEY) {
            Some(BareItem::String(key)) => Some(key.as_str()),
            Some(BareItem::DisplayString(key)) => Some(key.as_str()),
            _ => None,
        };
        match (token, key) {
            (Some(token), Some(key)) => Ok(Fence::new(key, token)),
            (None, _) => {
                Err(ParseHeaderError { problem: "the token is not a string with a number".to_owned() })
            }
            (_, None) => Err(ParseHeaderError { problem: "it has no key that is a string".to_owned() }),
        }
    }
}

/// A String if it can be one.
fn text(text: &str) -> RefBareItem<'_> {
    StringRef::from_str(text).map_or(RefBareItem::DisplayString(text), RefBareItem::String)
}

/// One way to write each number: no sign, no zeros in front.
fn number(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().filter(|number| number.to_string() == text)
}

/// The value is no [`Fence`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseHeaderError {
    problem: String,
}

impl fmt::Display for ParseHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = r#""1790000000000000";key="points:42""#;
        write!(f, "not a fence: {}; expected a token and its key, like `{expected}`", self.problem)
    }
}

impl Error for ParseHeaderError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_as_the_rfc_says() {
        for (key, written) in [
            ("points:42", r#""7";key="points:42""#),
            ("", r#""7";key="""#),
            (r#"a "b" \ c"#, r#""7";key="a \"b\" \\ c""#),
            ("café\n%\"", r#""7";key=%"caf%c3%a9%0a%25%22""#),
        ] {
            assert_eq!(Fence::new(key, 7).to_header_value(), written, "{key}");
        }
        assert_eq!(Fence::new("k", u64::MAX).to_header_value(), r#""18446744073709551615";key="k""#);
    }

    #[test]
    fn what_others_may_write_is_read() {
        let fence = Fence::new("é", 7);
        for value in [r#"  "7";  key=%"%c3%a9" "#, r#""7";other;key="a";key=%"%c3%a9";more=1.5"#] {
            assert_eq!(Fence::from_header_value(value).as_ref(), Ok(&fence), "{value}");
        }
    }

    #[test]
    fn all_else_is_refused() {
        for value in [
            "",
            "points:42#7",
            r#""7""#,
            r#"7;key="k""#,
            r#"seven;key="k""#,
            r#""7";key=k"#,
            r#""7";key"#,
            r#""7";Key="k""#,
            r#""7";key="é""#,
            r#""7";key=%"%C3%A9""#,
            r#""7";key=%"%c3""#,
            r#""07";key="k""#,
            r#""+7";key="k""#,
            r#""-7";key="k""#,
            r#"" 7";key="k""#,
            r#""";key="k""#,
            r#""18446744073709551616";key="k""#,
            r#""7";key="k", "8";key="k""#,
            r#""7";key="k" x"#,
        ] {
            assert!(Fence::from_header_value(value).is_err(), "{value}");
        }
    }

    #[test]
    fn every_fence_comes_back() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let length = random.usize(..20);
            let key: String = (0..length).map(|_| random.char('\0'..=char::MAX)).collect();
            // Many of few digits, too.
            let fence = Fence::new(key, random.u64(..) >> random.u32(..64));
            assert_eq!(Fence::from_header_value(fence.to_header_value()), Ok(fence));
        }
    }

    /// For any bytes: nothing panics, and a fence that was read is the same after it was written and read again.
    #[test]
    fn any_bytes_are_read_or_refused() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..20_000 {
            let mut bytes = Fence::new("a \" é", random.u64(..)).to_header_value().as_bytes().to_vec();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                match random.u8(..3) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes.insert(at, random.u8(..)),
                    _ => drop(bytes.remove(at)),
                }
            }
            if let Ok(fence) = Fence::from_header_value(&bytes) {
                assert_eq!(Fence::from_header_value(fence.to_header_value()), Ok(fence));
            }
        }
    }
}
