//! `key!`.

use proc_macro2::{Ident, Span};
use syn::Error;

use super::error;

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
    error(span, "values are named", "write `value = expression`, as in `key!(\"order:<id>\", id = order.id)`")
}
