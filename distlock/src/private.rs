//! What the expansion of `#[distributed_lock]` and `key!` calls. Not part of the public interface: the macro
//! crate is pinned to the very version of this one.
//!
//! Everything that is generic over a user's type is kept as thin as possible, because it is compiled once per
//! annotated function.

use std::fmt::{self, Display, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::blocking::block_on;
use crate::section::{Holding, Section};
use crate::{FencingToken, Guard, Held, IntoLockKey, LockError, LockKey, LockManager, LockRequest};

pub use core::mem::drop;
pub use core::option::Option::{None, Some};
pub use core::pin::pin;
pub use core::result::Result::{Err, Ok};
pub use core::{concat, module_path, stringify};

pub use crate::Retry;

// The manager.

/// The manager of a scope or of the process.
pub fn current() -> Result<LockManager, LockError> {
    LockManager::current()
}

/// `manager = expr`, as a method call: a field, a reference, an `Arc` and a clone all work, and nothing stays
/// borrowed.
pub trait AsLockManager {
    /// The manager to use.
    fn as_lock_manager(&self) -> LockManager;
}

impl AsLockManager for crate::blocking::LockManager {
    fn as_lock_manager(&self) -> LockManager {
        self.clone().into()
    }
}

impl AsLockManager for LockManager {
    fn as_lock_manager(&self) -> LockManager {
        self.clone()
    }
}

// The key.

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

    /// The same for a type parameter: the compiler's own message about `Display` knows better what to write.
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

/// What a placeholder can stand for.
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
        // What was pushed so far is text, so nothing is replaced.
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

impl KeyOf<'_, LockKey> {
    /// The key itself.
    pub fn key(self) -> Result<LockKey, LockError> {
        Ok(self.0.clone())
    }
}

impl<K: KeyLike> KeyOf<'_, Result<K, LockError>> {
    /// The key or the error.
    pub fn key(self) -> Result<LockKey, LockError> {
        match self.0 {
            Ok(key) => LockKey::new(key),
            Err(error) => Err(error.clone()),
        }
    }
}

/// Text of any kind; the inherent methods come first.
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

/// What an expression in `key = expr` can yield.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a lock key",
    label = "not text, not a `LockKey`, and not a `Result<_, LockError>` of one",
    note = "give text, as in `key = format!(\"order:{{id}}\")`, or a template, as in `key = \"order:<id>\"`"
)]
pub trait KeyLike: AsRef<str> {}

#[diagnostic::do_not_recommend]
impl<T: AsRef<str> + ?Sized> KeyLike for T {}

/// `keys = [..]` and `keys = expr`.
pub fn keys<K: IntoLockKey>(keys: impl IntoIterator<Item = K>) -> Vec<Result<LockKey, LockError>> {
    keys.into_iter().map(K::into_lock_key).collect()
}

// The request.

/// A request with its label.
pub fn request(manager: &LockManager, key: Result<LockKey, LockError>, label: &'static str) -> LockRequest {
    manager.lock(key).label(label)
}

/// A request for several locks with its label.
pub fn request_all(
    manager: &LockManager,
    keys: Vec<Result<LockKey, LockError>>,
    label: &'static str,
) -> LockRequest {
    manager.lock_all(keys).label(label)
}

/// A duration that was checked at compile time.
#[must_use]
pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Whether an acquisition failed because the lock is busy, and for no other reason.
pub fn is_busy<T>(acquired: &Result<T, LockError>) -> bool {
    acquired.as_ref().is_err_and(LockError::is_busy)
}

// The hold.

/// Where the lock lives: declared before, and so dropped after, everything that the body may use.
#[derive(Debug, Default)]
pub struct Slot(Option<Holding>);

impl Slot {
    /// Holds nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Slot(None)
    }

    /// Acquires, and keeps the lock.
    ///
    /// # Errors
    /// Those of the request.
    pub async fn acquire(&mut self, request: LockRequest) -> Result<&Held, LockError> {
        let guard = request.acquire().await?;
        Ok(self.0.insert(Holding::new(guard)).handle())
    }

    /// The same on a thread.
    ///
    /// # Errors
    /// Those of the request.
    pub fn acquire_blocking(&mut self, request: LockRequest) -> Result<&Held, LockError> {
        block_on(self.acquire(request))
    }

    /// Releases and waits for it; a failure is reported, not returned.
    pub async fn release(&mut self) {
        if let Some(holding) = self.0.take() {
            holding.handle().settle().await;
        }
    }

    /// The same on a thread.
    pub fn release_blocking(&mut self) {
        block_on(self.release());
    }

    /// Releases; the error, if the lock had been lost.
    pub fn finish_blocking(&mut self) -> Option<LockError> {
        let holding = self.0.take()?;
        block_on(holding.handle().release_shared()).err().filter(LockError::is_lost)
    }
}

/// What a loss does to an async body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLost {
    /// It is dropped at its next await point.
    Cancel,
    /// It goes on.
    Continue,
}

/// Runs a body while the lease is watched, or just runs it. The body is pinned by the caller, so that its size
/// is paid for once.
pub fn hold<'a, F: Future>(held: Option<&'a Held>, on_lost: OnLost, body: Pin<&'a mut F>) -> Hold<'a, F> {
    let on_lost = match on_lost {
        OnLost::Cancel => crate::section::OnLost::Cancel,
        OnLost::Continue => crate::section::OnLost::Continue,
    };
    Hold { section: held.map(|held| Section::new(held, on_lost)), body }
}

/// A body that runs; yields [`LockError::Lost`] if the lease ends before it does.
#[must_use = "futures do nothing unless polled"]
pub struct Hold<'a, F> {
    section: Option<Section<'a>>,
    body: Pin<&'a mut F>,
}

impl<F> fmt::Debug for Hold<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").finish_non_exhaustive()
    }
}

impl<F: Future> Future for Hold<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Hold { section, body } = self.get_mut();
        match section {
            Some(section) => section.poll_body(cx, body.as_mut()),
            None => body.as_mut().poll(cx).map(Ok),
        }
    }
}

/// Runs a body on this thread. Taking `FnOnce` lets it return what it was given by `&mut`.
pub fn hold_blocking<T>(held: Option<&Held>, body: impl FnOnce() -> T) -> T {
    match held {
        Some(held) => crate::section::hold_here(held, body),
        None => body(),
    }
}

/// `guard = name`. Not offered together with `when`, so there is a guard.
pub fn guard(held: Option<&Held>) -> &Guard {
    match held {
        Some(guard) => guard,
        None => unreachable!("`guard` was accepted together with `when`"),
    }
}

/// `token = name`. The request was fenced, so there is a token.
pub fn token(held: Option<&Held>) -> FencingToken {
    match guard(held).fencing_token() {
        Some(token) => token,
        None => unreachable!("a fenced request was granted without a token"),
    }
}

// The result.

/// A value that is never made: it lends its type to an async block that has no signature.
#[must_use]
pub fn placeholder<T>() -> T {
    unreachable!("the expansion of `#[distributed_lock]` never runs this")
}

/// A return type that can carry every lock error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot carry a `distlock::LockError`",
    label = "a busy or lost lock could not be reported",
    note = "return a `Result` whose error implements `From<distlock::LockError>`",
    note = "or make that error with `map_err = |error| ..`, or the whole value with `on_error = |error| ..`"
)]
pub trait CarriesLockError {
    /// The value that says so.
    fn from_lock_error(error: LockError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> CarriesLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(E::from(error))
    }
}

/// The same when `on_busy` takes a part.
#[diagnostic::on_unimplemented(
    message = "`on_busy` covers a busy lock only, and `{Self}` cannot carry other lock errors",
    label = "a lost or unavailable lock could not be reported",
    note = "return a `Result` whose error implements `From<distlock::LockError>`",
    note = "or make that error with `map_err = |error| ..`, or the whole value with `on_error = |error| ..`"
)]
pub trait CarriesOtherLockErrors: Sized {
    /// The value that says so.
    fn from_lock_error(error: LockError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> CarriesOtherLockErrors for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(E::from(error))
    }
}

/// A return type with an error that `map_err` can make.
#[diagnostic::on_unimplemented(
    message = "`map_err` makes the error of a `Result`, and the function returns `{Self}`",
    label = "not a `Result`",
    note = "make the whole value with `on_error = |error| ..`"
)]
pub trait HasError: Sized {
    /// The error.
    type Error;
    /// The value with the error.
    fn from_error(error: Self::Error) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E> HasError for Result<T, E> {
    type Error = E;
    fn from_error(error: E) -> Self {
        Err(error)
    }
}

/// The function's value, by `From`.
pub fn finish<R: CarriesLockError>(result: Result<R, LockError>) -> R {
    result.unwrap_or_else(R::from_lock_error)
}

/// The same when `on_busy` takes a part.
pub fn finish_unless_busy<R: CarriesOtherLockErrors>(result: Result<R, LockError>) -> R {
    result.unwrap_or_else(R::from_lock_error)
}

/// The function's value, by `map_err`.
pub fn finish_map_err<R: HasError>(
    result: Result<R, LockError>,
    map_err: impl FnOnce(LockError) -> R::Error,
) -> R {
    result.unwrap_or_else(|error| R::from_error(map_err(error)))
}

/// The function's value, by `on_error`.
pub fn finish_on_error<R>(result: Result<R, LockError>, on_error: impl FnOnce(LockError) -> R) -> R {
    result.unwrap_or_else(on_error)
}

/// Whether a body's value says that it succeeded, for `on_lost = "error"`: anything but an `Err` does.
#[derive(Debug)]
pub struct Outcome<'a, T>(pub &'a T);

impl<T, E> Outcome<'_, Result<T, E>> {
    /// Whether it is `Ok`.
    pub fn is_success(&self) -> bool {
        self.0.is_ok()
    }
}

/// For values that are no `Result`; the inherent method comes first.
pub trait AnyOutcome {
    /// Always.
    fn is_success(&self) -> bool {
        true
    }
}

impl<T> AnyOutcome for Outcome<'_, T> {}
