//! Keys: rendered templates, and expressions.

use std::fmt::{self, Display, Write};

use crate::observe::Event;
use crate::{IntoLockKey, LockError, LockKey, LockManager};
use distlock_store::kit::sync::Locked;

/// A piece of a key.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    /// Literal text.
    Text(&'static str),
    /// A value, with the name that it has in the template.
    Value(&'static str, &'a dyn Display),
    /// A value that is not escaped.
    Raw(&'static str, &'a dyn Display),
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Text(text) => f.debug_tuple("Text").field(text).finish(),
            Part::Value(name, _) => f.debug_tuple("Value").field(name).finish_non_exhaustive(),
            Part::Raw(name, _) => f.debug_tuple("Raw").field(name).finish_non_exhaustive(),
        }
    }
}

impl<'a> Part<'a> {
    /// `<name>`
    pub fn value<T: KeyValue>(name: &'static str, value: &'a T) -> Self {
        Part::Value(name, value)
    }

    /// The same for a type parameter, for which the compiler's own message about `Display` is more helpful.
    pub fn generic<T: Display>(name: &'static str, value: &'a T) -> Self {
        Part::Value(name, value)
    }

    /// The same for a type parameter.
    pub fn raw_generic<T: Display>(name: &'static str, value: &'a T) -> Self {
        Part::Raw(name, value)
    }

    /// `<name:raw>`
    pub fn raw<T: KeyValue>(name: &'static str, value: &'a T) -> Self {
        Part::Raw(name, value)
    }
}

/// A value for a placeholder.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a lock key: it does not implement `Display`",
    label = "does not implement `Display`",
    note = "name a field that does, as in `<order.id>`, or give an expression, as in `key = order.lock_key()`"
)]
pub trait KeyValue: Display {}

#[diagnostic::do_not_recommend]
impl<T: Display> KeyValue for T {}

/// Renders a template.
///
/// # Errors
/// [`LockError::InvalidKey`] if a value renders to nothing, or the key is too long.
pub fn key(parts: &[Part<'_>]) -> Result<LockKey, LockError> {
    let mut key = KeyText::new();
    for part in parts {
        let before = key.len();
        let (name, written) = match *part {
            Part::Text(text) => {
                key.push(text);
                continue;
            }
            Part::Value(name, value) => (name, write!(Escaping(&mut key), "{value}")),
            Part::Raw(name, value) => (name, write!(key, "{value}")),
        };
        if written.is_err() {
            return Err(LockError::key(format!("the value of `<{name}>` cannot be displayed")));
        }
        if key.len() == before {
            return Err(LockError::key(format!("the value of `<{name}>` is empty")));
        }
    }
    LockKey::new(key.as_str()?)
}

/// Text that stays on the stack while it is short.
struct KeyText {
    short: [u8; KeyText::SHORT],
    length: usize,
    long: String,
}

impl KeyText {
    /// Longer than nearly every key.
    const SHORT: usize = 128;

    fn new() -> Self {
        KeyText { short: [0; KeyText::SHORT], length: 0, long: String::new() }
    }

    fn len(&self) -> usize {
        self.length + self.long.len()
    }

    fn push(&mut self, text: &str) {
        let end = self.length + text.len();
        if self.long.is_empty()
            && let Some(free) = self.short.get_mut(self.length..end)
        {
            free.copy_from_slice(text.as_bytes());
            self.length = end;
        } else {
            self.spill(text);
        }
    }

    #[cold]
    fn spill(&mut self, text: &str) {
        // The bytes so far are valid UTF-8, so nothing is replaced.
        self.long.push_str(&String::from_utf8_lossy(&self.short[..self.length]));
        self.long.push_str(text);
        self.length = 0;
    }

    fn as_str(&self) -> Result<&str, LockError> {
        if self.long.is_empty() {
            std::str::from_utf8(&self.short[..self.length]).map_err(|error| LockError::key(error.to_string()))
        } else {
            Ok(&self.long)
        }
    }
}

impl Write for KeyText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        fmt::Result::Ok(())
    }
}

/// Escapes what could be mistaken for the text between two values: `%`, `:`, `{`, `}`, white space and control
/// characters, as upper-case `%XX` per UTF-8 byte.
struct Escaping<'a>(&'a mut KeyText);

/// Keep in step with the macro crate, which checks that separators are escaped.
fn is_escaped(c: char) -> bool {
    matches!(c, '%' | ':' | '{' | '}') || c.is_whitespace() || c.is_control()
}

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(is_escaped) {
            let (plain, after) = rest.split_at(at);
            self.0.push(plain);
            let mut chars = after.chars();
            if let Some(c) = chars.next() {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    write!(self.0, "%{byte:02X}")?;
                }
            }
            rest = chars.as_str();
        }
        self.0.push(rest);
        fmt::Result::Ok(())
    }
}

/// `key = expr`, taken by reference: a [`LockKey`], a `Result` of a key, or text.
#[derive(Debug)]
pub struct KeyOf<'a, T: ?Sized>(pub &'a T);

// There is only one inherent method: with two, the compiler would report an ambiguity in addition to the real error.
impl<K: KeyLike> KeyOf<'_, Result<K, LockError>> {
    /// The key or the error.
    pub fn key(self) -> Result<LockKey, LockError> {
        match self.0 {
            Ok(key) => LockKey::new(key),
            Err(error) => Err(error.clone()),
        }
    }
}

/// A key, or text of any kind; the inherent method comes first.
pub trait AnyKey<T: ?Sized> {
    /// The checked key.
    ///
    /// # Errors
    /// [`LockError::InvalidKey`]
    fn key(self) -> Result<LockKey, LockError>
    where
        T: KeyLike;
}

impl<T: ?Sized> AnyKey<T> for KeyOf<'_, T> {
    fn key(self) -> Result<LockKey, LockError>
    where
        T: KeyLike,
    {
        LockKey::new(self.0)
    }
}

/// An expression whose key has the text of a placeholder in it, as a constant `"order:<id>"` has: the compiler sees no
/// template there, and one lock serves all orders. Warns once for each label and name. `names`: the arguments of the
/// function.
pub fn literal_placeholder(
    manager: &LockManager,
    label: &'static str,
    key: &LockKey,
    names: &[&'static str],
) {
    if key.as_str().contains('<') {
        warn_of_placeholder(manager, label, key.as_str(), names);
    }
}

#[cold]
fn warn_of_placeholder(manager: &LockManager, label: &'static str, key: &str, names: &[&'static str]) {
    // Not the address of a list of names: the linker may merge equal lists of two functions.
    static WARNED: Locked<Vec<(&str, &str)>> = Locked::new(Vec::new());
    let is_placeholder = |name: &&str| {
        let mut behind = key.match_indices('<').filter_map(|(at, _)| key[at + 1..].strip_prefix(name));
        behind.any(|behind| behind.starts_with(['>', '.', ':']))
    };
    let Some(name) = names.iter().copied().find(is_placeholder) else { return };
    {
        let mut warned = WARNED.lock();
        if warned.contains(&(label, name)) {
            return;
        }
        warned.push((label, name));
    }
    manager.core().observers.tell(&Event::LiteralPlaceholder { label, name });
}

/// A value of the expression in `key = expr`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a lock key",
    label = "not text, not a `LockKey`, and not a `Result<_, LockError>` of one",
    note = "give text, as in `key = format!(\"order:{{id}}\")`, or a template, as in `key = \"order:<id>\"`"
)]
pub trait KeyLike: AsRef<str> {}

#[diagnostic::do_not_recommend]
impl<T: AsRef<str> + ?Sized> KeyLike for T {}

/// `keys = [..]`, one statement for each, so that what one key borrows is gone when the next one awaits.
#[derive(Debug, Default)]
pub struct KeyList(Vec<Result<LockKey, LockError>>);

impl KeyList {
    /// Room for this many.
    #[must_use]
    pub fn new(keys: usize) -> Self {
        KeyList(Vec::with_capacity(keys))
    }

    /// Adds a key, or the error instead of it.
    pub fn add(&mut self, key: Result<LockKey, LockError>) {
        self.0.push(key);
    }

    /// All of them.
    #[must_use]
    pub fn all(self) -> Vec<Result<LockKey, LockError>> {
        self.0
    }
}

/// `keys = expr`.
pub fn keys<K: IntoLockKey>(keys: impl IntoIterator<Item = K>) -> Vec<Result<LockKey, LockError>> {
    keys.into_iter().map(K::into_lock_key).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::observe::Observer;

    #[derive(Default)]
    struct Warnings(Mutex<Vec<String>>);

    impl Observer for Warnings {
        fn event(&self, event: &Event<'_>) {
            if let Event::LiteralPlaceholder { label, name } = event {
                self.0.lock().unwrap().push(format!("{label} {name}"));
            }
        }
    }

    /// Two functions with the same arguments may have one list of names: the linker merges equal constants.
    #[test]
    fn each_function_is_warned_of_once() {
        let warnings = Arc::new(Warnings::default());
        let manager = LockManager::in_memory_observed_by(warnings.clone());
        let key = LockKey::new("order:<id>").unwrap();
        for label in ["shop::pay", "shop::refund", "shop::pay"] {
            literal_placeholder(&manager, label, &key, &["name", "id"]);
        }
        assert_eq!(*warnings.0.lock().unwrap(), ["shop::pay id", "shop::refund id"]);
    }
}
