//! The reasons not to annotate an item.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::{Attribute, ReturnType, Signature, Type};

use super::contains_ident;
use crate::diag::{self, Errors};

/// The message for an item that is not a function.
pub(super) fn not_a_function(item: &TokenStream) -> Option<syn::Error> {
    let mut tokens = item.clone().into_iter();
    while let Some(token) = tokens.next() {
        match token {
            // Outer attributes and `pub(..)`.
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                tokens.next();
            }
            TokenTree::Group(group) if group.delimiter() != Delimiter::None => {}
            TokenTree::Ident(ident) => match ident.to_string().as_str() {
                "pub" | "unsafe" | "default" | "auto" => {}
                "struct" | "enum" | "union" | "type" | "mod" | "trait" | "impl" | "static" | "use"
                | "const" | "macro_rules" | "let" => return Some(diag::not_a_function(&ident)),
                _ => return None,
            },
            _ => return None,
        }
    }
    None
}

/// The reasons to refuse a signature.
pub(super) fn check_signature(sig: &Signature, attrs: &[Attribute], body: &Group, errors: &mut Errors) {
    if let Some(constness) = &sig.constness {
        errors.push(diag::const_fn(constness.span));
    }
    if let Some(variadic) = &sig.variadic {
        errors.push(diag::variadic(variadic.dots.spans[0]));
    } else if let Some(abi) = &sig.abi
        && abi.name.as_ref().is_none_or(|name| name.value() != "Rust")
    {
        errors.push(diag::foreign_abi(abi.extern_token.span));
    }
    if let ReturnType::Type(_, ty) = &sig.output
        && matches!(&**ty, Type::Never(_))
    {
        errors.push(diag::never_returns(ty));
    }
    if sig.asyncness.is_none()
        && let Some(name) = runtime_attribute(attrs, body)
    {
        errors.push(diag::below_runtime_attribute(&sig.ident, name));
    }
}

/// `#[tokio::test]` and `#[tokio::main]` turn the function into a synchronous one that blocks on its body.
fn runtime_attribute(attrs: &[Attribute], body: &Group) -> Option<&'static str> {
    let mut tokens = body.stream().into_iter();
    let starts = ["let", "body", "=", "async"].iter().all(|wanted| {
        tokens.next().is_some_and(|token| match &token {
            TokenTree::Ident(ident) => ident == wanted,
            TokenTree::Punct(punct) => *wanted == "=" && punct.as_char() == '=',
            _ => false,
        })
    });
    if !starts || !contains_ident(body.stream(), &|ident| ident == "block_on") {
        return None;
    }
    let test = attrs.iter().any(|attr| attr.path().segments.last().is_some_and(|last| last.ident == "test"));
    Some(if test { "#[tokio::test]" } else { "#[tokio::main]" })
}
