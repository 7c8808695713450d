//! The body, with everything that it is given.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::FnArg;
use syn::spanned::Spanned as _;

use super::Expansion;
use super::tokens::located_at;
use crate::item::{Argument, Mention, Shape, leaves};

impl Expansion<'_> {
    /// The body as a future. `given`: statements before everything else.
    pub(super) fn future(&self, given: &TokenStream) -> TokenStream {
        let (edge, body) = (self.return_edge(), self.body());
        let (place, block) = self.as_written(&quote!(#edge #given #body));
        quote_spanned!(place=> async move #block)
    }

    /// The body as a closure.
    pub(super) fn closure(&self) -> TokenStream {
        let returns = self.returns.as_ref().map(|ty| quote_spanned!(Span::mixed_site()=> -> #ty));
        let (place, block) = self.as_written(&self.body());
        let start = quote_spanned!(place=> move ||);
        quote!(#start #returns #block)
    }

    /// Braces that the user has written, as far as the compiler can see: it does not name a variable that is moved out
    /// of a block that an attribute has written.
    fn as_written(&self, body: &TokenStream) -> (Span, TokenTree) {
        let place = self.function.body.span();
        let mut block = Group::new(Delimiter::Brace, body.clone());
        block.set_span(place);
        (place, TokenTree::Group(block))
    }

    /// What the body's future or closure contains.
    pub(super) fn body(&self) -> TokenStream {
        let Expansion { private, spec, .. } = self;
        let captures = self.captures();
        let krate = &spec.krate;
        let guard = spec.options.guard.as_ref().map(
            |name| quote_spanned!(Span::mixed_site()=> let #name: &#krate::Held = #private::guard(held);),
        );
        let token = spec.options.token.as_ref().map(|name| {
            quote_spanned!(Span::mixed_site()=> let #name: #krate::FencingToken = #private::token(held);)
        });
        let body = match &self.function.shape {
            Shape::Future(future) => {
                let rest = &future.rest;
                quote!(#(#rest)*)
            }
            Shape::Sync | Shape::Async => self.function.body.stream(),
        };
        // Braces of ours, at the place of the user's: lints about braces keep silent.
        let mut block = Group::new(Delimiter::Brace, body);
        block.set_span(Span::mixed_site().located_at(self.function.body.span()));
        let block = TokenTree::Group(block);
        quote_spanned! {Span::mixed_site()=>
            #captures
            #guard
            #token
            #block
        }
    }

    /// Moves every argument that is mentioned into the body, as a whole.
    fn captures(&self) -> TokenStream {
        let receiver = match self.function.sig.inputs.first() {
            Some(FnArg::Receiver(receiver)) if !matches!(self.function.shape, Shape::Future(_)) => {
                Some(Ident::new("self", receiver.self_token.span))
            }
            _ => None,
        };
        let (always, sometimes): (Vec<&Argument>, Vec<&Argument>) =
            self.arguments(Mention::Somewhere).partition(|argument| argument.attrs.is_empty());
        let always: Vec<_> = receiver.iter().chain(always.iter().map(|argument| &argument.ident)).collect();
        let always = (!always.is_empty()).then(|| {
            quote_spanned! {Span::mixed_site()=>
                #[allow(clippy::used_underscore_binding)]
                let _ = (#(&#always,)*);
            }
        });
        let sometimes = sometimes.iter().map(|Argument { ident, attrs, .. }| {
            quote_spanned! {Span::mixed_site()=>
                #(#attrs)*
                #[allow(clippy::used_underscore_binding)]
                let _ = (&#ident,);
            }
        });
        quote!(#always #(#sometimes)*)
    }

    /// Binds every argument that is mentioned nowhere once more, where it drops before the release: the compiler
    /// reports it as it would without the attribute.
    pub(super) fn rebound(&self) -> TokenStream {
        if matches!(self.function.shape, Shape::Future(_)) {
            // They are bound by statements of their own.
            return TokenStream::new();
        }
        let rebound = self.arguments(Mention::Nowhere).map(|Argument { ident, attrs, .. }| {
            quote_spanned!(Span::mixed_site()=> #(#attrs)* let #ident = #ident;)
        });
        quote!(#(#rebound)*)
    }

    fn arguments(&self, mention: Mention) -> impl Iterator<Item = &Argument> {
        self.function.arguments.iter().filter(move |argument| argument.mention == mention)
    }

    /// A dead `return` that tells an async block its type, as a signature would, for `?` and for coercions.
    pub(super) fn return_edge(&self) -> Option<TokenStream> {
        let returns = self.returns.as_ref()?;
        let place = self.function.output().map_or_else(Span::mixed_site, |ty| ty.span());
        let private = located_at(self.private.clone(), place);
        Some(quote_spanned! {Span::mixed_site().located_at(place)=>
            if false {
                return #private::placeholder::<#returns>();
            }
        })
    }

    /// Dead statements that refuse futures and streams behind other names in the return type.
    pub(super) fn checks(&self) -> Option<TokenStream> {
        let private = &self.private;
        let mut types = Vec::new();
        leaves(self.function.output()?, &mut types);
        let checks = types.iter().map(|ty| {
            let asked = quote_spanned!(Span::mixed_site()=> #private::TypeOf::<#ty>::new());
            finished(asked, ty.span())
        });
        (!types.is_empty()).then(|| {
            quote_spanned! {Span::mixed_site()=>
                if false {
                    use #private::AnyType as _;
                    #(#checks)*
                }
            }
        })
    }
}

/// Asks whether a type, or what is in its `Result` or `Option`, is a future or a stream; reported at `place`.
pub(super) fn finished(asked: TokenStream, place: Span) -> TokenStream {
    let place = Span::mixed_site().located_at(place);
    let (no_future, no_stream) = (Ident::new("no_future", place), Ident::new("no_stream", place));
    quote_spanned!(Span::mixed_site()=> let _ = #asked.result().option().#no_future().#no_stream();)
}
