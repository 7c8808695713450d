//! Every message of the macro: lower case, the problem first, names in backticks, then a `help:` line with
//! something to paste.
//!
//! Stable compilers cannot point inside a string literal, so messages about templates draw the caret themselves.

use std::fmt::Display;
use std::ops::Range;

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::{Error, Expr, Lit, Type};

use crate::args::OPTIONS;
use crate::duration::DurationError;
use crate::template::{TemplateError, TemplateErrorKind};

/// Collects errors, so that every mistake of one function is reported in one compilation.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    /// Adds an error.
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// All errors, if there are any.
    pub(crate) fn into_error(self) -> Option<Error> {
        self.0
    }
}

fn error(span: Span, problem: impl Display, help: impl Display) -> Error {
    Error::new(span, format!("{problem}\n\nhelp: {help}"))
}

fn error_on(tokens: impl ToTokens, problem: impl Display, help: impl Display) -> Error {
    Error::new_spanned(tokens, format!("{problem}\n\nhelp: {help}"))
}

// The form of the options.

/// `#[distributed_lock("order:<id>")]`
pub(crate) fn positional(span: Span, literal: Option<&Lit>) -> Error {
    let help = match literal {
        Some(Lit::Str(literal)) => format!("write `key = {}`", literal.token()),
        _ => {
            "options are written `name = value`, as in `key = \"order:<order_id>\", ttl = \"10s\"`".to_owned()
        }
    };
    error(span, "an option needs a name", help)
}

/// `ttl` without `= ".."`
pub(crate) fn no_value(name: &Ident) -> Error {
    let problem = format!("option `{name}` without a value");
    error(name.span(), problem, format!("write `{}`", example(&name.to_string())))
}

/// `ttl: "10s"`, `ttl("10s")`
pub(crate) fn no_equals_sign(name: &Ident) -> Error {
    let problem = format!("no `=` after option `{name}`");
    error(name.span(), problem, format!("write `{}`", example(&name.to_string())))
}

/// `ttl = ;`
pub(crate) fn not_a_value(name: &Ident, cause: &Error) -> Error {
    let problem = format!("the value of `{name}` is not an expression: {cause}");
    error(cause.span(), problem, format!("write `{}`", example(&name.to_string())))
}

/// `tll = "10s"`
pub(crate) fn unknown_option(name: &Ident) -> Error {
    let written = name.to_string();
    let help = match nearest(&written, OPTIONS.iter().copied()).or_else(|| elsewhere(&written)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the options are {}", list(OPTIONS.iter().copied())),
    };
    error(name.span(), format!("unknown option `{name}`"), help)
}

/// What other lock libraries call an option.
fn elsewhere(name: &str) -> Option<&'static str> {
    Some(match name {
        "timeout" | "wait_time" | "wait_timeout" | "acquire_timeout" | "blocking_timeout" => "wait",
        "lease" | "lease_time" | "lease_timeout" | "expire" | "expiry" | "expires" | "lock_at_most_for" => {
            "ttl"
        }
        "lock_at_least_for" => "min_hold",
        "retry_count" | "attempts" => "retries",
        "retry_interval" => "retry_delay",
        "watchdog" | "auto_renew" | "extend" => "renew",
        "condition" | "skip" => "when",
        "fence" | "fenced" | "fencing_token" => "token",
        "locks" | "client" => "manager",
        "permits" | "limit" => "max_holders",
        "resource" | "id" => "key",
        "skip_if_busy" | "fallback" | "default" => "on_busy",
        _ => return None,
    })
}

/// `ttl = "10s", ttl = "20s"`
pub(crate) fn duplicate(name: &Ident) -> Error {
    error(name.span(), format!("option `{name}` given twice"), "keep one of the two")
}

/// `key = "a" ttl = "10s"`
pub(crate) fn missing_comma(span: Span) -> Error {
    error(span, "missing comma in front of this option", "write `,` between two options")
}

/// `key = "a" "b"`
pub(crate) fn unexpected_after_value(span: Span) -> Error {
    error(span, "unexpected token after the value of an option", "write `,` between two options")
}

/// An option with a value to copy.
fn example(option: &str) -> &'static str {
    match option {
        "key" => "key = \"order:<order_id>\"",
        "keys" => "keys = [\"account:<from>\", \"account:<to>\"]",
        "ttl" => "ttl = \"10s\"",
        "wait" => "wait = \"3s\"",
        "retries" => "retries = 3",
        "retry_delay" => "retry_delay = \"100ms\"",
        "renew" => "renew = false",
        "max_hold" => "max_hold = \"10m\"",
        "min_hold" => "min_hold = \"5s\"",
        "mode" => "mode = \"shared\"",
        "max_holders" => "max_holders = 3",
        "reentrant" => "reentrant = true",
        "on_busy" => "on_busy = Ok(None)",
        "map_err" => "map_err = MyError::from_lock",
        "on_error" => "on_error = |error| Response::from(error)",
        "on_lost" => "on_lost = \"continue\"",
        "guard" => "guard = guard",
        "token" => "token = token",
        "manager" => "manager = self.locks",
        "when" => "when = amount > 0",
        "name" => "name = \"order\"",
        "crate" => "crate = ::distlock",
        _ => "name = value",
    }
}

// Values.

/// Neither `key` nor `keys`.
pub(crate) fn missing_key(span: Span, first_argument: Option<&Ident>) -> Error {
    let help = match first_argument {
        Some(argument) => format!("name what is locked, as in `key = \"order:<{argument}>\"`"),
        None => "name what is locked, as in `key = \"nightly-report\"`".to_owned(),
    };
    error(span, "missing `key`", help)
}

/// `key` and `keys` together.
pub(crate) fn conflict(name: &Ident, other: &str, why: &str, help: &str) -> Error {
    error(name.span(), format!("`{name}` and `{other}` exclude each other: {why}"), help)
}

/// An option that has no meaning without another.
pub(crate) fn requires(name: &Ident, why: &str, help: &str) -> Error {
    error(name.span(), format!("`{name}` has no effect here: {why}"), help)
}

/// A literal of the wrong kind.
pub(crate) fn wrong_kind(name: &Ident, value: &Expr, wanted: &str) -> Error {
    let problem = format!("`{name}` takes {wanted}");
    error_on(value, problem, format!("write `{}`", example(&name.to_string())))
}

/// `key = 5`
pub(crate) fn key_kind(name: &Ident, value: &Expr) -> Error {
    let problem = format!("`{name}` takes a template or an expression that yields a key, not this literal");
    error_on(value, problem, format!("write `{}`, or `key = some_function(&argument)`", example("key")))
}

/// `keys = []`
pub(crate) fn no_keys(value: &Expr) -> Error {
    error_on(value, "`keys` is empty", format!("write `{}`", example("keys")))
}

/// `mode = "share"`
pub(crate) fn unknown_word(name: &Ident, value: &Expr, word: &str, words: &[&str]) -> Error {
    let help = match nearest(word, words.iter().copied()) {
        Some(near) => format!("did you mean `{name} = \"{near}\"`?"),
        None => format!("`{name}` is {}", alternatives(words)),
    };
    error_on(value, format!("`{name}` cannot be `\"{word}\"`"), help)
}

/// `guard = 5`
pub(crate) fn not_a_name(name: &Ident, value: &Expr) -> Error {
    let problem = format!("`{name}` takes the name of a variable for the body");
    error_on(value, problem, format!("write `{}`", example(&name.to_string())))
}

/// `crate = distlock`
pub(crate) fn relative_crate(value: &Expr) -> Error {
    let path = value.to_token_stream().to_string().replace(' ', "");
    let help = if syn::parse_str::<syn::Path>(&path).is_ok() {
        format!("write `crate = ::{path}`, or `crate = crate::{path}` for a re-export of your own")
    } else {
        format!("write `{}`", example("crate"))
    };
    error_on(value, "`crate` takes an absolute path", help)
}

/// `ttl = 10`
pub(crate) fn duration_number(name: &Ident, value: &Expr, digits: &str, suffix: &str) -> Error {
    let unit = if suffix.is_empty() { "s" } else { suffix };
    let problem =
        if suffix.is_empty() { "a duration needs a unit" } else { "a duration is written as a string" };
    error_on(
        value,
        format!("{problem}: `{name} = {digits}{suffix}`"),
        format!("write `{name} = \"{digits}{unit}\"`"),
    )
}

/// `ttl = "10 apples"`
pub(crate) fn duration(name: &Ident, value: &Expr, text: &str, kind: &DurationError) -> Error {
    let units = "the units are `ms`, `s`, `m`, `h` and `d`";
    let rewrite = |text: &str| format!("write `{name} = \"{text}\"`");
    let (problem, help) = match kind {
        DurationError::Empty => {
            ("empty duration".to_owned(), format!("write `{}`", example(&name.to_string())))
        }
        DurationError::NotANumber => (
            format!("`{text}` is not a duration"),
            format!("write a number and a unit, as in `{name} = \"10s\"`"),
        ),
        DurationError::Negative => (format!("negative duration `{text}`"), {
            let text = text.trim().trim_start_matches('-').trim_start();
            let unit = if text.ends_with(|c: char| c.is_ascii_digit()) { "s" } else { "" };
            rewrite(&format!("{text}{unit}"))
        }),
        DurationError::NoUnit { number } => (
            format!("a duration needs a unit: `{text}`"),
            format!("{}; {units}", rewrite(&format!("{number}s"))),
        ),
        DurationError::UnknownUnit { unit, suggestion: Some(suggestion) } => {
            (format!("unknown unit `{unit}`"), format!("{}; {units}", rewrite(suggestion)))
        }
        DurationError::UnknownUnit { unit, suggestion: None } => {
            (format!("unknown unit `{unit}`"), units.to_owned())
        }
        DurationError::Fraction { suggestion: Some(suggestion) } => {
            (format!("a duration is a whole number: `{text}`"), rewrite(suggestion))
        }
        DurationError::Fraction { suggestion: None } => {
            (format!("a duration is a whole number: `{text}`"), "the smallest unit is `ms`".to_owned())
        }
        DurationError::Compound { suggestion } => {
            (format!("a duration is one number and one unit: `{text}`"), rewrite(suggestion))
        }
        DurationError::Overflow => (
            format!("the duration `{text}` is too long"),
            "the longest is 100 years, `\"36500d\"`".to_owned(),
        ),
    };
    error_on(value, problem, help)
}

/// `ttl = "0s"`
pub(crate) fn zero(name: &Ident, value: &Expr) -> Error {
    let help = match name.to_string().as_str() {
        "ttl" => "write a lease time that covers a crash, as in `ttl = \"10s\"`".to_owned(),
        "retries" => "for a single attempt write `wait = \"0s\"`".to_owned(),
        "max_holders" => "write how many may hold the key at once, as in `max_holders = 3`".to_owned(),
        "max_hold" | "min_hold" => format!("leave `{name}` out"),
        name => format!("write `{}`", example(name)),
    };
    error_on(value, format!("`{name}` is zero"), help)
}

/// `retries = -1`, `retries = 99999999999`
pub(crate) fn count(name: &Ident, value: &Expr) -> Error {
    let problem = format!("`{name}` is a number between 1 and {}", u32::MAX);
    error_on(value, problem, format!("write `{}`", example(&name.to_string())))
}

/// `max_hold = "1s", ttl = "10s"`
pub(crate) fn max_hold_below_ttl(value: &Expr) -> Error {
    error_on(
        value,
        "`max_hold` is shorter than `ttl`: the lease would never be renewed",
        "shorten `ttl`, or write `renew = false` in place of `max_hold`",
    )
}

/// `min_hold = "1m", ttl = "10s", renew = false`
pub(crate) fn min_hold_above_ttl(value: &Expr) -> Error {
    error_on(
        value,
        "`min_hold` is longer than `ttl`, and `renew = false` lets the lease end with `ttl`",
        "lengthen `ttl`, or leave `renew = false` out",
    )
}

// Templates.

/// A mistake in a template's form.
pub(crate) fn template(span: Span, text: &str, mistake: &TemplateError) -> Error {
    let part = &text[mistake.range.clone()];
    let (problem, help) = match &mistake.kind {
        TemplateErrorKind::Empty => {
            return error(span, "empty key", format!("name what is locked, as in `{}`", example("key")));
        }
        TemplateErrorKind::Unclosed => {
            ("unclosed `<`".to_owned(), "close it, as in `<name>`; a literal `<` is written `<<`".to_owned())
        }
        TemplateErrorKind::StrayClose => (
            "stray `>`".to_owned(),
            "a placeholder is written `<name>`, a literal `>` is written `>>`".to_owned(),
        ),
        TemplateErrorKind::EmptyPlaceholder => {
            ("empty placeholder".to_owned(), "name an argument, as in `<order_id>`".to_owned())
        }
        TemplateErrorKind::WhiteSpace { trimmed } => {
            (format!("white space in placeholder `{part}`"), format!("write `<{trimmed}>`"))
        }
        TemplateErrorKind::Expression => (
            format!("expression in placeholder `{part}`"),
            "a placeholder is an argument or a field of one; for more, give an expression, as in \
             `key = format!(\"order:{}\", ids[0])`"
                .to_owned(),
        ),
        TemplateErrorKind::MethodCall => (
            format!("method call in placeholder `{part}`"),
            "a placeholder is an argument or a field of one; for more, give an expression, as in \
             `key = format!(\"order:{}\", order.id())`"
                .to_owned(),
        ),
        TemplateErrorKind::Underscore => {
            ("`<_>` names nothing".to_owned(), "give the argument a name, and write that name".to_owned())
        }
        TemplateErrorKind::NotAnIdentifier { part } if part.is_empty() => {
            ("a name is missing in the placeholder".to_owned(), "write `<argument.field>`".to_owned())
        }
        TemplateErrorKind::NotAnIdentifier { part } => {
            (format!("`{part}` is not an identifier"), "name an argument, as in `<order_id>`".to_owned())
        }
        TemplateErrorKind::UnknownFormat { format } => (
            format!("unknown format `:{format}`"),
            "values are rendered with `Display`; the only format is `:raw`, which leaves out the escaping"
                .to_owned(),
        ),
        TemplateErrorKind::Unseparated { between } => {
            let problem = if between.is_empty() {
                "nothing separates two values: different arguments could render the same key".to_owned()
            } else {
                format!(
                    "`{between}` does not separate two values: different arguments could render the same key"
                )
            };
            let help = "write `:` between them, which is escaped inside a value; \
                        or mark one of them `:raw` if it cannot contain the separator";
            (problem, help.to_owned())
        }
    };
    in_template(span, text, &mistake.range, problem, help)
}

/// `<usr_id>`
pub(crate) fn unknown_placeholder(
    span: Span,
    text: &str,
    range: &Range<usize>,
    root: &str,
    names: &[String],
) -> Error {
    let help = match nearest(root, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `<{near}>`?"),
        None if names.is_empty() => "the function has no arguments; leave the placeholder out".to_owned(),
        None => {
            let names: Vec<_> = names.iter().map(|name| format!("<{name}>")).collect();
            format!("available: {}", list(names.iter().map(String::as_str)))
        }
    };
    in_template(span, text, range, format!("unknown placeholder `<{root}>`"), help)
}

/// `<self.x>` in a function without a receiver.
pub(crate) fn no_receiver(span: Span, text: &str, range: &Range<usize>) -> Error {
    let problem = "`self` in a function without a receiver";
    in_template(span, text, range, problem, "name an argument, or add `&self` to the function")
}

/// `{user_id}`
pub(crate) fn braces(span: Span, text: &str, range: &Range<usize>, name: &str) -> Error {
    let problem = format!("`{{{name}}}` is literal text here, the same for every call");
    let help = format!("write `<{name}>` for the value of the argument; braces are Redis Cluster hash tags");
    in_template(span, text, range, problem, help)
}

/// A constant part that is longer than any key may be.
pub(crate) fn key_too_long(span: Span, length: usize) -> Error {
    error(span, format!("the key is {length} bytes long; at most 1024 are allowed"), "shorten it")
}

/// An error with the template and a line of carets.
fn in_template(
    span: Span,
    text: &str,
    range: &Range<usize>,
    problem: impl Display,
    help: impl Display,
) -> Error {
    let shown = |text: &str| text.chars().map(|c| if c.is_control() { '·' } else { c }).collect::<String>();
    let before = text[..range.start].chars().count();
    let carets = "^".repeat(text[range.clone()].chars().count().max(1));
    let text = shown(text);
    Error::new(span, format!("{problem}\n\n    {text}\n    {:before$}{carets}\n\nhelp: {help}", ""))
}

// The function.

/// On a struct, a module, an impl block.
pub(crate) fn not_a_function(keyword: &Ident) -> Error {
    let help = match keyword.to_string().as_str() {
        "impl" | "trait" | "mod" => "put it on each function inside that needs the lock",
        "let" => "put it on a function; for a block use `manager.lock(key).run(async |held| { .. })`",
        _ => "put it on a function",
    };
    error(keyword.span(), format!("`#[distributed_lock]` locks functions, not `{keyword}` items"), help)
}

/// On a trait method without default body.
pub(crate) fn no_body(name: &Ident) -> Error {
    let problem = format!("`{name}` has no body to lock");
    error(
        name.span(),
        problem,
        "put `#[distributed_lock]` on the function in each `impl`, or give it a default body",
    )
}

/// On a `const fn`.
pub(crate) fn const_fn(span: Span) -> Error {
    error(span, "a `const fn` cannot take a lock", "leave `const` out")
}

/// On an `extern "C" fn`.
pub(crate) fn foreign_abi(span: Span) -> Error {
    error(
        span,
        "a function with a foreign calling convention cannot report that a lock is busy",
        "put the body into a Rust function, annotate that one, and call it from here",
    )
}

/// On a variadic function.
pub(crate) fn variadic(span: Span) -> Error {
    error(
        span,
        "a variadic function cannot be locked",
        "put the body into a Rust function, annotate that one, and call it from here",
    )
}

/// On `fn f() -> !`.
pub(crate) fn never_returns(ty: &Type) -> Error {
    error_on(
        ty,
        "a function that returns `!` has no way to say that the lock is busy or lost",
        "return `Result<std::convert::Infallible, distlock::LockError>`",
    )
}

/// Below `#[tokio::test]` or `#[tokio::main]`.
pub(crate) fn below_runtime_attribute(name: &Ident, attribute: &str) -> Error {
    let problem =
        format!("`#[distributed_lock]` below `{attribute}` sees a function that is no longer async");
    error(name.span(), problem, format!("place `#[distributed_lock(..)]` above `{attribute}`"))
}

/// On `fn f() -> impl Stream`.
pub(crate) fn returns_stream(ty: &Type) -> Error {
    error_on(
        ty,
        "a function that returns a stream ends before the stream is read, and so would the lock",
        "hold a guard inside the stream: `let guard = manager.lock(key).acquire().await?`",
    )
}

/// On `fn call(&mut self) -> Self::Future`.
pub(crate) fn unnameable_future(ty: &Type) -> Error {
    let name = ty.to_token_stream().to_string().replace(' ', "");
    error_on(
        ty,
        format!("the future `{name}` cannot be wrapped: its type and its output are not visible here"),
        "annotate an `async fn` that does the work, and call it from here",
    )
}

/// A future-returning function that does not end in an `async` block.
pub(crate) fn unrecognised_future(ty: &Type) -> Error {
    error_on(
        ty,
        "this function returns a future, but does not end in an `async` block that could be locked",
        "make it an `async fn`, or end it with `Box::pin(async move { .. })`",
    )
}

/// No return type, and no `on_error`.
pub(crate) fn returns_nothing(name: &Ident, on_busy: bool) -> Error {
    let problem = if on_busy {
        format!(
            "`on_busy` covers a busy lock only, and `{name}` returns nothing that could carry other lock errors"
        )
    } else {
        format!("`{name}` returns nothing that could carry a lock error")
    };
    error(
        name.span(),
        problem,
        "return `Result<(), distlock::LockError>`, or handle every error with `on_error = |error| ..`",
    )
}

/// `map_err` on a function without return type.
pub(crate) fn map_err_without_result(name: &Ident) -> Error {
    error(
        name.span(),
        "`map_err` makes the error of a `Result`, and the function returns nothing",
        "return a `Result`, or use `on_error = |error| ..`",
    )
}

/// `on_lost = "cancel"` on a synchronous function.
pub(crate) fn cannot_cancel(value: &Expr) -> Error {
    error_on(
        value,
        "`on_lost = \"cancel\"` on a function that is not async: a running thread cannot be stopped",
        "write `on_lost = \"error\"`, which turns `Ok` into `LockError::Lost`, or make the function async",
    )
}

/// `on_lost = "error"` on an async function.
pub(crate) fn cancels_already(value: &Expr) -> Error {
    error_on(
        value,
        "`on_lost = \"error\"` on an async function: its body is dropped when the lock is lost",
        "write `on_lost = \"cancel\"`, or leave it out",
    )
}

// `key!`.

/// `key!()`
pub(crate) fn key_macro_without_template(span: Span) -> Error {
    error(span, "`key!` needs a template", "write `key!(\"order:<id>\", id = order.id)`")
}

/// `key!("<a>", a = 1, a = 2)`
pub(crate) fn duplicate_value(name: &Ident) -> Error {
    error(name.span(), format!("value `{name}` given twice"), "keep one of the two")
}

/// `key!("a", b = 1)`
pub(crate) fn unused_value(name: &Ident) -> Error {
    error(
        name.span(),
        format!("`{name}` is not used in the template"),
        format!("write `<{name}>` in it, or leave it out"),
    )
}

/// `key!("<a>", 1)`
pub(crate) fn key_macro_argument(span: Span) -> Error {
    error(span, "values are named", "write `name = value`, as in `key!(\"order:<id>\", id = order.id)`")
}

// Words.

fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn alternatives(words: &[&str]) -> String {
    words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(" or ")
}

/// The candidate that was probably meant: not more than every third letter differs.
fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            *distance <= (candidate.chars().count().max(word.chars().count()) / 3)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_is_not() {
        let names = ["user_id", "order_id", "self"];
        assert_eq!(nearest("usr_id", names.into_iter()), Some("user_id"));
        assert_eq!(nearest("userid", names.into_iter()), Some("user_id"));
        assert_eq!(nearest("basket", names.into_iter()), None);
        assert_eq!(nearest("tll", OPTIONS.into_iter()), Some("ttl"));
        assert_eq!(nearest("timeout", OPTIONS.into_iter()), None);
    }

    #[test]
    fn the_caret_stands_below_the_mistake() {
        let error = in_template(Span::call_site(), "é:<x>", &(3..6), "problem", "help");
        assert_eq!(error.to_string(), "problem\n\n    é:<x>\n      ^^^\n\nhelp: help");
    }

    #[test]
    fn names_from_other_libraries_lead_to_options() {
        for name in ["timeout", "lease", "watchdog", "fence", "condition", "permits", "attempts"] {
            assert!(elsewhere(name).is_some_and(|option| OPTIONS.contains(&option)), "{name}");
        }
    }

    #[test]
    fn every_option_has_an_example_that_starts_with_its_name() {
        for option in OPTIONS {
            assert!(example(option).starts_with(&format!("{option} = ")), "{option}");
        }
    }
}
