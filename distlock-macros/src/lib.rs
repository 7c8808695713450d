//! The `#[distributed_lock]` attribute and the `key!` macro of the `distlock` crate, which re-exports and
//! documents both. This crate is an implementation detail: depend on `distlock`.
//!
//! An attribute goes through three steps. `args` and `item` read what was written; `spec` checks it and
//! resolves the names in key templates (`template`, `duration` are its pure parts); `expand` writes the
//! locked function and cannot fail. What is known about each option is in `options`, every message in `diag`.

use proc_macro2::TokenStream;
use quote::ToTokens as _;

mod args;
mod diag;
mod duration;
mod expand;
mod item;
mod key;
mod options;
mod spec;
mod template;

use crate::args::RawArgs;
use crate::diag::Errors;
use crate::item::Function;

#[allow(missing_docs, reason = "documented where `distlock` re-exports it")]
#[proc_macro_attribute]
pub fn distributed_lock(
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    attribute(args.into(), item.into()).into()
}

#[allow(missing_docs, reason = "documented where `distlock` re-exports it")]
#[proc_macro]
pub fn key(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    key::expand(input.into()).into()
}

/// Parse, validate, expand.
fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let mut args = RawArgs::parse(args, &mut errors);
    let Some(mut function) = Function::parse(&item, &mut errors) else {
        args.stray().iter().for_each(|name| errors.push(diag::unknown_option(name)));
        let mut tokens = item;
        tokens.extend(errors.into_error().map(syn::Error::into_compile_error));
        return tokens;
    };
    if let Some(receiver) = &function.receiver {
        args.rename_self(receiver);
    }
    function.find_arguments(args.iter().map(|given| given.value.to_token_stream()));
    let spec = spec::validate(&args, &function, &mut errors);
    match (errors.into_error(), spec) {
        (None, Some(spec)) => expand::expand(&function, &spec),
        (error, _) => {
            // The function is emitted all the same, so that nothing that calls it is reported too.
            let krate = spec::krate(&args, &mut Errors::default());
            let (guard, token) = spec::variables(&args);
            let mut tokens = expand::unlocked(&function, &krate, guard.as_ref(), token.as_ref());
            tokens.extend(error.map(syn::Error::into_compile_error));
            tokens
        }
    }
}

#[cfg(test)]
mod tests;
