//! The values of single options.

use proc_macro2::Ident;
use quote::ToTokens as _;
use syn::{Expr, ExprLit, Lit};

use super::{Amount, Wait, is_literal, string, unwrapped};
use crate::args::Given;
use crate::diag::{self, Errors};
use crate::duration;
use crate::options::Opt;

/// A duration. A literal is checked here, and an expression is checked at run time.
pub(super) fn amount(given: &Given, errors: &mut Errors) -> Option<Amount> {
    let value = unwrapped(&given.value);
    if let Some(text) = string(value) {
        let text = text.value();
        let error = match duration::parse(&text) {
            Ok(0) if given.option != Opt::Wait => diag::zero(given.option, value),
            Ok(millis) if given.option == Opt::Ttl && millis < duration::SHORTEST_TTL => {
                diag::too_short(given.option, value, &text)
            }
            Ok(millis) => return Some(Amount::Millis(millis)),
            Err(kind) => diag::duration(given.option, value, &text, &kind),
        };
        errors.push(error);
        return None;
    }
    match value {
        Expr::Lit(literal) => {
            errors.push(match &literal.lit {
                Lit::Int(int) => {
                    diag::duration_number(given.option, value, int.base10_digits(), int.suffix())
                }
                Lit::Float(float) => {
                    let text = format!("{}{}", float.base10_digits(), float.suffix());
                    let kind = duration::parse(&text).err().unwrap_or(duration::DurationError::NotANumber);
                    diag::duration(given.option, value, &text, &kind)
                }
                _ => diag::wrong_kind(given.option, value, "a duration"),
            });
            None
        }
        Expr::Unary(unary) if is_literal(value) => {
            let text = format!("-{}", unary.expr.to_token_stream());
            errors.push(diag::duration(given.option, value, &text, &duration::DurationError::Negative));
            None
        }
        value => Some(Amount::Expr(value.clone())),
    }
}

/// `wait = ..`
pub(super) fn wait(given: &Given, errors: &mut Errors) -> Wait {
    if string(&given.value).is_some_and(|text| text.value().trim() == "forever") {
        return Wait::Forever;
    }
    match amount(given, errors) {
        None => Wait::Default,
        Some(Amount::Millis(0)) => Wait::No,
        Some(amount) => Wait::For(amount),
    }
}

/// `linger = ..`
pub(super) fn linger(given: &Given, errors: &mut Errors) -> Option<Amount> {
    match amount(given, errors) {
        Some(Amount::Millis(millis)) if millis > duration::LONGEST_LINGER => {
            errors.push(diag::linger_too_long(&given.value));
            None
        }
        amount => amount,
    }
}

/// `retries = ..`, `max_holders = ..`
pub(super) fn count(given: &Given, errors: &mut Errors) -> Option<Expr> {
    let value = unwrapped(&given.value);
    if !is_literal(value) {
        return Some(value.clone());
    }
    let number = match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(int) if matches!(int.suffix(), "" | "u32") => int.base10_parse::<u32>().ok(),
            _ => None,
        },
        _ => None,
    };
    match number {
        Some(0) => errors.push(diag::zero(given.option, value)),
        Some(_) => return Some(value.clone()),
        None => errors.push(diag::count(given.option, value)),
    }
    None
}

/// `renew = ..`, `reentrant = ..`
pub(super) fn boolean(given: &Given, errors: &mut Errors) -> Option<bool> {
    let value = unwrapped(&given.value);
    if let Expr::Lit(ExprLit { lit: Lit::Bool(literal), .. }) = value {
        return Some(literal.value);
    }
    errors.push(diag::wrong_kind(given.option, value, "`true` or `false`"));
    None
}

/// One of some words.
pub(super) fn word(given: &Given, words: &[&'static str], errors: &mut Errors) -> Option<&'static str> {
    let Some(text) = string(&given.value) else {
        let wanted = words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(" or ");
        errors.push(diag::wrong_kind(given.option, &given.value, &wanted));
        return None;
    };
    let text = text.value();
    let found = words.iter().copied().find(|word| *word == text);
    if found.is_none() {
        errors.push(diag::unknown_word(given.option, &given.value, &text, words));
    }
    found
}

/// `guard = ..`, `token = ..`
pub(super) fn variable(given: &Given, errors: &mut Errors) -> Option<Ident> {
    let ident = match unwrapped(&given.value) {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident().cloned(),
        _ => None,
    };
    let ident =
        ident.filter(|ident| !["self", "Self", "super", "crate"].iter().any(|keyword| ident == keyword));
    if ident.is_none() {
        errors.push(diag::not_a_name(given.option, &given.value));
    }
    ident
}
