//! The body, with everything that it is given.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Attribute, Expr, FnArg};

use super::Expansion;
use super::tokens::{located_at, reference};
use crate::item::{Argument, Leaf, Mention, Rebinding, Shape, conditions, leaves};
use crate::spec::{Amount, Transaction, member};

impl Expansion<'_> {
    /// The body as a future. `given`: statements before everything else.
    pub(super) fn future(&self, given: &TokenStream) -> TokenStream {
        let (edge, body) = (self.return_edge(), self.body());
        let (place, block) = self.as_written(&quote!(#edge #given #body));
        quote_spanned!(place=> async move #block)
    }

    /// The future that begins the transaction and runs the body in it. Its value is the body's with the transaction,
    /// which is committed outside: a lease that is lost during the commit does not interrupt it.
    pub(super) fn in_transaction(&self, transaction: &Transaction) -> TokenStream {
        let private = &self.private;
        let Transaction { name, database, once, once_of, once_outcome } = transaction;
        // An error about a value that is not a database is reported at this place.
        let place = Span::mixed_site().located_at(database.span());
        let located = located_at(private.clone(), database.span());
        let (begin, begin_once) = (Ident::new("begin", place), Ident::new("begin_once", place));
        let database = reference(database);
        let begun = match once {
            None => quote_spanned! {Span::mixed_site()=>
                let mut __distlock_open = match #located::database(#database).#begin(__distlock_held).await {
                    #private::Ok(__distlock_open) => __distlock_open,
                    #private::Err(__distlock_error) => return #private::Err(__distlock_error),
                };
                let __distlock_transaction = &mut *__distlock_open;
            },
            Some(keep) => {
                let request = self.once(keep, once_of.as_ref());
                let outcome = once_outcome
                    .as_ref()
                    .map(|place| quote_spanned!(Span::mixed_site()=> *#place = __distlock_run.outcome();));
                quote_spanned! {Span::mixed_site()=>
                    let __distlock_once = #request;
                    let __distlock_run = match
                        #located::database(#database).#begin_once(__distlock_held, __distlock_once).await
                    {
                        #private::Ok(__distlock_run) => __distlock_run,
                        #private::Err(__distlock_error) => return #private::Err(__distlock_error),
                    };
                    #outcome
                    let mut __distlock_open = match __distlock_run {
                        #private::Run::First(__distlock_open) => __distlock_open,
                        #private::Run::Replay(__distlock_value) => {
                            return #private::Ok(#private::Ended::Replay(
                                #private::ReturnsResult::from_result(#private::Ok(__distlock_value)),
                            ));
                        }
                    };
                    let __distlock_transaction = __distlock_open.transaction();
                }
            }
        };
        let given = quote_spanned!(Span::mixed_site()=> let #name = __distlock_transaction;);
        let body = self.future(&given);
        let captures = self.captures();
        quote_spanned! {Span::mixed_site()=>
            async move {
                #captures
                #begun
                let __distlock_value = #body.await;
                #private::Ok(#private::Ended::Run(__distlock_open, __distlock_value))
            }
        }
    }

    /// How long the result is kept, and of which function and arguments it is: another function with the same key must
    /// not return it.
    fn once(&self, keep: &Amount, arguments: Option<&Expr>) -> TokenStream {
        let (private, keep, path) = (&self.private, self.amount(keep), self.path());
        let request = match arguments.map(reference) {
            None => path,
            Some(arguments) => quote_spanned!(Span::mixed_site()=> &(#path, #arguments)),
        };
        quote_spanned!(Span::mixed_site()=> #private::Once::new(#keep).arguments(#request))
    }

    /// The closure that runs the body in a transaction on this thread, and commits. The body borrows what the database
    /// is borrowed from.
    pub(super) fn in_blocking_transaction(&self, transaction: &Transaction) -> TokenStream {
        let private = &self.private;
        let Transaction { name, database, once, once_of, once_outcome } = transaction;
        let (located, on_lost) = (located_at(private.clone(), database.span()), self.on_lost());
        let (database, captures) = (reference(database), self.captures());
        let given = quote_spanned!(Span::mixed_site()=> __distlock_transaction);
        // Without the captures, which the closure around it has made: each field is borrowed for itself.
        let body = self.bare_body();
        let body = self.returning(
            |place| quote_spanned!(place=> |#given|),
            &quote_spanned! {Span::mixed_site()=>
                let #name = #given;
                #body
            },
        );
        let run = match once {
            None => quote_spanned! {Span::mixed_site()=>
                #located::transaction_blocking(#database, __distlock_held, #private::OnLost::#on_lost, #body)
            },
            Some(keep) => {
                let request = self.once(keep, once_of.as_ref());
                let outcome = once_outcome.as_ref().map(|place| {
                    quote_spanned! {Span::mixed_site()=>
                        if let #private::Some(__distlock_outcome) = __distlock_outcome {
                            *#place = __distlock_outcome;
                        }
                    }
                });
                let bound = match once_outcome {
                    Some(_) => quote_spanned!(Span::mixed_site()=> __distlock_outcome),
                    None => quote_spanned!(Span::mixed_site()=> _),
                };
                quote_spanned! {Span::mixed_site()=>
                    let (__distlock_result, #bound) = #located::once_blocking(
                        #database,
                        __distlock_held,
                        #private::OnLost::#on_lost,
                        &#request,
                        #body,
                    );
                    #outcome
                    __distlock_result
                }
            }
        };
        quote_spanned! {Span::mixed_site()=>
            move || {
                #captures
                #run
            }
        }
    }

    /// The body as a closure.
    pub(super) fn closure(&self) -> TokenStream {
        self.returning(|place| quote_spanned!(place=> move ||), &self.body())
    }

    /// A closure with the return type of the function. `start`: its parameters, at the place of the body.
    fn returning(&self, start: impl FnOnce(Span) -> TokenStream, body: &TokenStream) -> TokenStream {
        let returns = self.returns.as_ref().map(|ty| quote_spanned!(Span::mixed_site()=> -> #ty));
        let (place, block) = self.as_written(body);
        let start = start(place);
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

    /// The content of the body's future or closure.
    fn body(&self) -> TokenStream {
        let (captures, body) = (self.captures(), self.bare_body());
        quote!(#captures #body)
    }

    /// The same without the arguments that the body does not mention.
    fn bare_body(&self) -> TokenStream {
        let Expansion { private, spec, .. } = self;
        let rebindings = self.rebindings();
        let krate = &spec.krate;
        let guard = spec.options.guard.as_ref().map(
            |name| quote_spanned!(Span::mixed_site()=> let #name: &#krate::Held = #private::guard(__distlock_held);),
        );
        let token = spec.options.token.as_ref().map(|name| {
            quote_spanned!(Span::mixed_site()=> let #name: #krate::FencingToken = #private::token(__distlock_held);)
        });
        let fence = spec.options.fence.as_ref().map(|name| {
            quote_spanned!(Span::mixed_site()=> let #name: #krate::fence::Fence = #private::fence(__distlock_held);)
        });
        let body = match &self.function.shape {
            Shape::Future(future) => {
                let rest = &future.rest;
                quote!(#(#rest)*)
            }
            Shape::Sync | Shape::Async => self.function.body.stream(),
        };
        // The edition of the braces decides when temporary values at their end drop. Without the parentheses, the
        // compiler may call the braces unnecessary.
        let (_, block) = self.as_written(&body);
        quote_spanned! {Span::mixed_site()=>
            #rebindings
            #guard
            #token
            #fence
            (#block)
        }
    }

    /// Moves every argument into the body, as a whole. Captured variables drop in the order in which they are first
    /// mentioned, and parameters in the reverse order of their declaration. An argument that is never mentioned is
    /// bound once more in code that does not run, so that the compiler reports it as it would without the attribute.
    fn captures(&self) -> TokenStream {
        let is_future = matches!(self.function.shape, Shape::Future(_));
        let receiver = match self.function.sig.inputs.first() {
            Some(FnArg::Receiver(receiver)) if !is_future => {
                Some(Ident::new("self", receiver.self_token.span))
            }
            _ => None,
        };
        let mut captures = TokenStream::new();
        let mut together: Vec<TokenStream> = Vec::new();
        let capture = |together: &mut Vec<TokenStream>, attrs: &[Attribute], captures: &mut TokenStream| {
            if !together.is_empty() {
                // Only where it is needed: a lint that is forbidden cannot be allowed.
                let is_underscored = |tokens: &TokenStream| tokens.to_string().starts_with('_');
                let allow = together
                    .iter()
                    .any(is_underscored)
                    .then(|| quote_spanned!(Span::mixed_site()=> #[allow(clippy::used_underscore_binding)]));
                captures.extend(
                    quote_spanned!(Span::mixed_site()=> #(#attrs)* #allow let _ = (#(&#together,)*);),
                );
            }
            together.clear();
        };
        for Argument { ident, attrs, mention } in self.function.arguments.iter().rev() {
            match mention {
                // An option has moved this argument already.
                _ if self.spec.keys.moves(ident) => {}
                Mention::Somewhere if attrs.is_empty() => together.push(ident.to_token_stream()),
                Mention::Somewhere => {
                    capture(&mut together, &[], &mut captures);
                    together.push(ident.to_token_stream());
                    capture(&mut together, attrs, &mut captures);
                }
                // Bound by separate statements.
                Mention::Nowhere if is_future => {}
                Mention::Nowhere => {
                    capture(&mut together, &[], &mut captures);
                    let conditions = conditions(attrs);
                    captures.extend(quote_spanned! {Span::mixed_site()=>
                        #(#conditions)*
                        if false {
                            #(#attrs)*
                            let #ident = &#ident;
                        }
                    });
                }
            }
        }
        if is_future {
            together.extend(self.used_arguments());
        }
        together.extend(receiver.map(|receiver| receiver.to_token_stream()));
        capture(&mut together, &[], &mut captures);
        captures
    }

    /// The arguments that the options of a function that returns a future use, or the parts of them. The statements in
    /// front of its block may have moved the rest.
    fn used_arguments(&self) -> Vec<TokenStream> {
        let Expansion { function, spec, .. } = self;
        let arguments = function.bindings.iter().rev().filter(|binding| binding.moves);
        let arguments = arguments.map(|binding| &binding.ident).chain(&function.receiver);
        // Those that `#[async_trait]` has moved are captured as a whole.
        let is_captured =
            |argument: &Ident| function.arguments.iter().any(|captured| captured.ident == *argument);
        let mut used = Vec::new();
        for argument in arguments.filter(|argument| !is_captured(argument) && !spec.keys.moves(argument)) {
            for place in spec.used.iter().filter(|place| argument.unraw() == place.root.as_str()) {
                let fields = place.fields.iter().map(|field| member(field, Span::mixed_site()));
                used.push(quote_spanned!(Span::mixed_site()=> #argument #(.#fields)*));
            }
        }
        used
    }

    /// The values that the patterns of parameters do not bind drop in the body, after the parameters that are declared
    /// later.
    fn rebindings(&self) -> TokenStream {
        let rebindings = self.function.rebindings.iter();
        let rebindings = rebindings.filter(|rebinding| !self.spec.keys.moves(&rebinding.ident));
        let rebindings = rebindings.map(|Rebinding { ident, pat, mutability, attrs }| {
            let taken_apart =
                pat.as_ref().map(|pat| quote_spanned!(Span::mixed_site()=> #(#attrs)* let #pat = #ident;));
            quote_spanned!(Span::mixed_site()=> #(#attrs)* let #mutability #ident = #ident; #taken_apart)
        });
        quote!(#(#rebindings)*)
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
        let checks = types.iter().map(|Leaf { ty, place }| {
            let asked = quote_spanned!(Span::mixed_site()=> #private::TypeOf::<#ty>::new());
            finished(asked, place.span())
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

/// Asks whether a type, or what it contains, is a future or a stream; reported at `place`.
pub(super) fn finished(asked: TokenStream, place: Span) -> TokenStream {
    let place = Span::mixed_site().located_at(place);
    let (no_future, no_stream) = (Ident::new("no_future", place), Ident::new("no_stream", place));
    let elements = ["first_element", "second_element", "third_element", "fourth_element"].map(|name| {
        let element = Ident::new(name, Span::mixed_site());
        quote_spanned!(Span::mixed_site()=> let _ = __distlock_asked.#element().inside().#no_future().#no_stream();)
    });
    quote_spanned! {Span::mixed_site()=>
        let __distlock_asked = #asked.inside().inside().inside().#no_future().#no_stream();
        #(#elements)*
    }
}
