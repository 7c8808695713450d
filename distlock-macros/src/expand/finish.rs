//! From the body's value, or the lock's error, to the function's value.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::Type;
use syn::spanned::Spanned as _;

use super::Expansion;
use super::body::finished;
use super::tokens::located_at;
use crate::item::contains_ident;
use crate::spec::Route;

impl Expansion<'_> {
    /// Turns `result`, a `Result<R, LockError>`, into the function's value.
    pub(super) fn finish(&self, result: &TokenStream) -> TokenStream {
        let value = self.value(result);
        let Some(ty) = self.function.output().filter(|ty| is_opaque(ty)) else { return value };
        // The type behind `impl Trait` is known here.
        let private = &self.private;
        let check =
            finished(quote_spanned!(Span::mixed_site()=> #private::type_of(&__distlock_value)), ty.span());
        quote_spanned! {Span::mixed_site()=>
            let __distlock_value = #value;
            {
                use #private::AnyType as _;
                #check
            }
            __distlock_value
        }
    }

    fn value(&self, result: &TokenStream) -> TokenStream {
        let turbofish = self.turbofish();
        let place = self.function.output().map_or_else(Span::mixed_site, |ty| ty.span());
        let private = located_at(self.private.clone(), place);
        match &self.spec.options.route {
            Route::From if self.spec.options.on_busy.is_some() => {
                quote_spanned!(Span::mixed_site()=> #private::finish_unless_busy #turbofish (#result))
            }
            Route::From => {
                quote_spanned!(Span::mixed_site()=> #private::finish #turbofish (#result))
            }
            Route::MapErr(map) => {
                // Reported there, if it is no `Result`.
                let place = Span::mixed_site().located_at(place);
                quote_spanned!(place=> #private::finish_map_err #turbofish (#result, #map))
            }
            Route::OnError(on_error) => {
                quote_spanned!(Span::mixed_site()=> #private::finish_on_error #turbofish (#result, #on_error))
            }
        }
    }
}

fn is_opaque(ty: &Type) -> bool {
    contains_ident(ty.to_token_stream(), &|ident| ident == "impl")
}
