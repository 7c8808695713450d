//! The values of the options.

use proc_macro2::{Ident, Span};
use quote::ToTokens as _;
use syn::{Error, Expr};

use super::words::{alternatives, nearest};
use super::{error, error_on};
use crate::duration::{self, DurationError};
use crate::options::Opt;

/// Neither `key` nor `keys`.
pub(crate) fn missing_key(span: Span, first_argument: Option<&Ident>) -> Error {
    let key = Opt::Key;
    let help = match first_argument {
        Some(argument) => format!("name what is locked, as in `{key} = \"order:<{argument}>\"`"),
        None => format!("name what is locked, as in `{key} = \"nightly-report\"`"),
    };
    error(span, format!("missing `{key}`"), help)
}

/// `key` and `keys` together.
pub(crate) fn conflict(span: Span, option: Opt, other: Opt, why: &str, help: &str) -> Error {
    error(span, format!("`{option}` and `{other}` exclude each other: {why}"), help)
}

/// An option that has no meaning without another.
pub(crate) fn requires(span: Span, option: Opt, why: &str, help: &str) -> Error {
    error(span, format!("`{option}` has no effect here: {why}"), help)
}

/// A literal of the wrong kind.
pub(crate) fn wrong_kind(option: Opt, value: &Expr, wanted: &str) -> Error {
    let problem = format!("`{option}` takes {wanted}");
    error_on(value, problem, format!("write `{}`", option.example()))
}

/// `key = 5`
pub(crate) fn key_kind(option: Opt, value: &Expr) -> Error {
    let problem = format!("`{option}` takes a template or an expression that yields a key, not this literal");
    let (key, example) = (Opt::Key, Opt::Key.example());
    error_on(value, problem, format!("write `{example}`, or `{key} = some_function(&argument)`"))
}

/// `keys = []`
pub(crate) fn no_keys(value: &Expr) -> Error {
    error_on(value, format!("`{}` is empty", Opt::Keys), format!("write `{}`", Opt::Keys.example()))
}

/// `mode = "share"`
pub(crate) fn unknown_word(option: Opt, value: &Expr, word: &str, words: &[&str]) -> Error {
    let help = match nearest(word, words.iter().copied()) {
        Some(near) => format!("did you mean `{option} = \"{near}\"`?"),
        None => format!("`{option}` is {}", alternatives(words)),
    };
    error_on(value, format!("`{option}` cannot be `\"{word}\"`"), help)
}

/// `guard = 5`
pub(crate) fn not_a_name(option: Opt, value: &Expr) -> Error {
    let problem = format!("`{option}` takes the name of a variable for the body");
    error_on(value, problem, format!("write `{}`", option.example()))
}

/// `token = id`, where `id` is an argument.
pub(crate) fn hides_argument(option: Opt, name: &Ident) -> Error {
    error(
        name.span(),
        format!("the variable of `{option}` hides the argument `{name}` from the body"),
        "give one of the two another name",
    )
}

/// `guard = lock, token = lock`
pub(crate) fn same_variable(option: Opt, other: Opt, name: &Ident) -> Error {
    error(
        name.span(),
        format!("`{option}` and `{other}` give the body the same variable `{name}`"),
        "give one of the two another name",
    )
}

/// `crate = distlock`
pub(crate) fn relative_crate(value: &Expr) -> Error {
    let option = Opt::Crate;
    let path = value.to_token_stream().to_string().replace(' ', "");
    let help = if syn::parse_str::<syn::Path>(&path).is_ok() {
        format!("write `{option} = ::{path}`, or `{option} = crate::{path}` for a re-export of your own")
    } else {
        format!("write `{}`", option.example())
    };
    error_on(value, format!("`{option}` takes an absolute path"), help)
}

/// `ttl = 10`
pub(crate) fn duration_number(option: Opt, value: &Expr, digits: &str, suffix: &str) -> Error {
    let unit = if suffix.is_empty() { "s" } else { suffix };
    let problem =
        if suffix.is_empty() { "a duration needs a unit" } else { "a duration is written as a string" };
    error_on(
        value,
        format!("{problem}: `{option} = {digits}{suffix}`"),
        format!("write `{option} = \"{digits}{unit}\"`"),
    )
}

/// `ttl = "10 apples"`
pub(crate) fn duration(option: Opt, value: &Expr, text: &str, kind: &DurationError) -> Error {
    let units = "the units are `ms`, `s`, `m`, `h` and `d`";
    let rewrite = |text: &str| format!("write `{option} = \"{text}\"`");
    let (problem, help) = match kind {
        DurationError::Empty => ("empty duration".to_owned(), format!("write `{}`", option.example())),
        DurationError::NotANumber => (
            format!("`{text}` is not a duration"),
            format!("write a number and a unit, as in `{option} = \"10s\"`"),
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
        DurationError::Overflow => too_long(text),
    };
    error_on(value, problem, help)
}

fn too_long(text: &str) -> (String, String) {
    let longest = duration::in_largest_unit(duration::LONGEST);
    (format!("the duration `{text}` is too long"), format!("the longest is `\"{longest}\"`"))
}

/// `ttl = "5ms"`
pub(crate) fn too_short(option: Opt, value: &Expr, text: &str) -> Error {
    let shortest = duration::in_largest_unit(duration::SHORTEST_TTL);
    error_on(
        value,
        format!("`{option} = \"{text}\"` is too short: network and scheduling take longer"),
        format!("the shortest is `\"{shortest}\"`"),
    )
}

/// `linger = "1m"`
pub(crate) fn linger_too_long(value: &Expr) -> Error {
    let longest = duration::in_largest_unit(duration::LONGEST_LINGER);
    error_on(
        value,
        format!("`{}` is too long: others may have to wait for that time", Opt::Linger),
        format!("the longest is `\"{longest}\"`"),
    )
}

/// `ttl = "0s"`
pub(crate) fn zero(option: Opt, value: &Expr) -> Error {
    let example = option.example();
    let help = match option {
        Opt::Ttl => format!("write a lease time that covers a crash, as in `{example}`"),
        Opt::Retries => format!("for a single attempt write `{} = \"0s\"`", Opt::Wait),
        Opt::MaxHolders => format!("write how many may hold the key at once, as in `{example}`"),
        Opt::MaxHold | Opt::MinHold | Opt::Linger => format!("leave `{option}` out"),
        _ => format!("write `{example}`"),
    };
    error_on(value, format!("`{option}` is zero"), help)
}

/// `retries = -1`, `retries = 99999999999`
pub(crate) fn count(option: Opt, value: &Expr) -> Error {
    let problem = format!("`{option}` is a number between 1 and {}", u32::MAX);
    error_on(value, problem, format!("write `{}`", option.example()))
}

/// `max_hold = "1s", ttl = "10s"`
pub(crate) fn max_hold_below_ttl(value: &Expr) -> Error {
    let (max_hold, ttl, no_renewal) = (Opt::MaxHold, Opt::Ttl, Opt::Renew.example());
    error_on(
        value,
        format!("`{max_hold}` is shorter than `{ttl}`: the lease would never be renewed"),
        format!("shorten `{ttl}`, or write `{no_renewal}` instead of `{max_hold}`"),
    )
}

/// `min_hold = "1m", ttl = "10s", renew = false`
pub(crate) fn min_hold_above_ttl(value: &Expr) -> Error {
    let (min_hold, ttl, no_renewal) = (Opt::MinHold, Opt::Ttl, Opt::Renew.example());
    error_on(
        value,
        format!("`{min_hold}` is longer than `{ttl}`, and `{no_renewal}` lets the lease end with `{ttl}`"),
        format!("lengthen `{ttl}`, or leave `{no_renewal}` out"),
    )
}
