//! The expansion. It takes a validated spec and cannot fail.
//!
//! An `async fn f(a: A) -> R` becomes
//!
//! ```text
//! async fn f(a: A) -> R {
//!     let entered = enter(ask(key(..), label, current()).ttl(..).., on_lost);
//!     let body = async move { if false { return a value of R } let _ = (&a,); { body } };
//!     finish::<R>(section(entered, body).await)
//! }
//! ```
//!
//! The body is dropped before the lock is released, also when the future is dropped half-way or the body panics.
//! Where the body uses the lock, the lock's slot is declared before everything else, and the body borrows it. Every
//! argument is moved into the body by `let _ = (&b, &a)`, whether or not the body uses all of it, in the order in which
//! parameters drop.
//!
//! Every generated name has mixed-site hygiene, so that no name of the user can mean one of ours. That is not enough
//! for a name that a generated pattern binds: a static, a constant or a unit struct of that name would be found. So
//! such names begin with `__distlock_`, which the text above leaves out.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::visit_mut::VisitMut as _;
use syn::{Expr, FnArg, Type};

mod acquire;
mod body;
mod finish;
mod tokens;

use crate::item::{Function, MatchedAt, Shape, bound_names, conditions};
use crate::spec::{LockSpec, Part, Variables};
use acquire::{Acquiring, rendered};
use tokens::{ImplAsUnderscore, reference};

/// The annotated function, locked.
pub(crate) fn expand(function: &Function, spec: &LockSpec) -> TokenStream {
    let expansion = Expansion::new(function, spec);
    let tokens = match &function.shape {
        Shape::Sync => expansion.synchronous(),
        Shape::Async | Shape::Future(_) => expansion.asynchronous(),
    };
    function.with_body(&tokens)
}

/// The annotated function, not locked: for an attribute with mistakes. Its body finds the names that it expects
/// from the attribute, and its arguments count as used, so that nothing else is reported.
pub(crate) fn unlocked(function: &Function, krate: &TokenStream, variables: &Variables) -> TokenStream {
    let Variables { guard, token, fence, transaction } = variables;
    let private = quote!(#krate::__private);
    let body = function.body.stream();
    let transaction = transaction.as_ref();
    let bind =
        |name: &Ident, ty: TokenStream| quote!(let #name: #ty = #private::placeholder(); let _ = &#name;);
    let guard = guard.as_ref().map(|name| bind(name, quote!(&#krate::Held)));
    let token = token.as_ref().map(|name| bind(name, quote!(#krate::FencingToken)));
    let fence = fence.as_ref().map(|name| bind(name, quote!(#krate::fence::Fence)));
    let transaction = transaction.map(|(name, database)| {
        let database = reference(database);
        let of = match function.shape {
            Shape::Sync => quote!(connection_of),
            Shape::Async | Shape::Future(_) => quote!(transaction_of),
        };
        quote!(let #name = #private::#of(#database); let _ = &#name;)
    });
    let mut used = TokenStream::new();
    if let Some(FnArg::Receiver(receiver)) = function.sig.inputs.first() {
        let receiver = Ident::new("self", receiver.self_token.span);
        used.extend(quote!(let _ = &#receiver;));
    }
    for input in &function.sig.inputs {
        if let FnArg::Typed(typed) = input {
            let mut names = Vec::new();
            bound_names(&typed.pat, &mut names);
            let attrs = conditions(&typed.attrs);
            if !names.is_empty() {
                used.extend(quote!(#(#attrs)* let _ = (#(&#names,)*);));
            }
        }
    }
    let renamed = function.renamed.iter().map(|renamed| {
        let (ident, pat, attrs) = (&renamed.ident, &renamed.pat, &renamed.attrs);
        let mut names = Vec::new();
        bound_names(pat, &mut names);
        quote!(#(#attrs)* let #pat = #ident; #(#attrs)* let _ = (#(&#names,)*);)
    });
    function.with_own_body(&quote!(#(#renamed)* #guard #token #fence #transaction #used #body))
}

/// The key of `key!`, an expression of type `Result<LockKey, LockError>`.
pub(crate) fn key_macro(krate: &TokenStream, values: &[(Ident, Expr)], parts: &[Part]) -> TokenStream {
    let private = quote_spanned!(Span::mixed_site()=> #krate::__private);
    let key = rendered(&private, parts);
    let names = values.iter().map(|(name, _)| name);
    let values = values.iter().map(|(_, value)| reference(value));
    quote_spanned! {Span::mixed_site()=>
        match (#(#values,)*) { (#(#names,)*) => #key }
    }
}

/// The variable that most expansions have for the result.
fn result_variable() -> TokenStream {
    quote_spanned!(Span::mixed_site()=> __distlock_result)
}

struct Expansion<'a> {
    function: &'a Function,
    spec: &'a LockSpec,
    /// `::distlock::__private`
    private: TokenStream,
    /// The return type as it can be written in a body: `impl Trait` is `_`. `None` where nothing is known.
    returns: Option<TokenStream>,
}

impl<'a> Expansion<'a> {
    fn new(function: &'a Function, spec: &'a LockSpec) -> Self {
        let krate = &spec.krate;
        let private = quote_spanned!(Span::mixed_site()=> #krate::__private);
        let returns = match function.output().cloned() {
            None => Some(quote_spanned!(Span::mixed_site()=> ())),
            Some(mut ty) => {
                ImplAsUnderscore.visit_type_mut(&mut ty);
                (!matches!(ty, Type::Infer(_))).then(|| ty.to_token_stream())
            }
        };
        Expansion { function, spec, private, returns }
    }

    /// `::<R>`, or `::<_>`.
    fn turbofish(&self) -> TokenStream {
        match &self.returns {
            Some(ty) => quote_spanned!(Span::mixed_site()=> ::<#ty>),
            None => quote_spanned!(Span::mixed_site()=> ::<_>),
        }
    }

    /// A variant of `OnLost`.
    fn on_lost(&self) -> Ident {
        Ident::new(if self.spec.options.continues { "Continue" } else { "Cancel" }, Span::mixed_site())
    }

    fn asynchronous(&self) -> TokenStream {
        let Expansion { private, .. } = self;
        let (edge, prelude) = match &self.function.shape {
            Shape::Future(future) => {
                let statements = &future.prelude;
                (self.return_edge(), quote!(#(#statements)*))
            }
            _ => (None, TokenStream::new()),
        };
        let on_lost = self.on_lost();
        if self.is_one_section() {
            return self.one_section(&on_lost);
        }
        let finish = self.finish(&result_variable());
        let (acquire, checks) = (self.acquire(Acquiring::Async, &prelude), self.checks());
        let (body, commit) = match &self.spec.options.transaction {
            Some(transaction) => {
                let commit = quote_spanned! {Span::mixed_site()=>
                    let __distlock_result = #private::commit(__distlock_result).await;
                };
                (self.in_transaction(transaction), Some(commit))
            }
            None => (self.future(&TokenStream::new()), None),
        };
        quote_spanned! {Span::mixed_site()=>
            let __distlock_lock = #private::Slot::new();
            let __distlock_result = 'lock: {
                #edge
                #acquire
                #checks
                let __distlock_body = #private::pin!(#private::Some(#body));
                let __distlock_result =
                    #private::hold(__distlock_held, #private::OnLost::#on_lost, __distlock_body).await;
                #commit
                __distlock_result
            };
            __distlock_lock.release().await;
            #finish
        }
    }

    /// Whether one future can acquire, run the body and release. It cannot if something outside the body has to be
    /// dropped before the release, that is, values that the patterns of arguments do not bind, or variables of the
    /// statements of an `async move` block. It cannot with `on_busy` either, which may use the arguments after the lock
    /// was found busy.
    fn is_one_section(&self) -> bool {
        let is_async = matches!(self.function.shape, Shape::Async);
        // A transaction is committed between the body and the release.
        let options = &self.spec.options;
        is_async && !self.leaves_behind() && options.on_busy.is_none() && options.transaction.is_none()
    }

    /// Whether a pattern is matched before the acquisition, and may leave a value unbound there.
    fn leaves_behind(&self) -> bool {
        self.function.renamed.iter().any(|renamed| renamed.place == MatchedAt::InFront)
    }

    /// The whole function.
    fn one_section(&self, on_lost: &Ident) -> TokenStream {
        let private = &self.private;
        let (asked, checks) = (self.asked(), self.checks());
        let options = &self.spec.options;
        let uses_lock = options.guard.is_some() || options.token.is_some() || options.fence.is_some();
        if !uses_lock {
            let body = self.future(&TokenStream::new());
            let section =
                quote_spanned!(Span::mixed_site()=> #private::section(__distlock_entered, #body).await);
            // Without a variable for the result, which costs compile time.
            let finish = self.finish(&section);
            return quote_spanned! {Span::mixed_site()=>
                let __distlock_entered = #private::enter(#asked, #private::OnLost::#on_lost);
                #checks
                #finish
            };
        }
        let place = self.place_of_guard();
        // The body is there before the lock.
        let slot = quote_spanned!(place=> let __distlock_slot = &__distlock_lock;);
        let held = quote_spanned!(place=> let __distlock_held = __distlock_slot.held(););
        let body = self.future(&held);
        let finish = self.finish(&result_variable());
        quote_spanned! {Span::mixed_site()=>
            let __distlock_lock = #private::Slot::new();
            let __distlock_result = {
                let __distlock_asked = #asked;
                #checks
                #slot
                let __distlock_body = #private::pin!(#private::Some(#body));
                let __distlock_result = #private::section_in(
                    &__distlock_lock,
                    __distlock_asked,
                    #private::OnLost::#on_lost,
                    __distlock_body,
                )
                .await;
                __distlock_result
            };
            #finish
        }
    }

    fn synchronous(&self) -> TokenStream {
        let Expansion { private, .. } = self;
        let acquire = self.acquire(Acquiring::Blocking, &TokenStream::new());
        let checks = self.checks();
        let transaction = self.spec.options.transaction.as_ref();
        let result = match transaction {
            Some(transaction) => {
                let body = self.in_blocking_transaction(transaction);
                quote_spanned!(Span::mixed_site()=> #private::hold_blocking(__distlock_held, #body))
            }
            None => {
                let body = self.closure();
                quote_spanned!(Span::mixed_site()=> #private::Ok(#private::hold_blocking(__distlock_held, #body)))
            }
        };
        // A committed transaction does not count as a loss.
        let release = if self.spec.options.continues || transaction.is_some() {
            quote_spanned!(Span::mixed_site()=> __distlock_lock.release_blocking();)
        } else {
            quote_spanned! {Span::mixed_site()=>
                let __distlock_lost = __distlock_lock.finish_blocking();
                let __distlock_result = match (__distlock_result, __distlock_lost) {
                    (#private::Ok(__distlock_value), #private::Some(__distlock_error)) if {
                        use #private::AnyOutcome as _;
                        #private::Outcome(&__distlock_value).is_success()
                    } => #private::Err(__distlock_error),
                    (__distlock_result, _) => __distlock_result,
                };
            }
        };
        let finish = self.finish(&result_variable());
        quote_spanned! {Span::mixed_site()=>
            let __distlock_lock = #private::Slot::new();
            let __distlock_result = 'lock: {
                #acquire
                #checks
                #result
            };
            #release
            #finish
        }
    }
}
