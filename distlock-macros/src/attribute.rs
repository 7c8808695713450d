//! The steps from the written attribute to the generated code.

use proc_macro2::TokenStream;
use quote::ToTokens as _;

use crate::args::RawArgs;
use crate::diag::{self, Errors};
use crate::item::Function;
use crate::{expand, spec};

/// Parse, validate, expand.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
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
            // The function is emitted nevertheless, so that the compiler does not report its callers, too.
            let krate = spec::krate(&args, &mut Errors::default());
            let mut tokens = expand::unlocked(&function, &krate, &spec::variables(&args, &function));
            tokens.extend(error.map(syn::Error::into_compile_error));
            tokens
        }
    }
}
