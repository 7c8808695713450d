//! The attribute's way from what was written to what is compiled.

use proc_macro2::TokenStream;

use crate::args::RawArgs;
use crate::diag::Errors;
use crate::item::Function;
use crate::{expand, spec};

/// Parse, validate, expand.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let mut args = RawArgs::parse(args, &mut errors);
    let Some(function) = Function::parse(&item, &mut errors) else {
        let mut tokens = item;
        tokens.extend(errors.into_error().map(syn::Error::into_compile_error));
        return tokens;
    };
    if let Some(receiver) = &function.receiver {
        args.rename_self(receiver);
    }
    let spec = spec::validate(&args, &function, &mut errors);
    match errors.into_error() {
        None => expand::expand(&function, &spec),
        Some(error) => {
            // The function is emitted all the same, so that nothing that calls it is reported too.
            let (guard, token) = spec::variables(&args);
            let mut tokens = expand::unlocked(&function, &spec.krate, guard.as_ref(), token.as_ref());
            tokens.extend(error.into_compile_error());
            tokens
        }
    }
}
