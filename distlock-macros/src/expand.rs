//! The expansion. It takes a validated spec and cannot fail.
//!
//! An `async fn f(a: A) -> R` becomes
//!
//! ```text
//! async fn f(a: A) -> R {
//!     let mut slot = Slot::new();
//!     let result = 'lock: {
//!         let manager = current() or break 'lock Err;
//!         let key = key(..);
//!         let request = request(&manager, key, label).ttl(..)..;
//!         let held = slot.acquire(request).await or break 'lock Err;
//!         let body = pin!(async move { if false { return a value of R } let _ = (&a,); { body } });
//!         hold(Some(held), on_lost, body).await
//!     };
//!     slot.release().await;
//!     finish::<R>(result)
//! }
//! ```
//!
//! The slot is declared before everything else and outlives it: whatever the body was given has been dropped
//! when the lock is released, also when the future is dropped half-way or the body panics. Every argument is
//! moved into the body by `let _ = (&a,)`, whether or not the body uses it. Every generated name has mixed-site
//! hygiene, so that no name of the user can mean one of ours.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprMethodCall, ExprReference, FnArg, LitStr, Type};

use crate::item::{Function, Shape, bound_names};
use crate::spec::{Amount, Key, Keys, LockSpec, OnLost, Part, Route, Wait};

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
pub(crate) fn unlocked(
    function: &Function,
    krate: &TokenStream,
    guard: Option<&Ident>,
    token: Option<&Ident>,
) -> TokenStream {
    let private = quote!(#krate::__private);
    let body = function.body.stream();
    let mut names: Vec<_> = guard.into_iter().chain(token).cloned().collect();
    let guard = guard.map(|name| quote!(let #name: &#krate::Guard = #private::placeholder();));
    let token = token.map(|name| quote!(let #name: #krate::FencingToken = #private::placeholder();));
    for input in &function.sig.inputs {
        match input {
            FnArg::Receiver(receiver) => names.push(Ident::new("self", receiver.self_token.span)),
            FnArg::Typed(typed) => bound_names(&typed.pat, &mut names),
        }
    }
    let renamed = function.renamed.iter().map(|renamed| {
        bound_names(&renamed.pat, &mut names);
        let (ident, pat) = (&renamed.ident, &renamed.pat);
        quote!(let #pat = #ident;)
    });
    let renamed = quote!(#(#renamed)*);
    function.with_own_body(&quote!(#renamed #guard #token let _ = (#(&#names,)*); #body))
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

    fn asynchronous(&self) -> TokenStream {
        let Expansion { private, .. } = self;
        let prelude = match &self.function.shape {
            Shape::Future(future) => {
                let (statements, edge) = (&future.prelude, self.return_edge());
                quote!(#(#statements)* #edge)
            }
            _ => TokenStream::new(),
        };
        let acquire = self.acquire(&quote_spanned!(Span::mixed_site()=> slot.acquire(request).await));
        let on_lost = match self.spec.on_lost {
            OnLost::Cancel | OnLost::Error => quote_spanned!(Span::mixed_site()=> Cancel),
            OnLost::Continue => quote_spanned!(Span::mixed_site()=> Continue),
        };
        let edge = self.return_edge();
        let body = self.body();
        let finish = self.finish();
        quote_spanned! {Span::mixed_site()=>
            let mut slot = #private::Slot::new();
            let result = 'lock: {
                #prelude
                #acquire
                let body = #private::pin!(async move { #edge #body });
                let result = #private::hold(held, #private::OnLost::#on_lost, body).await;
                result
            };
            slot.release().await;
            #finish
        }
    }

    fn synchronous(&self) -> TokenStream {
        let Expansion { private, .. } = self;
        let acquire = self.acquire(&quote_spanned!(Span::mixed_site()=> slot.acquire_blocking(request)));
        let returns = self.returns.as_ref().map(|ty| quote_spanned!(Span::mixed_site()=> -> #ty));
        let body = self.body();
        let release = match self.spec.on_lost {
            OnLost::Continue => quote_spanned!(Span::mixed_site()=> slot.release_blocking();),
            OnLost::Cancel | OnLost::Error => quote_spanned! {Span::mixed_site()=>
                let lost = slot.finish_blocking();
                let result = match (result, lost) {
                    (#private::Ok(value), #private::Some(error)) if {
                        use #private::AnyOutcome as _;
                        #private::Outcome(&value).is_success()
                    } => #private::Err(error),
                    (result, _) => result,
                };
            },
        };
        let finish = self.finish();
        quote_spanned! {Span::mixed_site()=>
            let mut slot = #private::Slot::new();
            let result = 'lock: {
                #acquire
                #private::Ok(#private::hold_blocking(held, move || #returns { #body }))
            };
            #release
            #finish
        }
    }

    /// Statements that bind `held`, an `Option<&Held>`, or leave the block `'lock` with an error.
    fn acquire(&self, acquire: &TokenStream) -> TokenStream {
        let Expansion { private, spec, .. } = self;
        let renamed = self.function.renamed.iter().map(|renamed| {
            let (ident, pat) = (&renamed.ident, &renamed.pat);
            // Moved here first, so that what the pattern leaves behind drops at the end of this block.
            quote_spanned!(Span::mixed_site()=> let #ident = #ident; let #pat = #ident;)
        });
        let renamed = quote!(#(#renamed)*);
        let manager = self.manager();
        let key = self.key();
        let request = self.request();
        let on_busy = self.on_busy();
        let acquire = quote_spanned! {Span::mixed_site()=>
            #manager
            #key
            #request
            let acquired = #acquire;
            #on_busy
            // The parentheses keep other macros from reading `'lock :` as a label.
            let held = match acquired {
                #private::Ok(held) => #private::Some(held),
                #private::Err(error) => break 'lock (#private::Err(error)),
            };
        };
        match &spec.when {
            None => quote!(#renamed #acquire),
            Some(when) => quote_spanned! {Span::mixed_site()=>
                #renamed
                let when: bool = #when;
                let held = if when { #acquire held } else { #private::None };
            },
        }
    }

    fn manager(&self) -> TokenStream {
        let private = &self.private;
        match &self.spec.manager {
            None => quote_spanned! {Span::mixed_site()=>
                let manager = match #private::current() {
                    #private::Ok(manager) => manager,
                    #private::Err(error) => break 'lock (#private::Err(error)),
                };
            },
            Some(manager) => {
                let manager = method(manager, "as_lock_manager");
                quote_spanned! {Span::mixed_site()=>
                    let manager = {
                        use #private::AsLockManager as _;
                        #manager
                    };
                }
            }
        }
    }

    fn key(&self) -> TokenStream {
        let private = &self.private;
        let one = |key: &Key| match key {
            Key::Template(parts) => rendered(private, parts),
            Key::Expr(expr) => {
                // Reported there, if it is no key.
                let method = Ident::new("key", Span::mixed_site().located_at(expr.span()));
                let expr = reference(expr);
                quote_spanned! {Span::mixed_site()=> {
                    use #private::AnyKey as _;
                    #private::KeyOf(#expr).#method()
                }}
            }
        };
        match &self.spec.keys {
            Keys::One(key) => {
                let key = one(key);
                quote_spanned!(Span::mixed_site()=> let key = #key;)
            }
            Keys::Many(keys) => {
                let keys = keys.iter().map(one);
                quote_spanned!(Span::mixed_site()=> let keys = #private::keys([#(#keys),*]);)
            }
            Keys::Iter(expr) => {
                // Reported there, if it is no iterator of keys.
                let place = Span::mixed_site().located_at(expr.span());
                let private = located_at(private.clone(), place);
                quote_spanned!(place=> let keys = #private::keys(#expr);)
            }
        }
    }

    fn request(&self) -> TokenStream {
        let Expansion { private, spec, .. } = self;
        let label = match &spec.label {
            Some(label) => label.clone(),
            None => {
                let name = &self.function.sig.ident;
                quote_spanned! {Span::mixed_site()=>
                    #private::concat!(#private::module_path!(), "::", #private::stringify!(#name))
                }
            }
        };
        let start = match &spec.keys {
            Keys::One(_) => quote_spanned!(Span::mixed_site()=> request(&manager, key, #label)),
            Keys::Many(_) | Keys::Iter(_) => {
                quote_spanned!(Span::mixed_site()=> request_all(&manager, keys, #label))
            }
        };
        let mut steps = TokenStream::new();
        let mut step = |name: &str, argument: Option<TokenStream>| {
            let name = Ident::new(name, Span::mixed_site());
            steps.extend(quote_spanned!(Span::mixed_site()=> .#name(#argument)));
        };
        let amount = |amount: &Amount| match amount {
            Amount::Millis(millis) => quote_spanned!(Span::mixed_site()=> #private::millis(#millis)),
            Amount::Expr(expr) => expr.to_token_stream(),
        };
        if let Some(ttl) = &spec.ttl {
            step("ttl", Some(amount(ttl)));
        }
        match &spec.wait {
            Wait::Default => {}
            Wait::No => step("no_wait", None),
            Wait::Forever => step("wait_forever", None),
            Wait::For(wait) => step("wait", Some(amount(wait))),
            Wait::Retries { times, delay } => {
                let delay = delay.as_ref().map(|delay| {
                    let delay = amount(delay);
                    quote_spanned!(Span::mixed_site()=> .delay(#delay))
                });
                step(
                    "retry",
                    Some(quote_spanned!(Span::mixed_site()=> #private::Retry::times(#times)#delay)),
                );
            }
        }
        if !spec.renew {
            step("no_renew", None);
        }
        if let Some(max) = &spec.max_hold {
            step("max_hold", Some(amount(max)));
        }
        if let Some(min) = &spec.min_hold {
            step("min_hold", Some(amount(min)));
        }
        if spec.shared {
            step("shared", None);
        }
        if let Some(max) = &spec.max_holders {
            step("max_holders", Some(max.to_token_stream()));
        }
        if spec.reentrant {
            step("reentrant", None);
        }
        if spec.token.is_some() {
            step("fenced", None);
        }
        quote_spanned!(Span::mixed_site()=> let request = #private::#start #steps;)
    }

    fn on_busy(&self) -> Option<TokenStream> {
        let private = &self.private;
        let on_busy = self.spec.on_busy.as_ref()?;
        let value = match self.function.output() {
            Some(_) => quote_spanned!(Span::mixed_site()=> return #on_busy;),
            None => quote_spanned! {Span::mixed_site()=>
                let () = #on_busy;
                #[allow(unreachable_code)]
                return;
            },
        };
        Some(quote_spanned! {Span::mixed_site()=>
            if #private::is_busy(&acquired) {
                #private::drop(acquired);
                #[allow(unreachable_code, clippy::diverging_sub_expression)]
                #value
            }
        })
    }

    /// What the body's future or closure contains.
    fn body(&self) -> TokenStream {
        let Expansion { private, spec, .. } = self;
        let captures = self.captures();
        let krate = &spec.krate;
        let guard = spec.guard.as_ref().map(
            |name| quote_spanned!(Span::mixed_site()=> let #name: &#krate::Guard = #private::guard(held);),
        );
        let token = spec.token.as_ref().map(|name| {
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

    /// Moves every argument into the body as a whole.
    fn captures(&self) -> Option<TokenStream> {
        let mut names = Vec::new();
        match &self.function.shape {
            Shape::Future(future) => names.clone_from(&future.rebound),
            Shape::Sync | Shape::Async => {
                for input in &self.function.sig.inputs {
                    match input {
                        FnArg::Receiver(receiver) => names.push(Ident::new("self", receiver.self_token.span)),
                        FnArg::Typed(typed) => bound_names(&typed.pat, &mut names),
                    }
                }
                for renamed in &self.function.renamed {
                    bound_names(&renamed.pat, &mut names);
                }
            }
        }
        (!names.is_empty()).then(|| {
            quote_spanned! {Span::mixed_site()=>
                #[allow(clippy::used_underscore_binding)]
                let _ = (#(&#names,)*);
            }
        })
    }

    /// A dead `return` that tells an async block its type, as a signature would, for `?` and for coercions.
    fn return_edge(&self) -> Option<TokenStream> {
        let returns = self.returns.as_ref()?;
        let place = self.function.output().map_or_else(Span::mixed_site, |ty| ty.span());
        let private = located_at(self.private.clone(), place);
        Some(quote_spanned! {Span::mixed_site().located_at(place)=>
            if false {
                return #private::placeholder::<#returns>();
            }
        })
    }

    /// Turns `result`, a `Result<R, LockError>`, into the function's value.
    fn finish(&self) -> TokenStream {
        let turbofish = self.turbofish();
        let place = self.function.output().map_or_else(Span::mixed_site, |ty| ty.span());
        let private = located_at(self.private.clone(), place);
        match &self.spec.route {
            Route::From if self.spec.on_busy.is_some() => {
                quote_spanned!(Span::mixed_site()=> #private::finish_unless_busy #turbofish (result))
            }
            Route::From => quote_spanned!(Span::mixed_site()=> #private::finish #turbofish (result)),
            Route::MapErr(map) => {
                // Reported there, if it is no `Result`.
                let place = Span::mixed_site().located_at(place);
                quote_spanned!(place=> #private::finish_map_err #turbofish (result, #map))
            }
            Route::OnError(on_error) => {
                quote_spanned!(Span::mixed_site()=> #private::finish_on_error #turbofish (result, #on_error))
            }
        }
    }
}

/// `impl Trait` cannot be written in a body.
struct ImplAsUnderscore;

impl VisitMut for ImplAsUnderscore {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        match ty {
            Type::ImplTrait(_) => {
                *ty = Type::Infer(syn::TypeInfer { attrs: Vec::new(), underscore_token: Default::default() })
            }
            Type::Group(group) if matches!(*group.elem, Type::ImplTrait(_)) => {
                self.visit_type_mut(&mut group.elem);
                let inner = (*group.elem).clone();
                *ty = inner;
            }
            ty => visit_mut::visit_type_mut(self, ty),
        }
    }
}

/// A template as a `Result<LockKey, LockError>`.
fn rendered(private: &TokenStream, parts: &[Part]) -> TokenStream {
    let parts = parts.iter().map(|part| match part {
        Part::Text(text) => {
            let text = LitStr::new(&text.value(), Span::mixed_site());
            quote_spanned!(Span::mixed_site()=> #private::Part::Text(#text))
        }
        Part::Value(value) => {
            let (name, expr) = (&value.name, &value.expr);
            let kind = match (value.raw, value.generic) {
                (false, false) => "value",
                (false, true) => "generic",
                (true, false) => "raw",
                (true, true) => "raw_generic",
            };
            let kind = Ident::new(kind, Span::mixed_site());
            let ty = value.ty.as_ref().map(|ty| quote_spanned!(Span::mixed_site()=> ::<#ty>));
            let borrow = syn::Token![&](value.place);
            quote_spanned!(Span::mixed_site()=> #private::Part::#kind #ty (#name, #borrow #expr))
        }
    });
    quote_spanned!(Span::mixed_site()=> #private::key(&[#(#parts),*]))
}

/// The same tokens, with errors reported elsewhere.
fn located_at(tokens: TokenStream, place: Span) -> TokenStream {
    let mut moved = Vec::new();
    for mut token in tokens {
        token.set_span(token.span().located_at(place));
        moved.push(token);
    }
    moved.into_iter().collect()
}

/// `&expr`, with parentheses only where they are needed.
fn reference(expr: &Expr) -> Expr {
    Expr::Reference(ExprReference {
        attrs: Vec::new(),
        and_token: syn::Token![&](Span::mixed_site()),
        mutability: None,
        expr: Box::new(expr.clone()),
    })
}

/// `expr.name()`, with parentheses only where they are needed.
fn method(expr: &Expr, name: &str) -> Expr {
    Expr::MethodCall(ExprMethodCall {
        attrs: Vec::new(),
        receiver: Box::new(expr.clone()),
        dot_token: syn::Token![.](Span::mixed_site()),
        method: Ident::new(name, Span::mixed_site().located_at(expr.span())),
        turbofish: None,
        paren_token: syn::token::Paren(Span::mixed_site()),
        args: Default::default(),
    })
}
