//! The form of the options.

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt as _;
use syn::{Error, Lit};

use super::error;
use super::words::nearest;
use crate::options::Opt;

/// `#[distributed_lock("order:<id>")]`
pub(crate) fn positional(span: Span, literal: Option<&Lit>) -> Error {
    let (key, ttl) = (Opt::Key, Opt::Ttl);
    let help = match literal {
        Some(Lit::Str(literal)) => format!("write `{key} = {}`", literal.token()),
        _ => format!("options are written `option = value`, as in `{}, {}`", key.example(), ttl.example()),
    };
    error(span, "an option needs a name", help)
}

/// `transaction = pool`
pub(crate) fn no_variable_in(span: Span, option: Opt) -> Error {
    let problem = format!("`{option}` names a variable and a pool of connections");
    error(span, problem, format!("write `{}`", option.example()))
}

/// `ttl` without `= ".."`
pub(crate) fn no_value(span: Span, option: Opt) -> Error {
    let problem = format!("option `{option}` without a value");
    error(span, problem, format!("write `{}`", option.example()))
}

/// `ttl: "10s"`, `ttl("10s")`
pub(crate) fn no_equals_sign(span: Span, option: Opt) -> Error {
    let problem = format!("no `=` after option `{option}`");
    error(span, problem, format!("write `{}`", option.example()))
}

/// `ttl = ;`
pub(crate) fn not_a_value(option: Opt, cause: &Error) -> Error {
    let problem = format!("the value of `{option}` is not an expression: {cause}");
    error(cause.span(), problem, format!("write `{}`", option.example()))
}

/// `tll = "10s"`
pub(crate) fn unknown_option(name: &Ident) -> Error {
    let written = name.to_string();
    let elsewhere = Opt::called_elsewhere(&written).map(Opt::name);
    let help = match elsewhere.or_else(|| nearest(&written, Opt::names())) {
        _ if ["prefix", "key_prefix", "namespace"].contains(&written.as_str()) => {
            "all locks of a manager have one prefix: `LockManager::builder().key_prefix(..)`".to_owned()
        }
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the options are\n{}", Opt::overview()),
    };
    error(name.span(), format!("unknown option `{name}`"), help)
}

/// `key = "order:{}", user_id`
pub(crate) fn argument_as_option(name: &Ident, template: Option<&str>) -> Error {
    let placeholder = format!("<{}>", name.unraw());
    let key = match template {
        Some(text) if !text.contains('<') => format!("{text}:{placeholder}"),
        _ => format!("order:{placeholder}"),
    };
    let problem = format!("`{name}` is an argument of the function, not an option");
    error(name.span(), problem, format!("name it inside the template: `{} = {key:?}`", Opt::Key))
}

/// `ttl = "10s", ttl = "20s"`
pub(crate) fn duplicate(span: Span, option: Opt) -> Error {
    error(span, format!("option `{option}` given twice"), "keep one of the two")
}

/// `key = "a" ttl = "10s"`
pub(crate) fn missing_comma(span: Span) -> Error {
    error(span, "missing comma before this option", "write `,` between two options")
}

/// `key = "a" "b"`
pub(crate) fn unexpected_after_value(span: Span) -> Error {
    error(span, "unexpected token after the value of an option", "write `,` between two options")
}
